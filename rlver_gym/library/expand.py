"""Expands lean cards into the person and the situation that every user knows: their own lines, what
follows from them, and what everybody of a disposition shares.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from rlver_gym.core.inquiries import Feeling, Inquiry, InquiryAboutOther
from rlver_gym.core.persona import (
    Anchor,
    Anchors,
    Conflict,
    Disclosure,
    Disposition,
    Fact,
    Fits,
    HiddenNeed,
    Hints,
    Line,
    Lines,
    Manner,
    Moment,
    Openings,
    Other,
    Person,
    Situation,
    Suggestion,
    Thoughts,
    Thread,
)
from rlver_gym.core.words import content_stems, is_named, split_sentences, split_words, stem
from rlver_gym.library.lean import (
    MEETS,
    LeanCard,
    LeanPerson,
    LibraryPerson,
    More,
    Story,
    make_lean_cards,
)
from rlver_gym.library.sentences import (
    content_words,
    make_anchor_word_groups,
    make_questions,
    turn_into_second_person,
)
from rlver_gym.util import shipped_cards
from rlver_gym.util.yaml_file import read_yaml

_SEX = {
    **dict.fromkeys("brother father dad son husband boyfriend uncle grandfather he".split(), "he"),
    **dict.fromkeys("sister mother mum daughter wife girlfriend aunt gran she".split(), "she"),
}  # fmt: skip
_PRONOUNS = {"he": "he", "him": "he", "she": "she", "her": "she", "they": "they", "them": "they"}
_PRONOUN = re.compile(rf"\s*\(({'|'.join(_PRONOUNS)})(?:/[a-z]+)*\)\s*$", re.IGNORECASE)
_RELATION = re.compile(r"^(?:my|our) [^,;.(]*?(?=,|;|\.|\(|$| (?:who|from|and|at|in|of)\b)")
_FEELINGS = frozenset(map(str, Feeling))
_SAYS = frozenset("said says told asked answered replied wrote shouted rang called".split())
_SPEAKS_OF = {
    Inquiry("afraid"): frozenset("afraid scared fear fears worried dread".split()),
    Inquiry("want"): frozenset("want wish hope".split()),
    Inquiry("regret"): frozenset("should regret sorry wish".split()),
    Inquiry("told"): frozenset("told tell knows nobody".split()),
    Inquiry("before"): frozenset("used always before once".split()),
    Inquiry("feel_now"): frozenset("feel miss ashamed lonely angry sad tired hurts".split()),
    Inquiry("matters"): frozenset("because mattered matters".split()),
}
"""The words by which a fact is known to answer what is asked about any story."""


_SAME = ("name", "age", "gender", "work", "disposition", "traits", "interests", "typing")
"""What a lean card says of a person in the same field."""


class Expanded(NamedTuple):
    """What a lean card stands for."""

    person: Person
    situation: Situation


def _first_sentence(line: str) -> str:
    """A line of marks alone is one."""
    return next(iter(split_sentences(line)), line)


@lru_cache(maxsize=1)
def _load_shared_lines() -> dict[str, Any]:
    return read_yaml(shipped_cards("personas") / "lean" / "lines.yaml")


def _get_disposition_lines(disposition: Disposition, part: str) -> dict[str, Any]:
    shared = _load_shared_lines()
    common, own = shared["common"][part], shared[disposition].get(part, {})
    return {name: (*own.get(name, ()), *common.get(name, ())) for name in {**common, **own}}


def expand_lean_card(card_id: str, card: LeanCard) -> Expanded:
    """A lean card's person and situation, deterministic and unchecked, with lines that follow."""
    return Expanded(_expand_person(card_id, card, card.more), expand_situation(card_id, card))


def expand_story(
    card_id: str, story: Story, need: HiddenNeed, disposition: Disposition
) -> Situation:
    """The situation of a story that left one of its needs in somebody of that disposition."""
    return expand_situation(
        card_id, next(c for c in make_lean_cards(story, disposition) if c.need == need)
    )


def _expand_person(card_id: str, card: LeanPerson, more: More | None = None) -> Person:
    """Who somebody is, with the lines that everybody of their disposition shares."""
    manner: dict[str, Any] = dict.fromkeys(Manner.model_fields, ()) | _get_disposition_lines(
        card.disposition, "manner"
    )
    for name, lines in (more.manner if more else {}).items():
        manner[name] = (*lines, *manner[name])
    speaks = filter(None, (card.speaks, _load_shared_lines()["typing"][card.typing]))
    return Person.model_construct(
        None,
        **{name: getattr(card, name) for name in _SAME},
        id=card_id,
        life=(),
        habits="",
        way_of_speaking=" ".join(speaks),
        manner=Manner.model_construct(**manner),
        thoughts=Thoughts.model_construct(**_get_disposition_lines(card.disposition, "thoughts")),
        facts=tuple(_make_personal_facts(card)),
        answers={},
    )


