"""What is wrong with a card, beyond what its types can see: said so that its author knows what to
do.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Self

from rlver_gym.audit.check_answers import problems_of_answers
from rlver_gym.audit.check_facts import problems_of_facts, problems_of_introductions
from rlver_gym.core.anchors import AnchorIndex
from rlver_gym.core.lean import MEETS, LeanCard, expand
from rlver_gym.core.library import (
    MAX_PERSONAS,
    PersonaLibrary,
    lean_files,
    load_card,
    read_lean,
    shipped_personas_folder,
)
from rlver_gym.core.persona import SPLITS, HiddenNeed, Manner, Person, Situation
from rlver_gym.core.words import content_stems, is_short, sentences, stems
from rlver_gym.io.errors import CardError
from rlver_gym.io.files import path_inside
from rlver_gym.io.terminal import one_line, printable
from rlver_gym.io.yaml_file import find_line, read_yaml

_MAX_PROBLEMS = 200
"""Of one folder: whoever has mended these looks again."""

# What a line may not say, because it would name the need. Matched as whole words, case-insensitive.
NAMES_OF_NEEDS = {
    HiddenNeed.NOT_AT_FAULT: (
        r"not (?:at fault|my fault|to blame)|nothing wrong|(?:am|was) i (?:wrong|to blame)|agree"
        r" with me"
    ),
    HiddenNeed.REFLECTION: r"self-reflection|reflect|personal growth|grow from|learn about myself",
    HiddenNeed.BALANCED_VIEW: r"balanced|both sides|two sides|both points of view",
    HiddenNeed.DEEP_EMPATHY: r"empath\w+|feel with me|sympathy",
    HiddenNeed.LISTENING: r"just listen|listen to me|vent|be heard|hear me out",
    HiddenNeed.MOTIVES: r"motives?|(?:understand|know|explain) why (?:he|she|they)",
    HiddenNeed.PRACTICAL_ADVICE: r"advice|advise|suggestions?|what should i do",
    HiddenNeed.PRAISE: r"prais\w+|compliments?|tell me i did (?:well|good)",
}

# What is told to everybody, whatever their need, may not say these.
_PLACEHOLDER = re.compile(r"<[^<>]+>")
_NOBODY_KNOWS_WHO = re.compile(r"(?:he|she|they|it|him|her|this|that)\b", re.IGNORECASE)
_SPOKEN_NEED = re.compile(r"\b(?:prais\w+|compliment\w*|empath\w+|advice)\b", re.IGNORECASE)


class Problem(NamedTuple):
    """Something wrong with a card: where, and what to do."""

    file: str
    problem: str

    def __str__(self) -> str:
        return f"{self.file}: {self.problem}"

    @classmethod
    def of(cls, file: Path, problem: str) -> Self:
        """A problem, fit to print: what it quotes of a card or a file's name is shown, not
        obeyed.
        """
        return cls(one_line(str(file)), printable(problem))


def check_cards(path: Path) -> list[Problem]:
    """What is wrong with a folder of cards, or with one card file.

    Empty when it can be used as it is; of very many problems the first.
    """
    if path.is_dir():
        found: dict[Problem, None] = {}  # a broken card is met again by its pairings
        for problem in _check_folder(path):
            found[problem] = None
            if len(found) > _MAX_PROBLEMS:
                return [
                    *list(found)[:-1],
                    Problem.of(path, "there are more problems. Mend these first."),
                ]
        return list(found)
    kind = {"people": Person, "situations": Situation}.get(path.absolute().parent.name)
    return list(_check_file(kind, path) if kind and _is_rich(path) else _check_lean([path]))


def _is_rich(path: Path) -> bool:
    """Whether a file in such a folder is a card of its kind, and no lean card that lies there."""
    try:
        value = read_yaml(path)
    except CardError:
        return True
    return not (isinstance(value, dict) and "meets" in value)


def _check_lean(files: Sequence[Path]) -> Iterator[Problem]:
    cards: dict[Path, LeanCard] = {}
    for path in files:
        try:
            cards[path] = read_lean(path)
        except CardError as error:
            yield from _problems_of(error, path)
            continue
        for place, problem in problems_of_lean(cards[path]):
            line = find_line(path, place)
            where = f"line {line}: " if line else ""
            yield Problem.of(path, f"{where}{'.'.join(map(str, place))}: {problem}")
    has_split = any(card.split for card in cards.values())
    for path, card in cards.items():
        if has_split and card.split is None:
            yield Problem.of(
                path,
                f"split: others here name one, so this person would be in every split. Add split:"
                f" {', '.join(SPLITS)}.",
            )
    yield from _find_shared_sentences(cards)


def _find_shared_sentences(cards: Mapping[Path, LeanCard]) -> Iterator[Problem]:
    """Sentences and persons that stand in two splits."""
    first: dict[str, Path] = {}
    for path, card in cards.items():
        texts = [line for _, line in card.spoken()] + [*card.meets, f"{card.name}, {card.work}"]
        for text in texts:
            other = first.setdefault(text.casefold(), path)
            if card.split and cards[other].split != card.split:
                yield Problem.of(
                    path,
                    f"{text!r} stands in {other.name} too, which is in the split"
                    f" {cards[other].split}. A split must not know another's people.",
                )


def problems_of_lean(card: LeanCard) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What types cannot see in a lean card: the place, and what is wrong there with its remedy."""
    everything = [*card.spoken(), *((("meets", at), line) for at, line in enumerate(card.meets))]
    everything += [((field,), getattr(card, field)) for field in ("name", "work", "title")]
    unwritten = [place for place, line in everything if _PLACEHOLDER.search(line)]
    if unwritten:
        yield from ((one, "holds the template's <…>. Write your own words.") for one in unwritten)
        return
    first: dict[str, str] = {}
    story = content_stems(" ".join(line for place, line in card.spoken() if place[0] != "hints"))
    for place, line in everything:
        field = str(place[0])
        if field == "hints" and (named := _find_name_of(card.need, line)):
            yield place, f"names the need ({named!r}). Let it show through what they say instead."
        elif field not in ("hints", "meets") and (named := _SPOKEN_NEED.search(line)):
            yield place, f"says {named.group()!r}, which names a need. Tell it in other words."
        if field in ("facts", "timeline", "tried") and _NOBODY_KNOWS_WHO.match(line):
            yield (
                place,
                f"begins with {line.split()[0]!r}. It is told alone, so say who or what it is.",
            )
        if field == "meets" and len(content_stems(line) & story) < 1:
            yield place, "says nothing of this story, so it would suit anyone. Take up a fact."
        if not is_short(line) and first.setdefault(line.casefold(), field) != field:
            yield place, f"stands in {first[line.casefold()]} too. Say it differently."
    for problem in _find_unmatched_anchors(expand("card", card).situation):
        if problem.startswith(f"anchors.{MEETS[card.need]}.meets-"):
            at, _, what = problem.partition("meets-")[2].partition(": ")
            yield ("meets", int(at)), what.replace("meets-", "meets.")


