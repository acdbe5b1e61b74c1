"""The people of the studio: list them, show one, and check a lean card while it is written."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

from rlver_gym.core.lean import TEMPLATE
from rlver_gym.core.library import PersonaLibrary, library
from rlver_gym.core.persona import Persona
from rlver_gym.people.card_check import check_cards
from rlver_gym.studio.asks import Name, Words
from rlver_gym.studio.views import Json, view_person

_LINE = re.compile(r"(?:line (\d+): )?(?:([a-z_]+(?:\.[a-z0-9_]+)*): )?(.*)", re.DOTALL)
_CARD = "your-card"


class People:
    """Those of a folder, as `library` takes it."""

    def __init__(self, personas: str | None = None) -> None:
        """Raises CardError for a folder that cannot be used."""
        self._shelf = library(personas)

    def index(self) -> list[Json]:
        """Who is there, by their pairings; no card is read."""
        return [pairing.model_dump(mode="json") for pairing in self._shelf.pairings.values()]

    def show(self, persona: Name) -> Json:
        """One person whole, with what a good answer could touch."""
        found = self._shelf.get(persona)
        anchors = [[kind, anchor.text] for kind, anchor in found.situation.anchors.each()]
        return {**view_person(found), "split": found.split, "anchors": anchors}

    def template(self) -> Json:
        """A lean card to fill in."""
        return {"card": TEMPLATE.read_text(encoding="utf-8")}

    def check(self, card: Words) -> list[Json]:
        """What is wrong with a lean card: line, field and what to do; empty when it can be used."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / f"{_CARD}.yaml"
            path.write_text(card, encoding="utf-8")
            return [_split(one.problem.replace(str(path), path.name)) for one in check_cards(path)]


def read_lean_card(card: str) -> Persona:
    """The person of a lean card. CardError for one that cannot be used."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{_CARD}.yaml"
        path.write_text(card, encoding="utf-8")
        return PersonaLibrary(path).get(_CARD)


def _split(problem: str) -> Json:
    found = _LINE.fullmatch(problem.removeprefix(f"{_CARD}.yaml: "))
    line, field, remedy = found.groups() if found else (None, None, problem)
    return {"line": int(line) if line else None, "field": field or "", "remedy": remedy}
