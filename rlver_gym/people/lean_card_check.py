"""What is wrong with lean cards, beyond what their types can see."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlver_gym.core.persona import SPLITS
from rlver_gym.core.words import content_stems, is_short
from rlver_gym.library.expand import expand_lean_card, expand_situation
from rlver_gym.library.lean import MEETS, LeanCard
from rlver_gym.library.personas import read_lean_card
from rlver_gym.people.check_facts import find_fact_problems
from rlver_gym.people.naming import describe_spoken_need, find_name_of, find_unmatched_anchors
from rlver_gym.people.problem import Problem, make_problem_with_line, make_problems_from_error
from rlver_gym.util.errors import CardError

Place = tuple[str | int, ...]
_PLACEHOLDER = re.compile(r"<[^<>]+>")
_NOBODY_KNOWS_WHO = re.compile(r"(?:he|she|they|it|him|her|this|that)\b", re.IGNORECASE)


def check_lean_cards(files: Sequence[Path]) -> Iterator[Problem]:
    cards: dict[Path, LeanCard] = {}
    for path in files:
        try:
            cards[path] = read_lean_card(path)
        except CardError as error:
            yield from make_problems_from_error(error, path)
            continue
        for place, problem in find_lean_card_problems(cards[path]):
            yield make_problem_with_line(path, place, problem)
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


def find_lean_card_problems(card: LeanCard) -> Iterator[tuple[Place, str]]:
    """What types cannot see in a lean card: the place, and what is wrong there with its remedy."""
    everything = [*card.spoken(), *((("meets", at), line) for at, line in enumerate(card.meets))]
    for field in ("name", "work", "title"):
        everything += [((field,), getattr(card, field, ""))]
    # a story alone has no person
    manner = [((field,), getattr(card, field, None) or "") for field in ("speaks", "home")]
    for field in ("traits", "interests"):
        manner += [((field, at), line) for at, line in enumerate(getattr(card, field, ()))]
    more = list(_list_texts(card.more.model_dump(mode="json"), ("more",)))
    texts = (*everything, *manner, *more)
    unwritten = [place for place, line in texts if _PLACEHOLDER.search(line)]
    if unwritten:
        yield from (
            (field, "holds the template's <…>. Write your own words.") for field in unwritten
        )
        return
    first: dict[str, str] = {}
    story = content_stems(" ".join(line for place, line in card.spoken() if place[0] != "hints"))
    for place, line in everything:
        field = str(place[0])
        if field == "hints" and (named := find_name_of(card.need, line)):
            yield place, f"names the need ({named!r}). Let it show through what they say instead."
        elif field not in ("hints", "meets") and (problem := describe_spoken_need(line)):
            yield place, problem
        if field in ("facts", "timeline", "tried") and _NOBODY_KNOWS_WHO.match(line):
            yield (
                place,
                f"begins with {line.split()[0]!r}. It is told alone, so say who or what it is.",
            )
        if field == "meets" and len(content_stems(line) & story) < 1:
            yield place, "says nothing of this story, so it would suit anyone. Take up a fact."
        if not is_short(line) and first.setdefault(line.casefold(), field) != field:
            yield place, f"stands in {first[line.casefold()]} too. Say it differently."
    beside = list(_find_problems_of_more(card, more))
    yield from beside
    if any(place[-1] == "id" for place, _ in beside):
        return  # the problems of anchors name them by their ids
    own = {f"anchors.{kind}.{one.id}": kind for kind, of in card.more.anchors.items() for one in of}
    for problem in find_unmatched_anchors(expand_situation("card", card)):
        name, _, what = problem.partition(": ")
        if name in own:
            yield ("more", "anchors", own[name]), f"{name.rpartition('.')[2]}: {what}"
        elif name.startswith(f"anchors.{MEETS[card.need]}.meets-"):
            yield ("meets", int(name.rpartition("-")[2])), what.replace("meets-", "meets.")


def _list_texts(value: Any, place: Place) -> Iterator[tuple[Place, str]]:
    if isinstance(value, str):
        yield place, value
    elif value is not None and not isinstance(value, int):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _list_texts(part, (*place, key))


def _find_problems_of_more(
    card: LeanCard, texts: Sequence[tuple[Place, str]]
) -> Iterator[tuple[Place, str]]:
    if not texts:
        return
    for place, line in texts:
        if _is_spoken(place) and (problem := describe_spoken_need(line)):
            yield place, problem
    facts, (person, situation) = card.more.facts, expand_lean_card("card", card)
    derived = (*person.facts, *situation.disclosures, *situation.facts[len(facts) :])
    ids = {one.id for one in derived}
    for problem in find_fact_problems(facts, ids):
        yield ("more", "facts"), problem.removeprefix("facts").lstrip(".: ")
    anchors = Counter(f"{kind}.{anchor.id}" for kind, anchor in situation.anchors.each())
    taken: list[tuple[Place, str]] = [
        (("facts", at), fact.id) for at, fact in enumerate(facts) if fact.id in ids
    ]
    for kind, of in card.more.anchors.items():
        twice = (at for at, one in enumerate(of) if anchors[f"{kind}.{one.id}"] > 1)
        taken += [(("anchors", kind, at), of[at].id) for at in twice]
    for place, name in taken:
        yield ("more", *place, "id"), f"{name!r} is the id of another here. Choose another."


def _is_spoken(place: Place) -> bool:
    """Whether a text of `more` is said, by a line without a check of its own, before goodbye."""
    is_line = place[1] in ("manner", "answers", "about_people", "feelings")
    is_goodbye = str(place[2]).startswith("goodbye")
    return (is_line and not is_goodbye) or "reply" in place or "lines" in place