def _find_name_of(need: HiddenNeed, line: str) -> str | None:
    found = re.search(rf"\b(?:{NAMES_OF_NEEDS[need]})\b", line, re.IGNORECASE)
    return found.group() if found else None


def _check_folder(folder: Path) -> Iterator[Problem]:
    if files := lean_files(folder):
        yield from _check_lean(files)
        return
    for name, kind in (("people", Person), ("situations", Situation)):
        files = list(islice(folder.glob(f"{name}/*.yaml"), MAX_PERSONAS + 1))
        if len(files) > MAX_PERSONAS:
            yield Problem.of(
                folder / name, f"holds more than {MAX_PERSONAS} cards. Split the folder."
            )
            return
        for path in sorted(files):
            yield from _check_file(
                kind, path, None if folder == shipped_personas_folder() else folder
            )
    try:
        yield from _check_index(PersonaLibrary(folder))
    except CardError as error:
        yield from _problems_of(error, folder / "index.yaml")


def _problems_of(error: CardError, path: Path) -> Iterator[Problem]:
    """One a line: each names its file first."""
    file = one_line(str(path))
    for line in str(error).split("\n"):
        yield Problem.of(path, line.removeprefix(f"{path}: ").removeprefix(f"{file}: "))


def _check_file(
    kind: type[Person] | type[Situation], path: Path, folder: Path | None = None
) -> Iterator[Problem]:
    """Of a card, which must lie in the folder if one is given."""
    try:
        if folder is not None:
            path_inside(folder, *path.relative_to(folder).parts, error=CardError)
        card = load_card(kind, path)
    except CardError as error:
        yield from _problems_of(error, path)
        return
    if isinstance(card, Person):
        problems = problems_of_person(card)
    else:
        problems = [*problems_of_situation(card), *_find_unmatched_anchors(card)]
    yield from (Problem.of(path, problem) for problem in problems)


