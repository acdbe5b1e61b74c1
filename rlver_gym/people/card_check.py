"""What is wrong with a card, beyond what its types can see, and what to do."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rlver_gym.core.persona import Manner, Person, Situation
from rlver_gym.core.words import is_short, sentences
from rlver_gym.library.personas import (
    PersonaLibrary,
    list_card_files,
    list_lean_card_files,
    load_card,
    shipped_personas_folder,
)
from rlver_gym.people.check_answers import find_answer_problems
from rlver_gym.people.check_facts import find_fact_problems
from rlver_gym.people.lean_card_check import check_lean_cards
from rlver_gym.people.library_check import check_library, check_library_file
from rlver_gym.people.naming import (
    NAMES_OF_NEEDS,
    describe_spoken_need,
    find_name_of,
    find_unmatched_anchors,
)
from rlver_gym.people.problem import Problem, make_problems_from_error
from rlver_gym.util.errors import CardError
from rlver_gym.util.files import path_inside
from rlver_gym.util.yaml_file import read_yaml

_MAX_PROBLEMS = 200
"""Of one folder: whoever has mended these looks again."""


def check_cards(path: Path) -> list[Problem]:
    """What is wrong with a folder of cards or one file, of very many problems the first."""
    if path.is_dir():
        problems: dict[Problem, None] = {}  # a broken card is met again by its pairings
        for problem in _check_folder(path):
            problems[problem] = None
            if len(problems) > _MAX_PROBLEMS:
                return [
                    *list(problems)[:-1],
                    Problem.of(path, "there are more problems. Mend these first."),
                ]
        return list(problems)
    if path.suffix == ".jsonl":
        PersonaLibrary(path)
        return []
    folder = path.absolute().parent
    if (folder.parent / "stories").is_dir() and folder.name in ("people", "stories"):
        return list(check_library_file(path))
    kind = {"people": Person, "situations": Situation}.get(folder.name)
    return list(_check_file(kind, path) if kind and _is_rich(path) else check_lean_cards([path]))


def _is_rich(path: Path) -> bool:
    """Whether a file in such a folder is a card of its kind, and no lean card that lies there."""
    try:
        value = read_yaml(path)
    except CardError:
        return True
    return not (isinstance(value, dict) and "meets" in value)


def _check_folder(folder: Path) -> Iterator[Problem]:
    try:
        yield from _check_cards_of(folder)
    except CardError as error:
        yield from make_problems_from_error(error, folder)


def _check_cards_of(folder: Path) -> Iterator[Problem]:
    if files := list_lean_card_files(folder):
        yield from check_lean_cards(files)
        return
    if (folder / "stories").exists():
        yield from check_library(folder)
        return
    for name, kind in (("people", Person), ("situations", Situation)):
        for path in list_card_files(folder / name):
            yield from _check_file(
                kind, path, None if folder == shipped_personas_folder() else folder
            )
    try:
        yield from _check_index(PersonaLibrary(folder))
    except CardError as error:
        yield from make_problems_from_error(error, folder / "index.yaml")


def _check_file(
    kind: type[Person] | type[Situation], path: Path, folder: Path | None = None
) -> Iterator[Problem]:
    try:
        if folder is not None:
            path_inside(folder, *path.relative_to(folder).parts, error=CardError)
        card = load_card(kind, path)
    except CardError as error:
        yield from make_problems_from_error(error, path)
        return
    if isinstance(card, Person):
        problems = find_person_problems(card)
    else:
        problems = [*find_situation_problems(card), *find_unmatched_anchors(card)]
    yield from (Problem.of(path, problem) for problem in problems)


def _check_index(folder: PersonaLibrary) -> Iterator[Problem]:
    path = folder.folder / "index.yaml"
    broken: set[tuple[str, str]] = set()
    split_of: dict[tuple[str, str], str] = {}
    for pairing in folder.pairings.values():
        for kind, name in (("person", pairing.person), ("situation", pairing.situation)):
            other = split_of.setdefault((kind, name), pairing.split)
            if other != pairing.split:
                yield Problem.of(
                    path,
                    f"{pairing.id}: the {kind} {name!r} is in {other} and in {pairing.split}. A"
                    " split must not know another's people.",
                )
        cards: list[Person | Situation] = []
        for kind, name, load in (
            ("people", pairing.person, folder.person),
            ("situations", pairing.situation, folder.situation),
        ):
            if (kind, name) in broken:
                continue
            try:
                cards.append(load(name))
            except CardError as error:
                broken.add((kind, name))
                yield from make_problems_from_error(error, folder.folder / kind / f"{name}.yaml")
        match cards:
            case [Person() as person, Situation() as situation]:
                yield from (
                    Problem.of(path, f"{pairing.id}: {problem}")
                    for problem in _find_misfits(person, situation)
                )


def _find_misfits(person: Person, situation: Situation) -> Iterator[str]:
    fits = situation.fits
    if not fits.ages[0] <= person.age <= fits.ages[1]:
        yield (
            f"{person.name} is {person.age}, the situation is for {fits.ages[0]} to {fits.ages[1]}."
            " Pair differently."
        )
    if fits.life and not set(fits.life) & set(person.life):
        yield (
            f"the situation is for {list(fits.life)}, {person.name} is {list(person.life)}. Pair"
            " differently."
        )


def find_situation_problems(situation: Situation) -> list[str]:
    """What types cannot see: a hint that names its need, a sentence that could be said twice."""
    problems = []
    for need in NAMES_OF_NEEDS:
        for number, hint in enumerate(situation.hints.of(need)):
            if named := find_name_of(need, hint):
                problems.append(
                    f"hints.{need.value}.{number}: names the need ({named!r}). Let it show"
                    " through what they say instead."
                )
    for place, line in situation.lines():
        if not place.startswith("hints.") and (problem := describe_spoken_need(line)):
            problems.append(f"{place}: {problem}")
    low, high = situation.fits.ages
    if not 16 <= low <= high <= 99:
        problems.append(f"fits.ages: [{low}, {high}] must rise within 16 to 99.")
    ids = Counter(disclosure.id for disclosure in situation.disclosures)
    problems += [
        f"disclosures: the id {name!r} stands twice. Rename one."
        for name in sorted(ids)
        if ids[name] > 1
    ]
    kinds = Counter(f"{kind}.{anchor.id}" for kind, anchor in situation.anchors.each())
    problems += [
        f"anchors: {name!r} stands twice. Rename one." for name in sorted(kinds) if kinds[name] > 1
    ]
    problems += find_fact_problems(situation.facts, set(ids))
    problems += [
        f"people.{who.name}.introduction: must hold the name {who.name!r}, as in 'my neighbour"
        f" {who.name}'."
        for who in situation.people
        if who.introduction is not None and who.name not in who.introduction
    ]
    problems += find_answer_problems(situation)
    return problems + _find_repeats(situation.lines())


def find_person_problems(person: Person) -> list[str]:
    # Only one goodbye is ever said.
    lines = (
        ("manner.goodbye" if kind.startswith("goodbye") else f"manner.{kind}.{number}", line)
        for kind in Manner.model_fields
        for number, line in enumerate(getattr(person.manner, kind))
    )
    return [*find_fact_problems(person.facts), *_find_repeats(lines)]


def _find_repeats(lines: Iterator[tuple[str, str]]) -> list[str]:
    first: dict[str, str] = {}
    repeats = []
    for place, line in lines:
        for sentence in sentences(line):
            key = sentence.casefold()
            if is_short(sentence):  # people say "Yes." again and again
                continue
            if (
                first.get(key, place) != place
            ):  # tones of one disclosure, and goodbyes, are alternatives
                repeats.append(
                    f"{place}: the sentence {sentence!r} stands at {first[key]} too. Say it"
                    " differently."
                )
            first.setdefault(key, place)
    return repeats
