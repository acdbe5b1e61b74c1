"""Where personas come from: folders of cards, the shipped ones or anybody's."""

import re
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import Field

from rlver_gym.core.languages import Language
from rlver_gym.core.persona import (
    SPLITS,
    HiddenNeed,
    Person,
    Persona,
    Situation,
    Slug,
    Split,
    SplitChoice,
)
from rlver_gym.library.expand import Expanded, expand_lean_card, expand_library_person, expand_story
from rlver_gym.library.lean import LeanCard, LibraryPerson, Story
from rlver_gym.library.profiles import read_profiles
from rlver_gym.util import shipped_cards
from rlver_gym.util.errors import CardError, UnknownName, check_known
from rlver_gym.util.field_errors import Card, parse_card
from rlver_gym.util.files import path_inside, stamp_file
from rlver_gym.util.frozen import Frozen
from rlver_gym.util.yaml_file import find_line, read_yaml

LAYOUT = (
    "A folder of personas holds index.yaml (language: en, and personas: a list of id, person,"
    " situation, need, split), people/PERSON.yaml and situations/SITUATION.yaml; a folder of lean"
    " cards holds one NAME.yaml a person. See `rlver-gym personas new NAME`, or `rlver-gym"
    " personas schema index`, person, situation, lean."
)
LIBRARY = "library"
"""The shipped library where personas are asked for; a folder of that name is "./library"."""
MAX_PERSONAS = 5_000
MAX_ID_CHARS = 60
_CARD_FOLDERS = ("", "people", "situations", "stories")


class Pairing(Frozen):
    """One line of an index: who, in which situation or story, with which need, for which split."""

    id: Slug
    person: Slug
    situation: Slug
    need: HiddenNeed
    split: Split


class Index(Frozen):
    """The personas of one folder."""

    help_command = "personas schema index"
    language: Language
    personas: Annotated[tuple[Pairing, ...], Field(min_length=1, max_length=MAX_PERSONAS)]


def shipped_personas_folder(language: str = "en") -> Path:
    return shipped_cards("personas") / language


