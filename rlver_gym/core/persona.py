"""Persona: a person, a situation and a hidden need, as types with their checks."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, Field, StringConstraints, create_model, model_validator

from rlver_gym.core.emotion import Tone
from rlver_gym.core.inquiries import Feeling, Inquiry, InquiryAboutOther
from rlver_gym.core.languages import Language
from rlver_gym.core.words import words
from rlver_gym.util.frozen import Frozen, HashedCard
from rlver_gym.util.terminal import printable
from rlver_gym.util.yaml_file import load_yaml


class HiddenNeed(StrEnum):
    """What the person wants from the talk and never says: RLVER's eight (arXiv:2507.03112)."""

    NOT_AT_FAULT = "not_at_fault"
    """Wants agreement that they did nothing wrong."""
    REFLECTION = "reflection"
    """Wants to be led to look at themselves and to grow."""
    BALANCED_VIEW = "balanced_view"
    """Wants the matter seen from both sides."""
    DEEP_EMPATHY = "deep_empathy"
    """Wants to be felt with, not merely comforted."""
    LISTENING = "listening"
    """Wants to vent and be heard."""
    MOTIVES = "motives"
    """Wants to understand why others acted as they did."""
    PRACTICAL_ADVICE = "practical_advice"
    """Wants advice that really helps with where things stand."""
    PRAISE = "praise"
    """Wants sincere praise for specific things they did."""


NEEDS = tuple(HiddenNeed)
"""In the order in which spaces and observations number them."""
NEEDS_IN_WORDS = {
    HiddenNeed.DEEP_EMPATHY: (
        "to be felt with: that somebody senses what it is like inside, beyond generic comfort"
    ),
    HiddenNeed.PRACTICAL_ADVICE: "concrete, workable help with what to do next",
    HiddenNeed.BALANCED_VIEW: "to see both sides fairly, the others' as well as their own",
    HiddenNeed.MOTIVES: "to understand why the other person acted as they did",
    HiddenNeed.REFLECTION: "to be led to their own part and pattern",
    HiddenNeed.LISTENING: (
        "to tell it all to somebody patient who takes in details and fixes nothing"
    ),
    HiddenNeed.NOT_AT_FAULT: "to hear convincingly, on the facts, that they are not to blame",
    HiddenNeed.PRAISE: "sincere, specific recognition of what they did",
}
"""As whoever stands in the person's place is told it."""


class Disposition(StrEnum):
    """How a person meets the world: RLVER's three character types."""

    NEGATIVE = "negative"
    PASSIVE = "passive"
    AVOIDANT = "avoidant"


Split = Literal["train", "validation", "test", "demo"]
"""The one list of splits. No person and no situation is in two of them."""
SplitChoice = Literal[Split, "all"]
"""What can be asked for: a split, or all of them."""
SPLITS: tuple[Split, ...] = get_args(Split)
SPLIT_CHOICES: tuple[SplitChoice, ...] = get_args(SplitChoice)
Life = Literal["pupil", "student", "employed", "freelance", "parent"]
_KNOWN: dict[str, Any] = load_yaml("rlver_gym.core", "card_fields.yaml")


class Topic(StrEnum):
    """What a story is about."""

    locals().update({name.upper(): name for name in _KNOWN["topics"]})


AnchorKind = Literal["deeds", "wrongs", "motives", "options", "other_side", "insights", "unspoken"]


def check_printable_text(text: str) -> str:
    """The text of a card. ValueError for a character that is obeyed instead of shown."""
    if text.replace("\n", "").isprintable():
        return text
    for char in text:
        if (unicodedata.category(char) in ("Cc", "Cs", "Cf") and char != "\n") or printable(
            char
        ) != char:
            raise ValueError(f"the character U+{ord(char):04X} is not allowed in a card; remove it")
    return text


Typing = Literal["careful", "plain", "quick", "terse"]
"""How somebody types: `careful` and `plain` as their lines are written; `quick` in lower case, a
line a sentence and without full stops; `terse` so too, and a few words at a time.
"""
MAX_LINES = 100
"""Of one kind in a card: three times the fullest shipped one."""
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=60)]
Line = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=2, max_length=600),
    AfterValidator(check_printable_text),
]
Prose = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=20, max_length=2000),
    AfterValidator(check_printable_text),
]


