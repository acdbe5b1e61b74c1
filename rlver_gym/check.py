"""What is wrong with a card, beyond what its types can see: said so that its author knows what to do."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rlver_gym.anchors import AnchorIndex
from rlver_gym.errors import CardError
from rlver_gym.library import PersonaLibrary, load_card
from rlver_gym.persona import HiddenNeed, Manner, Person, Situation
from rlver_gym.words import sentences, stems

# What a line may not say, because it would name the need. Matched as whole words, case-insensitive.
NAMES_OF_NEEDS = {
    HiddenNeed.NOT_AT_FAULT: r"not (?:at fault|my fault|to blame)|nothing wrong|(?:am|was) i (?:wrong|to blame)|agree with me",
    HiddenNeed.REFLECTION: r"self-reflection|reflect|personal growth|grow from|learn about myself",
    HiddenNeed.BALANCED_VIEW: r"balanced|both sides|two sides|both points of view",
    HiddenNeed.DEEP_EMPATHY: r"empath\w+|feel with me|sympathy",
    HiddenNeed.LISTENING: r"just listen|listen to me|vent|be heard|hear me out",
    HiddenNeed.MOTIVES: r"motives?|(?:understand|know|explain) why (?:he|she|they)",
    HiddenNeed.PRACTICAL_ADVICE: r"advice|advise|suggestions?|what should i do",
    HiddenNeed.PRAISE: r"prais\w+|compliments?|tell me i did (?:well|good)",
}

# What is told to everybody, whatever their need, may not say these.
_SPOKEN_NEED = re.compile(r"\b(?:prais\w+|compliment\w*|empath\w+|advice)\b", re.IGNORECASE)


class Problem(NamedTuple):
    """Something wrong with a card: where, and what to do."""

    file: str
    problem: str

    def __str__(self) -> str:
        return f"{self.file}: {self.problem}"


def check(folder: Path) -> list[Problem]:
    """Everything wrong with a folder of cards, or with one card file. Empty when it can be used as it is."""
    if folder.is_file():
        kind = {"people": Person, "situations": Situation}.get(folder.parent.name)
        if kind is None:
            return [Problem(str(folder), "a card must lie in a folder called 'people' or 'situations'. Move it there.")]
        return _check_file(kind, folder)
    found = [problem for path in sorted(folder.glob("people/*.yaml")) for problem in _check_file(Person, path)]
    found += [problem for path in sorted(folder.glob("situations/*.yaml")) for problem in _check_file(Situation, path)]
    try:
        found += _check_index(PersonaLibrary(folder))
    except CardError as error:
        found += _problems_of(error)
    return list(dict.fromkeys(found))  # a broken card is met again by each of its pairings


def _problems_of(error: CardError) -> list[Problem]:
    """One a line: each names its file first."""
    return [Problem(*line.split(": ", 1)) for line in str(error).split("\n")]


def _check_file(kind: type[Person] | type[Situation], path: Path) -> list[Problem]:
    try:
        card = load_card(kind, path)
    except CardError as error:
        return _problems_of(error)
    problems = (
        problems_of_person(card) if isinstance(card, Person) else [*problems_of_situation(card), *_untouched(card)]
    )
    return [Problem(str(path), problem) for problem in problems]


def _untouched(situation: Situation) -> list[str]:
    """Anchors whose own sentence would not touch them, or would touch another one of the same kind as well."""
    index = AnchorIndex(situation)
    found = []
    for kind, anchor in situation.anchors.each():
        touched = [touch for touch in index.touched(tuple(map(stems, sentences(anchor.text)))) if touch.kind == kind]
        place = f"anchors.{kind}.{anchor.id}"
        if anchor.id not in [touch.id for touch in touched]:
            found.append(
                f"{place}: its own text does not hit its words {list(anchor.words)}. Add the words that the text uses."
            )
        others = [touch.id for touch in touched if touch.id != anchor.id]
        if others:
            found.append(f"{place}: its text touches {others} as well. Give the anchors words of their own.")
    return found


def _check_index(folder: PersonaLibrary) -> list[Problem]:
    path = str(folder.folder / "index.yaml")
    found: list[str] = []
    broken: list[Problem] = []
    split_of: dict[tuple[str, str], str] = {}
    for pairing in folder.pairings.values():
        for kind, name in (("person", pairing.person), ("situation", pairing.situation)):
            other = split_of.setdefault((kind, name), pairing.split)
            if other != pairing.split:
                found.append(
                    f"{pairing.id}: the {kind} {name!r} is in {other} and in {pairing.split}. A split must not know another's people."
                )
        try:
            persona = folder.get(pairing.id)
        except CardError as error:
            broken += _problems_of(error)
            continue
        fits, person = persona.situation.fits, persona.person
        if not fits.ages[0] <= person.age <= fits.ages[1]:
            found.append(
                f"{pairing.id}: {person.name} is {person.age}, the situation is for {fits.ages[0]} to {fits.ages[1]}. Pair differently."
            )
        if fits.life and not set(fits.life) & set(person.life):
            found.append(
                f"{pairing.id}: the situation is for {list(fits.life)}, {person.name} is {list(person.life)}. Pair differently."
            )
    return [*broken, *(Problem(path, problem) for problem in found)]


def problems_of_situation(situation: Situation) -> list[str]:
    """What types cannot see: a hint that names its need, a sentence that could be said twice. Empty when all is well."""
    found = []
    for need, pattern in NAMES_OF_NEEDS.items():
        for number, hint in enumerate(situation.hints.of(need)):
            if named := re.search(rf"\b(?:{pattern})\b", hint, re.IGNORECASE):
                found.append(
                    f"hints.{need.value}.{number}: names the need ({named.group()!r}). Let it show through what they say instead."
                )
    for place, line in situation.lines():
        if not place.startswith("hints.") and (named := _SPOKEN_NEED.search(line)):
            found.append(f"{place}: says {named.group()!r}, which names a need. Tell it in other words.")
    low, high = situation.fits.ages
    if not 16 <= low <= high <= 99:
        found.append(f"fits.ages: [{low}, {high}] must rise within 16 to 99.")
    ids = [disclosure.id for disclosure in situation.disclosures]
    found += [
        f"disclosures: the id {name!r} stands twice. Rename one." for name in sorted(set(ids)) if ids.count(name) > 1
    ]
    kinds = [f"{kind}.{anchor.id}" for kind, anchor in situation.anchors.each()]
    found += [f"anchors: {name!r} stands twice. Rename one." for name in sorted(set(kinds)) if kinds.count(name) > 1]
    return found + _said_twice(situation.lines())


def problems_of_person(person: Person) -> list[str]:
    """Sentences of a person that could be said twice in one dialogue. Empty when all is well."""
    lines = (
        ("manner.goodbye" if kind.startswith("goodbye") else f"manner.{kind}.{number}", line)
        for kind in Manner.model_fields
        for number, line in enumerate(getattr(person.manner, kind))
    )  # only one goodbye is ever said
    return _said_twice(lines)


def _said_twice(lines: Iterator[tuple[str, str]]) -> list[str]:
    first: dict[str, str] = {}
    found = []
    for place, line in lines:
        for sentence in sentences(line):
            key = sentence.casefold()
            if first.get(key, place) != place:  # tones of one disclosure, and goodbyes, are alternatives
                found.append(f"{place}: the sentence {sentence!r} stands at {first[key]} too. Say it differently.")
            first.setdefault(key, place)
    return found