def _find_unmatched_anchors(situation: Situation) -> list[str]:
    """Anchors whose own sentence would not touch them, or would touch another one of the same kind
    as well.
    """
    index = AnchorIndex(situation)
    found = []
    for kind, anchor in situation.anchors.each():
        touched = [
            touch
            for touch in index.match(tuple(map(stems, sentences(anchor.text))))
            if touch.kind == kind
        ]
        place = f"anchors.{kind}.{anchor.id}"
        if anchor.id not in [touch.id for touch in touched]:
            found.append(
                f"{place}: its own text does not hit its words {list(anchor.words)}. Add the words"
                " that the text uses."
            )
        others = [touch.id for touch in touched if touch.id != anchor.id]
        if others:
            found.append(
                f"{place}: its text touches {others} as well. Give the anchors words of their own."
            )
    return found


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
                yield from _problems_of(error, folder.folder / kind / f"{name}.yaml")
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


def problems_of_situation(situation: Situation) -> list[str]:
    """What types cannot see: a hint that names its need, a sentence that could be said twice.

    Empty when all is well.
    """
    found = []
    for need in NAMES_OF_NEEDS:
        for number, hint in enumerate(situation.hints.of(need)):
            if named := _find_name_of(need, hint):
                found.append(
                    f"hints.{need.value}.{number}: names the need ({named!r}). Let it show"
                    " through what they say instead."
                )
    for place, line in situation.lines():
        if not place.startswith("hints.") and (named := _SPOKEN_NEED.search(line)):
            found.append(
                f"{place}: says {named.group()!r}, which names a need. Tell it in other words."
            )
    low, high = situation.fits.ages
    if not 16 <= low <= high <= 99:
        found.append(f"fits.ages: [{low}, {high}] must rise within 16 to 99.")
    ids = Counter(disclosure.id for disclosure in situation.disclosures)
    found += [
        f"disclosures: the id {name!r} stands twice. Rename one."
        for name in sorted(ids)
        if ids[name] > 1
    ]
    kinds = Counter(f"{kind}.{anchor.id}" for kind, anchor in situation.anchors.each())
    found += [
        f"anchors: {name!r} stands twice. Rename one." for name in sorted(kinds) if kinds[name] > 1
    ]
    found += problems_of_facts(situation.facts, set(ids)) + problems_of_introductions(
        situation.people
    )
    found += problems_of_answers(situation)
    return found + _find_repeats(situation.lines())


def problems_of_person(person: Person) -> list[str]:
    """Sentences of a person that could be said twice in one dialogue. Empty when all is well."""
    # Only one goodbye is ever said.
    lines = (
        ("manner.goodbye" if kind.startswith("goodbye") else f"manner.{kind}.{number}", line)
        for kind in Manner.model_fields
        for number, line in enumerate(getattr(person.manner, kind))
    )
    return [*problems_of_facts(person.facts), *_find_repeats(lines)]


def _find_repeats(lines: Iterator[tuple[str, str]]) -> list[str]:
    first: dict[str, str] = {}
    found = []
    for place, line in lines:
        for sentence in sentences(line):
            key = sentence.casefold()
            if is_short(sentence):  # people say "Yes." again and again
                continue
            if (
                first.get(key, place) != place
            ):  # tones of one disclosure, and goodbyes, are alternatives
                found.append(
                    f"{place}: the sentence {sentence!r} stands at {first[key]} too. Say it"
                    " differently."
                )
            first.setdefault(key, place)
    return found
