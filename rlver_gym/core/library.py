"""Where personas come from: folders of cards, the shipped ones or anybody's.

Finds, loads and pairs them.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

from rlver_gym.core.persona import HiddenNeed, Person, Persona, Situation, Slug, Split, SplitChoice
from rlver_gym.io.errors import CardError, UnknownName
from rlver_gym.io.files import path_inside, shipped_cards
from rlver_gym.io.frozen import Frozen, explain_problem
from rlver_gym.io.terminal import one_line
from rlver_gym.io.yaml_file import read_yaml

Card = TypeVar("Card", bound=BaseModel)
LAYOUT = (
    "A folder of personas holds index.yaml (language: en, and personas: a list of id, person,"
    " situation, need, split), people/PERSON.yaml and situations/SITUATION.yaml. See `rlver-gym"
    " personas schema index`, or person, or situation."
)
MAX_PERSONAS = 5_000
"""Of one folder."""
_MAX_ERRORS = 20
"""Of one card: whoever has mended these looks again."""
_QUOTED_CHARS = 60


class Pairing(Frozen):
    """One line of an index: who is in which situation, with which need, for which split."""

    id: Slug
    person: Slug
    situation: Slug
    need: HiddenNeed
    split: Split


class Index(Frozen):
    """The personas of one folder."""

    language: Literal["en", "zh"]
    personas: Annotated[tuple[Pairing, ...], Field(min_length=1, max_length=MAX_PERSONAS)]


def parse_card(kind: type[Card], value: Any, source: str) -> Card:
    """A plain value as a card; CardError names the file, every field that is wrong, and what is
    expected there.
    """
    if not isinstance(value, dict):
        kinds = {
            Person: "personas schema person",
            Situation: "personas schema situation",
            Index: "personas schema index",
        }
        see = kinds.get(kind, "envs show RLVER-Empathy-v0")
        raise CardError(
            f"{source}: must be a mapping of fields, not {type(value).__name__}. See `rlver-gym"
            f" {see}`."
        )
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise CardError("\n".join(f"{source}: {line}" for line in field_errors(error))) from error


def field_errors(error: ValidationError, whole: str = "the whole card") -> list[str]:
    """A line for each field that is wrong, with its remedy; `whole` names what holds the fields.

    What they quote of the fields is cut.
    """
    items = error.errors(include_url=False)[:_MAX_ERRORS]
    lines = [_field_error(item, whole) for item in items]
    more = error.error_count() - len(lines)
    return [*lines, f"{whole}: {more} more fields are wrong. Mend these first."] if more else lines


def _field_error(item: Mapping[str, Any], whole: str) -> str:
    place = ".".join(one_line(str(part), max_chars=_QUOTED_CHARS) for part in item["loc"]) or whole
    problem = f"{place}: {one_line(explain_problem(item), max_chars=4 * _QUOTED_CHARS)}"
    if item["type"] in ("missing", "extra_forbidden") or isinstance(item["input"], dict):
        return problem
    found = item["input"] if isinstance(item["input"], str) else repr(item["input"])
    return f"{problem} (found '{one_line(found, max_chars=_QUOTED_CHARS)}')"


def shipped_personas_folder(language: str = "en") -> Path:
    """The folder of the personas that come with the package."""
    return shipped_cards("personas") / language


class PersonaLibrary:
    """The personas of one folder: `index.yaml`, `people/*.yaml`, `situations/*.yaml`.

    Cards are read when asked for.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        """`folder`: None for the shipped English personas.

        Raises CardError when the index cannot be used.
        """
        self.folder = Path(folder) if folder is not None else shipped_personas_folder()
        path = self._path("index.yaml")
        index = parse_card(Index, read_yaml(path, hint=LAYOUT), str(path))
        if index.language != "en":
            raise CardError(
                f"{path}: language: is {index.language!r}, but only 'en' can be played yet: the"
                " embedded user appraises Chinese, but speaks English. Write the cards in English."
            )
        self._index = index
        self.pairings = {pairing.id: pairing for pairing in index.personas}
        self._people: dict[str, Person] = {}
        self._situations: dict[str, Situation] = {}
        self._personas: dict[str, Persona] = {}
        if len(self.pairings) < len(index.personas):
            raise CardError(
                f"{path}: personas: an id stands twice. Ids name personas, so rename one."
            )

    def _path(self, *parts: str) -> Path:
        """Of a card: inside the folder, whatever links lie there.

        The shipped folder may be links of an installer.
        """
        return (
            self.folder.joinpath(*parts)
            if self.folder == shipped_personas_folder()
            else path_inside(self.folder, *parts, error=CardError)
        )

    def ids(self, split: SplitChoice = "all", need: HiddenNeed | None = None) -> tuple[str, ...]:
        """The ids of a split (and a need), in the order of the index."""
        return tuple(
            pairing.id
            for pairing in self.pairings.values()
            if split in ("all", pairing.split) and need in (None, pairing.need)
        )

    def get(self, persona_id: str) -> Persona:
        """The persona of that id; UnknownName lists near matches, CardError says what is wrong with
        its cards.

        "ID/NEED" is the same person in the same situation with another hidden need.
        """
        if persona_id not in self._personas:
            paired_id, slash, need = persona_id.partition("/")
            pairing = self.pairings.get(paired_id)
            if pairing is None:
                raise UnknownName.of(
                    "persona", persona_id, self.pairings, "rlver-gym personas list"
                )
            self._personas[persona_id] = Persona(
                id=persona_id,
                person=self.person(pairing.person),
                situation=self.situation(pairing.situation),
                need=_parse_need(need) if slash else pairing.need,
                split=pairing.split,
                language=self._index.language,
            )
        return self._personas[persona_id]

    def person(self, card_id: str) -> Person:
        """The card of that id among `people`."""
        return self._card(self._people, Person, "person", "people", card_id)

    def situation(self, card_id: str) -> Situation:
        """The card of that id among `situations`."""
        return self._card(self._situations, Situation, "situation", "situations", card_id)

    def _card(
        self, known: dict[str, Card], kind: type[Card], field: str, folder: str, card_id: str
    ) -> Card:
        if card_id not in known:
            path = self._path(folder, f"{card_id}.yaml")
            known[card_id] = load_card(kind, path, self._explain_demand(field, card_id))
        return known[card_id]

    def _explain_demand(self, field: str, card_id: str) -> str:
        """Which entry of the index asks for a card, and what to do when there is none."""
        asking = [one.id for one in self.pairings.values() if getattr(one, field) == card_id]
        if not asking:
            return "Check the path."
        more = f" and {len(asking) - 1} more" if len(asking) > 1 else ""
        return (
            f"{self.folder / 'index.yaml'} asks for it: {field} {card_id!r} of {asking[0]!r}{more}."
            " Write the card, or correct the index."
        )


def _parse_need(name: str) -> HiddenNeed:
    if name not in list(HiddenNeed):
        raise UnknownName.of("hidden need", name, list(HiddenNeed), ", ".join(HiddenNeed))
    return HiddenNeed(name)


def load_card(kind: type[Card], path: Path, hint: str = "Check the path.") -> Card:
    """A person or situation card from its file, whose name must be its id; `hint` says what to do
    when the file cannot be read.
    """
    card = parse_card(kind, read_yaml(path, hint=hint), str(path))
    own_id = getattr(card, "id", path.stem)
    if own_id != path.stem:
        raise CardError(
            f"{path}: id: is {own_id!r}, but the file is called {path.name!r}. Make them equal."
        )
    return card


@lru_cache(maxsize=16)
def library(folder: str | None = None) -> PersonaLibrary:
    """The library of a folder (None: shipped, English), read once."""
    return PersonaLibrary(folder)