def expand_library_person(card_id: str, person: LibraryPerson) -> Person:
    """The same of a person who may have lived one of many stories: of no trade and no place."""
    work = _load_shared_lines()["life"][person.life]
    return _expand_person(card_id, person.model_copy(update={"work": work, "home": None}))


def _make_personal_facts(card: LeanPerson) -> Iterator[Fact]:
    asked = ("What do you do for work?", "What's your job?")
    yield _make_fact("my-work", _capitalise(card.work), ("you", "work"), asked)
    if card.home:
        home = _capitalise(card.home)
        yield _make_fact("my-home", home, ("you", "home"), ("Where do you live?", "Where's home?"))
    if card.interests:
        likes = _capitalise(", ".join(card.interests))
        asked = ("What do you like to do?", "Do you have a hobby?", "What do you do for fun?")
        yield _make_fact("my-interests", likes, ("you", "free time"), asked)


def expand_situation(card_id: str, card: LeanCard) -> Situation:
    """What happened: the card's lines, and what follows from them."""
    more, timeline = card.more, list(card.timeline.items())
    moments = [line for _, line in timeline]
    others = [_make_other_person(name, who) for name, who in card.people.items()]
    now, opening = split_sentences(card.now), card.openings
    # who proposes what they tried is told so
    suggestions = (
        Suggestion.model_construct(
            to=(turn_into_second_person(_first_sentence(line)),), reply=(line,)
        )
        for line in card.tried
    )
    threads = (
        Thread.model_construct(about=tuple(words), lines=(line,))
        for line in card.facts
        if (words := content_words(line))
    )
    return Situation.model_construct(
        id=card_id,
        title=card.title,
        topics=(),
        fits=Fits(ages=(16, 99)),
        cause=moments[0],
        timeline=tuple([Moment.model_construct(when=a, what=b, felt="") for a, b in timeline]),
        conflict=Conflict.model_construct(event="", between="", cause=""),
        people=tuple(others),
        tried=card.tried,
        now=card.now,
        openings=Openings.model_construct(
            None, **{tone: line or opening.normal for tone, line in opening}
        ),
        disclosures=tuple(_make_disclosures([*moments, *card.tried, *now])),
        facts=(*more.facts, *_make_situation_facts(card)),
        answers=_make_answers(card) | more.answers,
        about_people=_make_answers_about_others(card) | more.about_people,
        feelings=_make_feeling_answers(card) | more.feelings,
        suggestions=(*more.suggestions, *suggestions),
        threads=(*more.threads, *threads),
        hints=_make_hints(card),
        anchors=_make_anchors(card),
    )


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?", "…")) else ".")


def _make_other_person(name: str, who: str) -> Other:
    marked = _PRONOUN.search(who)
    plain = _PRONOUN.sub("", who)
    relation = _RELATION.match(plain)
    words = split_words(relation.group() if relation else plain)
    guessed = next((_SEX[word] for word in reversed(words) if word in _SEX), "they")
    introduction = None
    if relation and not is_named(name, plain):
        introduction = f"{relation.group().strip()} {name}"
    return Other.model_construct(
        name=name,
        who=plain,
        pronoun=_PRONOUNS[marked.group(1).lower()] if marked else guessed,
        introduction=introduction,
        may=(),
    )


def _make_disclosures(lines: Sequence[str]) -> Iterator[Disclosure]:
    """The story in its order; the first half is told to anyone, what stands last when trusted."""
    for at, line in enumerate(lines):
        depth: Literal[1, 2, 3] = 1 if 2 * at <= len(lines) else 2
        yield Disclosure.model_construct(
            id=f"story-{at + 1}", depth=depth, high=line, normal=line, low=line
        )


def _make_fact(
    fact_id: str, line: str, about: Sequence[str], asked: Sequence[str], **given: Any
) -> Fact:
    given.setdefault("answers", (line,))
    return Fact.model_construct(id=fact_id, about=tuple(about), asked=tuple(asked), **given)


