"""What is wrong with a library of people and stories: cards, pairings, and what splits share."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from rlver_gym.core.words import split_words
from rlver_gym.library.lean import LibraryPerson, Story, make_lean_cards
from rlver_gym.library.personas import PersonaLibrary, list_card_files, load_card
from rlver_gym.people.lean_card_check import find_lean_card_problems
from rlver_gym.people.problem import Problem, make_problem_with_line, make_problems_from_error
from rlver_gym.util.errors import CardError
from rlver_gym.util.field_errors import Card

_RUN = 5
"""Words in a row by which near-duplicates are found."""
_NEARLY = 0.25
"""The share of a story's runs from which it tells another one again."""


def check_library(folder: Path) -> Iterator[Problem]:
    """Every problem of a folder with `index.yaml`, `people/` and `stories/`."""
    try:
        shelf = PersonaLibrary(folder)
    except CardError as error:
        yield from make_problems_from_error(error, folder / "index.yaml")
        return
    problems: list[Problem] = []
    people = _load_sound_cards(folder / "people", shelf.lean_person, problems)
    stories = _load_sound_cards(folder / "stories", shelf.story, problems)
    yield from problems
    for name, story in stories.items():
        yield from _check_story(folder / "stories" / f"{name}.yaml", story)
    yield from _check_pairings(shelf, people, stories)
    yield from _find_names_in_two_splits(folder, people)
    yield from _find_retold_stories(folder, stories)


def _load_sound_cards(
    folder: Path, load: Callable[[str], Card], problems: list[Problem]
) -> dict[str, Card]:
    cards = {}
    for path in list_card_files(folder):
        try:
            cards[path.stem] = load(path.stem)
        except CardError as error:
            problems += make_problems_from_error(error, path)
    return cards


def find_new_card_problems(folder: Path, card: LibraryPerson | Story) -> Iterator[str]:
    """What speaks against taking a new card into a folder: itself, or what is there already.
    CardError for a card there that cannot be read.
    """
    if isinstance(card, LibraryPerson):
        people = {
            path.stem: load_card(LibraryPerson, path) for path in list_card_files(folder / "people")
        }
        if any(persona.name.casefold() == card.name.casefold() for persona in people.values()):
            yield f"name: {card.name!r} is taken. Choose another name, from anywhere."
        return
    for place, problem in _find_story_problems(card):
        yield f"{'.'.join(map(str, place))}: {problem}"
    stories = {path.stem: load_card(Story, path) for path in list_card_files(folder / "stories")}
    for found in _find_retold_stories(folder, {**stories, "this": card}):
        if Path(found.file).stem == "this":
            yield found.problem


def check_library_file(path: Path) -> Iterator[Problem]:
    try:
        if path.absolute().parent.name == "people":
            load_card(LibraryPerson, path)
        else:
            yield from _check_story(path, load_card(Story, path))
    except CardError as error:
        yield from make_problems_from_error(error, path)


def _check_story(path: Path, story: Story) -> Iterator[Problem]:
    for place, problem in _find_story_problems(story):
        yield make_problem_with_line(path, place, problem)


def _find_story_problems(story: Story) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if story.ages[0] > story.ages[1]:
        yield ("ages",), f"{list(story.ages)} must rise."
    for card in make_lean_cards(story):
        for place, problem in find_lean_card_problems(card):
            inside = ("needs", card.need.value) if place[0] in ("hints", "meets") else ()
            yield (*inside, *place), problem


def _check_pairings(
    shelf: PersonaLibrary, people: Mapping[str, LibraryPerson], stories: Mapping[str, Story]
) -> Iterator[Problem]:
    index = shelf.folder / "index.yaml"
    for pairing in shelf.pairings.values():
        person, story = people.get(pairing.person), stories.get(pairing.situation)
        for field, name, card in (
            ("person", pairing.person, person),
            ("situation", pairing.situation, story),
        ):
            if card is None:
                kind = "people" if field == "person" else "stories"
                if not (shelf.folder / kind / f"{name}.yaml").exists():
                    yield Problem.of(
                        index, f"{pairing.id}: {field}: {kind}/{name}.yaml is not there."
                    )
            elif card.split != pairing.split:
                yield Problem.of(
                    index,
                    f"{pairing.id}: the {field} {name!r} is in {card.split} and here in"
                    f" {pairing.split}. A split must not know another's people.",
                )
        if person and story:
            if misfit := person.explain_misfit(story):
                yield Problem.of(index, f"{pairing.id}: {misfit}. Pair differently.")
            if pairing.need not in story.needs:
                yield Problem.of(
                    index,
                    f"{pairing.id}: the story has nothing for {pairing.need.value!r}. It has"
                    f" {', '.join(story.needs)}.",
                )


def _find_names_in_two_splits(
    folder: Path, people: Mapping[str, LibraryPerson]
) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for card_id, person in people.items():
        other = first.setdefault(f"{person.name}, {person.work}".casefold(), card_id)
        if other != card_id:
            yield Problem.of(
                folder / "people" / f"{card_id}.yaml",
                f"name, work: the same person is people/{other}.yaml. Keep one.",
            )


def _find_retold_stories(folder: Path, stories: Mapping[str, Story]) -> Iterator[Problem]:
    """Sentences that stand in two splits, and stories that share too many runs of words."""
    sentences: dict[str, str] = {}
    runs: dict[tuple[str, ...], set[str]] = defaultdict(set)
    of_story: dict[str, set[tuple[str, ...]]] = {}
    for name, story in stories.items():
        own: set[tuple[str, ...]] = set()
        for line in _list_story_sentences(story):
            other = sentences.setdefault(line.casefold(), name)
            if stories[other].split != story.split:
                yield Problem.of(
                    folder / "stories" / f"{name}.yaml",
                    f"{line!r} stands in stories/{other}.yaml too, which is in the split"
                    f" {stories[other].split}. Say it differently.",
                )
            words = split_words(line)
            own |= {tuple(words[at : at + _RUN]) for at in range(len(words) - _RUN + 1)}
        of_story[name] = own
        shared = Counter(other for run in own for other in runs[run])
        for other, count in shared.most_common(1):
            least = min(len(own), len(of_story[other]))
            if count >= _NEARLY * least:
                yield Problem.of(
                    folder / "stories" / f"{name}.yaml",
                    f"tells stories/{other}.yaml again ({count} of {least} runs of {_RUN} words are"
                    " the same). Tell another story.",
                )
        for run in own:
            runs[run].add(name)


def _list_story_sentences(story: Story) -> Iterator[str]:
    seen = set()
    for card in make_lean_cards(story):
        for line in (*(line for place, line in card.spoken() if place[0] != "people"), *card.meets):
            if line not in seen:
                seen.add(line)
                yield line