class PersonaLibrary:
    """The personas of one folder: `index.yaml` with `people/*.yaml` and `situations/*.yaml`, or
    with lean people and `stories/*.yaml`, whose cards are read when asked for; or lean cards, one a
    file, in a folder or alone; or the profiles of a `.jsonl` file of SAGE or RLVER.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        """`folder`: None for the shipped English personas, "library" for the shipped library of
        lean ones; a folder, or the file of a lean card or of profiles.

        Raises CardError when the index, a lean card or a profile cannot be used.
        """
        name = LIBRARY if str(folder) == LIBRARY else "en"
        self.folder = shipped_personas_folder(name) if are_shipped(folder) else Path(str(folder))
        self.listed_by = "rlver-gym personas list"
        """Says which there are."""
        if not are_shipped(folder):
            self.listed_by += ", with the same --personas"
        self._lean_people: dict[str, LibraryPerson] = {}
        self._stories: dict[str, Story] = {}
        self.has_stories = (self.folder / "stories").is_dir()
        self._people: dict[str, Person] = {}
        self._situations: dict[str, Situation] = {}
        self._personas: dict[str, Persona] = {}
        self._profiles = read_profiles(self.folder) if self.folder.suffix == ".jsonl" else {}
        self._lean = {path.stem: read_lean_card(path) for path in list_lean_card_files(self.folder)}
        self._expanded: dict[str, Expanded] = {}
        self._free = {name for name, card in self._lean.items() if card.split is None}
        self._free |= set(self._profiles)
        self.pairings = (
            {name: _make_self_pairing(name, card.need) for name, card in self._profiles.items()}
            or {
                name: _make_self_pairing(name, card.need, card.split)
                for name, card in self._lean.items()
            }
            or self._read_index()
        )

    @property
    def source(self) -> Path:
        """What lists the personas: the index, or the file or folder of lean cards or profiles."""
        return self.folder if self._lean or self._profiles else self._path("index.yaml")

    @property
    def splits(self) -> frozenset[Split]:
        """Those that somebody is in."""
        return frozenset(pairing.split for pairing in self.pairings.values())

    def _read_index(self) -> dict[str, Pairing]:
        path = self._path("index.yaml")
        index = parse_card(Index, read_yaml(path, hint=LAYOUT), str(path))
        if index.language != "en":
            raise CardError(
                f"{path}: language: is {index.language!r}, but cards are English: their words and"
                " anchors are matched as such. Write them in English; an LLM user plays profiles in"
                " other languages."
            )
        pairings = {pairing.id: pairing for pairing in index.personas}
        if len(pairings) < len(index.personas):
            raise CardError(
                f"{path}: personas: an id stands twice. Ids name personas, so rename one."
            )
        return pairings

    def _path(self, *parts: str) -> Path:
        """Of a card: inside the folder, but for the shipped one, which may be links."""
        return (
            self.folder.joinpath(*parts)
            if self.folder in (shipped_personas_folder(), shipped_personas_folder(LIBRARY))
            else path_inside(self.folder, *parts, error=CardError)
        )

    def ids(self, split: SplitChoice = "all", need: HiddenNeed | None = None) -> tuple[str, ...]:
        """The ids of a split and need, in order. Cards without a split are in each."""
        return tuple(
            pairing.id
            for pairing in self.pairings.values()
            if (split in ("all", pairing.split) or pairing.id in self._free)
            and need in (None, pairing.need)
        )

    def split_of(self, persona_id: str, asked: str | None) -> Split:
        """The split that somebody is in, or was drawn for: cards without one are in the `asked`."""
        is_free = persona_id in self._free and asked in SPLITS
        return cast(Split, asked) if is_free else self.pairings[persona_id].split

    def get(self, persona_id: str) -> Persona:
        """The persona of that id; UnknownName lists near matches, CardError says what is wrong with
        its cards.

        "ID/NEED" is the same person in the same situation with another hidden need.
        """
        if persona_id not in self._personas:
            paired_id, slash, need = persona_id.partition("/")
            pairing = self.pairings.get(paired_id)
            if pairing is None:
                raise UnknownName.of("persona", persona_id, self.pairings, self.listed_by)
            profile = self._profiles.get(paired_id)
            person, situation = self._cards_of(pairing)
            self._personas[persona_id] = Persona(
                id=persona_id,
                person=person,
                situation=situation,
                need=_parse_need(need) if slash else pairing.need,
                split=pairing.split,
                language=profile.language if profile else "en",
            )
        return self._personas[persona_id]

    def _cards_of(self, pairing: Pairing) -> Expanded:
        if profile := self._profiles.get(pairing.id):
            return Expanded(profile.person, profile.situation)
        if not self.has_stories:
            return Expanded(self.person(pairing.person), self.situation(pairing.situation))
        lean, story = self.lean_person(pairing.person), self.story(pairing.situation)
        if pairing.person not in self._people:
            self._people[pairing.person] = expand_library_person(pairing.person, lean)
        told = f"{pairing.situation}/{pairing.need}/{lean.disposition}"
        if told not in self._situations:
            if pairing.need not in story.needs:
                raise CardError(
                    f"{self.folder / 'index.yaml'}: {pairing.id}: the story has nothing for the"
                    f" need {pairing.need.value!r}. It has {', '.join(story.needs)}."
                )
            self._situations[told] = expand_story(
                pairing.situation, story, pairing.need, lean.disposition
            )
        return Expanded(self._people[pairing.person], self._situations[told])

    def lean_person(self, card_id: str) -> LibraryPerson:
        """The person of that id in a folder of stories."""
        return self._card(self._lean_people, LibraryPerson, "person", "people", card_id)

    def story(self, card_id: str) -> Story:
        """The story of that id in a folder of stories."""
        return self._card(self._stories, Story, "situation", "stories", card_id)

    def person(self, card_id: str) -> Person:
        """The card of that id among `people`, or of that lean card."""
        if card_id in self._lean:
            return self._expand(card_id).person
        return self._card(self._people, Person, "person", "people", card_id)

    def situation(self, card_id: str) -> Situation:
        """The card of that id among `situations`, or of that lean card."""
        if card_id in self._lean:
            return self._expand(card_id).situation
        return self._card(self._situations, Situation, "situation", "situations", card_id)

    def _expand(self, card_id: str) -> Expanded:
        if card_id not in self._expanded:
            self._expanded[card_id] = expand_lean_card(card_id, self._lean[card_id])
        return self._expanded[card_id]

    def _card(
        self, known: dict[str, Card], kind: type[Card], field: str, folder: str, card_id: str
    ) -> Card:
        if card_id not in known:
            path = self._path(folder, f"{card_id}.yaml")
            index = self.folder / "index.yaml"
            hint = (
                f"{index} asks for it: {field} {card_id!r}. Write the card, or correct the index."
            )
            known[card_id] = load_card(kind, path, hint)
        return known[card_id]


def _parse_need(name: str) -> HiddenNeed:
    check_known("hidden need", name, list(HiddenNeed))
    return HiddenNeed(name)


def are_shipped(personas: object) -> bool:
    """Whether these personas come with the package: None, or the library's name."""
    return personas is None or str(personas) == LIBRARY