class Fact(Frozen):
    """One thing that a person can be asked about: how it is asked, and what they answer."""

    id: Slug
    about: tuple[Line, ...] = Field(min_length=1, max_length=MAX_LINES)
    """Whom or what it is about, the chief thing first: names of people in the story, or the nouns
    that a talk would use ("the hearing", "your boss"), so that "she" and "it" find it. "you" for
    the person themself.
    """
    asked: tuple[Line, ...] = Field(min_length=3, max_length=MAX_LINES)
    """Whole questions that this answers, as different people would ask them."""
    answers: tuple[Line, ...] = Field(min_length=2, max_length=MAX_LINES)
    """Wordings of the answer, in the first person; any of them fits any of the questions."""
    high: Line | None = None
    """The answer in a good mood, where the mood matters."""
    low: Line | None = None
    """The answer in a bad mood, where the mood matters."""
    depth: Literal[1, 2, 3] = 1
    """Told to anyone (1), when heard (2), when trusted (3)."""
    after: tuple[Slug, ...] = Field(default=(), max_length=MAX_LINES)
    """Disclosures or facts without which the answer would not be understood."""
    key: tuple[Line, ...] = Field(default=(), max_length=MAX_LINES)
    """The words of the answer on which it turns, in every way of writing them."""
    right: tuple[Line, ...] = Field(default=(), max_length=MAX_LINES)
    """True statements about it, said to the person ("You've told nobody at work.")."""
    wrong: tuple[Line, ...] = Field(default=(), max_length=MAX_LINES)
    """False statements, said to the person: another name, number, time, place, or yes for no."""
    correction: Line | None = None
    """What the person says to a false statement; None for a frame and the answer."""


Lines = Annotated[tuple[Line, ...], Field(min_length=1, max_length=MAX_LINES)]


class Suggestion(Frozen):
    """Something that supporters suggest to do, and what the person says to it."""

    to: Lines
    """Short ways of naming it, with its verbs and nouns: "ring your gran", "tell her the truth"."""
    reply: Lines
    """What they say when it is suggested; different things, each once."""


class Thread(Frozen):
    """A matter of the story that somebody may take up, and how the person goes on about it."""

    about: Lines
    """The words by which it is recognised: "the banner", "front room"."""
    lines: Lines
    """What they say when it was mentioned without a question; different things, each once."""