def _make_situation_facts(card: LeanCard) -> Iterator[Fact]:
    """Every sentence that can be asked for, and who everybody is."""
    names, count = list(card.people), len(card.facts)

    def fact(kind: str, at: int, line: str, *more: str, **given: Any) -> Fact:
        about = [*(name for name in names if is_named(name, line)), *content_words(line)] or ["you"]
        return _make_fact(
            f"{kind}-{at + 1}", line, about, (*make_questions(line, names), *more), **given
        )

    for at, line in enumerate(card.facts):
        yield fact("fact", at, line, depth=1 + 2 * at // count)
    for at, (name, who) in enumerate(card.people.items()):
        line = f"{name} is {_PRONOUN.sub('', who)}."
        yield _make_fact(
            f"who-{at + 1}", line, (name,), (f"Who is {name}?", f"Who's {name} to you?")
        )
    for at, (when, line) in enumerate(card.timeline.items()):
        told = (line, f"That was {when[:1].lower()}{when[1:]}. {line}")
        clause = turn_into_second_person(_first_sentence(line)).rstrip(".")
        yield fact("moment", at, line, f"When was it that {clause}?", answers=told)
    for at, line in enumerate(card.tried):
        yield fact("tried", at, line)
    for at, line in enumerate(split_sentences(card.now)):
        yield fact("now", at, line)


def _make_answers(card: LeanCard) -> dict[Inquiry, Lines]:
    shared = _get_disposition_lines(card.disposition, "answers")
    own, now = _get_hints(card, card.need), tuple(split_sentences(card.now))
    lines = [*card.facts, *now]
    answers = {Inquiry(name): shared_lines for name, shared_lines in shared.items()}
    for inquiry, words in _SPEAKS_OF.items():
        if own_lines := [line for line in lines if not words.isdisjoint(split_words(line))]:
            answers[inquiry] = (*own_lines, *answers.get(inquiry, ()))
    return answers | {
        Inquiry("began"): (next(iter(card.timeline.values())),),
        Inquiry("tried"): card.tried,
        **dict.fromkeys((Inquiry("now"), Inquiry("since"), Inquiry("coming")), now),
        Inquiry("need"): own,
        Inquiry("underneath"): own,
        Inquiry("hardest"): own,
    }


def _make_answers_about_others(card: LeanCard) -> dict[Line, dict[InquiryAboutOther, Lines]]:
    answers: dict[Line, dict[InquiryAboutOther, Lines]] = {}
    for name, who in card.people.items():
        about: dict[InquiryAboutOther, Lines] = {}
        about[InquiryAboutOther("who")] = (_capitalise(_PRONOUN.sub("", who)),)
        lines = [line for line in (*card.facts, *card.timeline.values()) if is_named(name, line)]
        spoke = [line for line in lines if not _SAYS.isdisjoint(split_words(line))]
        for label, named in (
            (InquiryAboutOther("like"), lines),
            (InquiryAboutOther("reacted"), spoke),
        ):
            if named:
                about[label] = tuple(named)
        answers[name] = about
    return answers


def _make_feeling_answers(card: LeanCard) -> dict[Feeling, Lines]:
    answers: dict[Feeling, Lines] = {}
    for line in (*card.facts, *card.timeline.values(), *split_sentences(card.now)):
        for word in split_words(line):
            if word in _FEELINGS:
                answers[Feeling(word)] = (*answers.get(Feeling(word), ()), line)
    return answers


def _get_hints(card: LeanCard, need: HiddenNeed) -> tuple[str, ...]:
    return (need == card.need and card.hints) or tuple(
        _load_shared_lines()["common"]["hints"][need]
    )


def _make_hints(card: LeanCard) -> Hints:
    hints: dict[str, Any] = {need.value: _get_hints(card, need) for need in HiddenNeed}
    return Hints.model_construct(**hints)


def _make_anchors(card: LeanCard) -> Anchors:
    """What meets the need, known again by its words; and what they tried, as deeds."""
    told = content_stems(" ".join(line for place, line in card.spoken() if place[0] != "hints"))
    names = {stem(word) for name in card.people for word in split_words(name)}
    anchors: dict[str, Any] = dict.fromkeys(Anchors.model_fields, ())
    anchors |= card.more.anchors
    deeds = [
        turn_into_second_person(_first_sentence(line))
        for line in card.tried
        if line.startswith("I ")
    ]
    deeds = [] if MEETS[card.need] == "deeds" else deeds  # then what meets it names them
    for kind, name, texts in ((MEETS[card.need], "meets", card.meets), ("deeds", "tried", deeds)):
        anchors[kind] += tuple(
            Anchor.model_construct(
                id=f"{name}-{at}", text=text, words=make_anchor_word_groups(text, told, names)
            )
            for at, text in enumerate(texts)
        )
    return Anchors.model_construct(**anchors)