def list_lean_card_files(folder: Path) -> list[Path]:
    """The lean cards that a path means: the file, or those of a folder that has no index."""
    if folder.is_file():
        return [] if folder.suffix == ".jsonl" else [folder]
    if any((folder / name).exists() for name in ("index.yaml", *_CARD_FOLDERS[1:])):
        return []
    return [path_inside(folder, path.name, error=CardError) for path in list_card_files(folder)]


def list_card_files(folder: Path) -> list[Path]:
    """The cards of a folder, sorted; CardError for too many, and for NAME.yml, which is none."""
    files = sorted(islice(folder.glob("*.y*ml"), MAX_PERSONAS + 1))
    if len(files) > MAX_PERSONAS:
        raise CardError(f"{folder}: holds more than {MAX_PERSONAS} cards. Split the folder.")
    if short := [path.name for path in files if path.suffix == ".yml"]:
        raise CardError(f"{folder}: cards in a folder end in .yaml. Rename {short[0]}.")
    return [path for path in files if path.suffix == ".yaml"]


def read_lean_card(path: Path) -> LeanCard:
    """A lean card from its file; CardError says in which line what is wrong."""
    check_card_name(path)
    value = read_yaml(path)
    return parse_card(LeanCard, value, str(path), lambda place: find_line(path, place))


def check_card_name(path: Path) -> None:
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", path.stem) or len(path.stem) > MAX_ID_CHARS:
        raise CardError(
            f"{path}: the file's name is the card's id. Use lower-case letters, digits and single"
            f" hyphens, at most {MAX_ID_CHARS}, such as ruth-and-the-choir.yaml."
        )


def _make_self_pairing(name: str, need: HiddenNeed, split: Split | None = None) -> Pairing:
    value = {"id": name, "person": name, "situation": name, "need": need, "split": split or "demo"}
    return parse_card(Pairing, value, name)


def load_card(kind: type[Card], path: Path, hint: str = "Check the path.") -> Card:
    """A card from its file, whose name must be its id; `hint`: when it cannot be read."""
    card = parse_card(kind, read_yaml(path, hint=hint), str(path))
    own_id = getattr(card, "id", path.stem)
    if own_id != path.stem:
        raise CardError(
            f"{path}: id: is {own_id!r}, but the file is called {path.name!r}. Make them equal."
        )
    return card


def library(folder: str | None = None) -> PersonaLibrary:
    """The library of a folder (None: shipped, English), read again once a card has changed."""
    if are_shipped(folder):
        return _read_library(folder)
    path = Path(str(folder))
    cards = [card for part in _CARD_FOLDERS for card in sorted((path / part).glob("*.yaml"))]
    return _read_library(folder, tuple(map(stamp_file, (path, *cards))))


@lru_cache(maxsize=16)
def _read_library(folder: str | None, _stamps: tuple[Any, ...] = ()) -> PersonaLibrary:
    return PersonaLibrary(folder)