class _Kinds(Frozen):
    """Lines by kind: the fields are those of `card_fields.yaml`."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> tuple[str, ...]: ...


def _make_line_fields(kinds: Mapping[str, tuple[int, str]], entry: Any = Line) -> dict[str, Any]:
    return {
        name: (
            tuple[entry, ...],
            Field(min_length=least, max_length=MAX_LINES, description=about)
            if least
            else Field(default=(), description=about),
        )
        for name, (least, about) in kinds.items()
    }


class Manner(create_model("Manner", __base__=_Kinds, **_make_line_fields(_KNOWN["manner"]))):
    """Lines in which this person reacts, spoken, one or two short sentences each."""


class Thoughts(create_model("Thoughts", __base__=_Kinds, **_make_line_fields(_KNOWN["thoughts"]))):
    """What this person thinks and does not say, in their own words."""


class Person(Frozen):
    """Who somebody is, whatever happens to them."""

    help_command = "personas schema person"
    id: Slug
    name: Line
    age: int = Field(ge=16, le=99)
    gender: Literal["female", "male", "nonbinary"]
    work: Line
    life: tuple[Life, ...] = Field(min_length=1, max_length=MAX_LINES)
    disposition: Disposition
    traits: tuple[Line, ...] = Field(min_length=3, max_length=3)
    interests: tuple[Line, ...] = Field(min_length=3, max_length=MAX_LINES)
    habits: Prose
    way_of_speaking: Prose
    typing: Typing = "plain"
    manner: Manner
    thoughts: Thoughts
    facts: tuple[Fact, ...] = Field(default=(), max_length=MAX_LINES)
    """What they know about themselves, whatever happens to them."""
    answers: dict[Inquiry, Lines] = Field(default_factory=dict)
    """What they say when asked about themselves, whatever happens to them."""


class Fits(Frozen):
    """Whose life a situation can be: an age range and, when given, at least one of these lives."""

    ages: tuple[int, int]
    life: tuple[Life, ...] = Field(default=(), max_length=MAX_LINES)


class Moment(Frozen):
    """One step of the timeline."""

    when: Line
    what: Line
    felt: Line


class Conflict(Frozen):
    """What is in the way, between whom, and why."""

    event: Line
    between: Line
    cause: Line


class Other(Frozen):
    """Somebody else in the story, and why they may have acted so."""

    name: Line
    who: Line
    pronoun: Literal["he", "she", "they"]
    introduction: Line | None = None
    """How the person names them the first time, such as "my neighbour Judith"."""
    may: tuple[Line, ...] = Field(min_length=1, max_length=MAX_LINES)


class Disclosure(Frozen):
    """Something to tell, in three tones, to anyone (depth 1), when heard (2), when trusted (3)."""

    id: Slug
    depth: Literal[1, 2, 3]
    high: Line
    normal: Line
    low: Line

    def in_tone(self, tone: Tone) -> str:
        return {"high": self.high, "normal": self.normal, "low": self.low}[tone]


_GROUP = re.compile(r"[a-z0-9' |-]{1,600}")


class Anchor(Frozen):
    """One thing a good answer could touch: a sentence that does, and the words by which others can
    be recognised.

    `words` are groups of alternatives split by "|"; an utterance touches the anchor when it hits
    all groups but one (all, when there are two) within two neighbouring sentences. Words match by
    stem.
    """

    id: Slug
    text: Line
    words: tuple[str, ...] = Field(min_length=2, max_length=6)

    @model_validator(mode="after")
    def _groups_are_plain(self) -> Self:
        for group in self.words:
            if not _GROUP.fullmatch(group) or not all(map(words, group.split("|"))):
                raise ValueError(
                    f"the word group {group[:80]!r} must be lower-case words split by '|'"
                )
        return self


class Anchors(
    create_model("Anchors", __base__=_Kinds, **_make_line_fields(_KNOWN["anchors"], Anchor))
):
    """What a good answer could touch, by kind."""

    def each(self) -> Iterator[tuple[AnchorKind, Anchor]]:
        for kind in AnchorKind.__args__:
            for anchor in getattr(self, kind):
                yield kind, anchor


_OF_NEED = {need.value: (3, "A line in which this need shows.") for need in HiddenNeed}


class Hints(create_model("Hints", __base__=_Kinds, **_make_line_fields(_OF_NEED))):
    """Lines that let a need show without naming it, in the words of this situation."""

    def of(self, need: HiddenNeed) -> tuple[Line, ...]:
        return getattr(self, need.value)


class Openings(Frozen):
    """The first words of the talk, by tone."""

    high: Line
    normal: Line
    low: Line

    def in_tone(self, tone: Tone) -> str:
        return {"high": self.high, "normal": self.normal, "low": self.low}[tone]


class Situation(Frozen):
    """What happened to somebody, told in the first person, and all that can be told about it."""

    help_command = "personas schema situation"
    id: Slug
    title: Line
    topics: tuple[Topic, ...] = Field(min_length=1, max_length=MAX_LINES)
    fits: Fits
    cause: Prose
    timeline: tuple[Moment, ...] = Field(min_length=4, max_length=MAX_LINES)
    conflict: Conflict
    people: tuple[Other, ...] = Field(min_length=1, max_length=MAX_LINES)
    tried: tuple[Line, ...] = Field(min_length=2, max_length=MAX_LINES)
    now: Prose
    openings: Openings
    disclosures: tuple[Disclosure, ...] = Field(min_length=10, max_length=MAX_LINES)
    facts: tuple[Fact, ...] = Field(default=(), max_length=MAX_LINES)
    """What can be asked about it; without them, the rest of the card answers."""
    answers: dict[Inquiry, Lines] = Field(default_factory=dict)
    """What they say to what is asked about any story, the most guarded line first."""
    about_people: dict[Line, dict[InquiryAboutOther, Lines]] = Field(default_factory=dict)
    """The same about each of `people`, by name."""
    feelings: dict[Feeling, Lines] = Field(default_factory=dict)
    """What they say when a feeling is named: whether they have it, and how."""
    suggestions: tuple[Suggestion, ...] = Field(default=(), max_length=MAX_LINES)
    threads: tuple[Thread, ...] = Field(default=(), max_length=MAX_LINES)
    hints: Hints
    anchors: Anchors

    @model_validator(mode="after")
    def _everybody_is_in_the_story(self) -> Self:
        strangers = set(self.about_people) - {other.name for other in self.people}
        if strangers:
            raise ValueError(
                f"about_people: {min(strangers)!r} is none of the people of this story"
            )
        return self

    @property
    def is_lean(self) -> bool:
        """Whether it comes of a lean card, whose disclosures are told in their order."""
        return not self.topics

    def lines(self) -> Iterator[tuple[str, str]]:
        """Every line that can be spoken, with its place in the card."""
        for tone in ("high", "normal", "low"):
            yield "openings", self.openings.in_tone(tone)
        for disclosure in self.disclosures:
            for tone in ("high", "normal", "low"):
                yield f"disclosures.{disclosure.id}", disclosure.in_tone(tone)
        for need in HiddenNeed:
            for number, line in enumerate(self.hints.of(need)):
                yield f"hints.{need.value}.{number}", line


class Persona(HashedCard):
    """A person in a situation with a hidden need, which with `situation.anchors` is privileged."""

    id: Annotated[
        str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*(/[a-z_]+)?$", max_length=80)
    ]
    """Of its pairing; with "/NEED" behind it when it was given another need."""
    person: Person
    situation: Situation
    need: HiddenNeed
    split: Split
    language: Language = "en"
