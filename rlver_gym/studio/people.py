"""The people of the studio: list them, show one, and check a lean card while it is written."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from rlver_gym.core.persona import Persona
from rlver_gym.library.lean import MEETS, TEMPLATE
from rlver_gym.library.personas import PersonaLibrary, library
from rlver_gym.people.card_check import check_cards
from rlver_gym.studio.request_fields import Name, Words
from rlver_gym.studio.views import Json, view_person

_LINE = re.compile(r"(?:line (\d+): )?(?:([a-z_]+(?:\.[^.:\n]+)*): )?(.*)", re.DOTALL)
_COLON = "not valid YAML: mapping values are not allowed in this context."
_CARD = "your-card"
_SAME = ("name", "age", "gender", "work", "disposition", "traits")


class People:
    """Those of a folder, as `library` takes it."""

    def __init__(self, personas: str | None = None) -> None:
        self._shelf = library(personas)

    def index(self) -> list[Json]:
        return [pairing.model_dump(mode="json") for pairing in self._shelf.pairings.values()]

    def show(self, persona: Name) -> Json:
        """One person whole, with what a good answer could touch."""
        card = self._shelf.get(persona)
        anchors = [[kind, anchor.text] for kind, anchor in card.situation.anchors.each()]
        return {**view_person(card), "split": card.split, "anchors": anchors}

    def template(self, persona: Name = "") -> Json:
        """A lean card to fill in, or somebody's card to change."""
        if persona:
            return {"card": _as_lean(self._shelf.get(persona))}
        return {"card": TEMPLATE.read_text(encoding="utf-8")}

    def check(self, card: Words) -> list[Json]:
        return _check_lean_text(card)


def _check_lean_text(card: str) -> list[Json]:
    """What is wrong with a lean card: line, field and what to do."""
    with _write_card(card) as path:
        problems = [
            _parse_problem(problem.problem.replace(str(path), path.name))
            for problem in check_cards(path)
        ]
    return sorted(problems, key=lambda problem: problem["line"] or 0)


def _as_lean(persona: Persona) -> str:
    """Somebody's card in lean form, without what that has no place for."""
    person, story = persona.person, persona.situation
    fields: Json = {
        **person.model_dump(mode="json", include=set(_SAME)),
        "speaks": " ".join(person.way_of_speaking.split()),
        "title": story.title,
        "timeline": {event.when: event.what for event in story.timeline},
        "people": {
            person.name: f"{person.introduction} ({person.pronoun})" for person in story.people
        },
        "tried": list(story.tried),
        "now": " ".join(story.now.split()),
        "openings": story.openings.model_dump(include={"normal", "low", "high"}),
        "facts": [disclosure.normal for disclosure in story.disclosures],
        "need": persona.need.value,
        "hints": list(story.hints.of(persona.need)),
        "meets": [
            anchor.text for kind, anchor in story.anchors.each() if kind == MEETS[persona.need]
        ],
    }
    text = yaml.safe_dump(fields, allow_unicode=True, sort_keys=False, width=1_000)
    for problem in reversed(_check_lean_text(text)):
        name, _, at = problem["field"].partition(".")
        if name in ("facts", "meets"):  # a sentence that needs those before it
            del fields[name][int(at)]
    return yaml.safe_dump(fields, allow_unicode=True, sort_keys=False, width=1_000)


def read_lean_card(card: str) -> Persona:
    """The person of a lean card. CardError for one that cannot be used."""
    with _write_card(card) as path:
        return PersonaLibrary(path).get(_CARD)


@contextmanager
def _write_card(card: str) -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{_CARD}.yaml"
        path.write_text(card, encoding="utf-8")
        yield path


def _parse_problem(problem: str) -> Json:
    match = _LINE.fullmatch(problem.removeprefix(f"{_CARD}.yaml: "))
    line, field, remedy = match.groups() if match else (None, None, problem)
    remedy = remedy.replace(_COLON, "a colon within a text.")
    return {"line": int(line) if line else None, "field": field or "", "remedy": remedy}
