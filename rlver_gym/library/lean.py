"""Lean cards: a person, what happened to them and what they need, in one short file; or people and
stories of a library, in files of their own.
"""

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from rlver_gym.core.inquiries import Feeling, Inquiry, InquiryAboutOther
from rlver_gym.core.persona import (
    MAX_LINES,
    Anchor,
    AnchorKind,
    Disposition,
    Fact,
    HiddenNeed,
    Line,
    Lines,
    Manner,
    Split,
    Suggestion,
    Thread,
    Typing,
)
from rlver_gym.util import shipped_cards
from rlver_gym.util.frozen import Frozen

_NOT = "not "

MEETS: dict[HiddenNeed, AnchorKind] = {
    HiddenNeed.NOT_AT_FAULT: "wrongs",
    HiddenNeed.REFLECTION: "insights",
    HiddenNeed.BALANCED_VIEW: "other_side",
    HiddenNeed.DEEP_EMPATHY: "unspoken",
    HiddenNeed.LISTENING: "unspoken",
    HiddenNeed.MOTIVES: "motives",
    HiddenNeed.PRACTICAL_ADVICE: "options",
    HiddenNeed.PRAISE: "deeds",
}
"""The kind of anchor that meets a need."""
TEMPLATE = shipped_cards("personas") / "lean" / "template.yaml"


class LeanOpenings(Frozen):
    """The first words of the talk; in another mood where that matters."""

    normal: Line
    high: Line | None = None
    low: Line | None = None


class More(Frozen):
    """What a rich card says beside: each entry stands before what is derived."""

    manner: dict[str, Lines] = Field(default_factory=dict)
    answers: dict[Inquiry, Lines] = Field(default_factory=dict)
    about_people: dict[Line, dict[InquiryAboutOther, Lines]] = Field(default_factory=dict)
    feelings: dict[Feeling, Lines] = Field(default_factory=dict)
    suggestions: tuple[Suggestion, ...] = Field(default=(), max_length=MAX_LINES)
    threads: tuple[Thread, ...] = Field(default=(), max_length=MAX_LINES)
    facts: tuple[Fact, ...] = Field(default=(), max_length=MAX_LINES)
    anchors: dict[AnchorKind, tuple[Anchor, ...]] = Field(default_factory=dict)


class LeanPerson(Frozen):
    """Who somebody is, whatever happens to them."""

    name: Line
    age: int = Field(ge=16, le=99)
    gender: Literal["female", "male", "nonbinary"]
    work: Line
    """As they would answer "What do you do?": "tram driver on the night line"."""
    home: Line | None = None
    disposition: Disposition
    traits: tuple[Line, ...] = Field(min_length=1, max_length=8)
    speaks: Line
    """How they talk or type."""
    typing: Typing = "plain"
    interests: tuple[Line, ...] = Field(default=(), max_length=8)


class _LeanSituation(Frozen):
    """What happened. Sentences are those of the person: short, true, "I" for themself."""

    title: Line
    """Of the story."""
    timeline: dict[Line, Line] = Field(min_length=3, max_length=MAX_LINES)
    """What happened, by when, in order."""
    people: dict[Line, Line] = Field(default_factory=dict, max_length=MAX_LINES)
    """Who else is in the story: name, and who that is: "my brother, who lives in Leeds"."""
    tried: tuple[Line, ...] = Field(min_length=1, max_length=MAX_LINES)
    now: Line
    """Where it stands."""
    openings: LeanOpenings
    facts: tuple[Line, ...] = Field(min_length=5, max_length=MAX_LINES)
    """What they say when asked, the most private last."""


class Wish(Frozen):
    """How a hidden need shows in a story, and what would meet it."""

    hints: tuple[Line, ...] = Field(default=(), max_length=MAX_LINES)
    """Lines in which the need shows and is not named; without them, those of anybody."""
    meets: tuple[Line, ...] = Field(min_length=3, max_length=MAX_LINES)
    """Sentences that a very good supporter could say, each about this story."""


Way = Literal["employed", "self-employed", "student", "retired", "at-home", "jobless"]


class LibraryPerson(LeanPerson):
    """A person of a library, who is paired with stories that they may have lived. What they do and
    where they live is for whoever reads the card: in a story they speak of neither, because it may
    have been lived by somebody of another trade and town.
    """

    split: Split
    life: Way

    def explain_misfit(self, story: "Story") -> str | None:
        """Why a story cannot be theirs; None when it can."""
        if not story.ages[0] <= self.age <= story.ages[1]:
            return f"{self.name} is {self.age}, the story is for {story.ages[0]} to {story.ages[1]}"
        if "any" not in story.life and self.life not in story.life:
            return f"{self.name} is {self.life}, the story is for {', '.join(story.life)}"
        if story.gender not in ("any", self.gender):
            return f"{self.name} is {self.gender}, the story is for {story.gender}"
        if self.name in story.words:
            return f"somebody else in the story is called {self.name}"
        for field in ("work", "home"):
            said = getattr(self, field) or ""
            for group in getattr(story, field):
                words = map(re.escape, group.removeprefix(_NOT).split("|"))
                is_there = re.search(rf"\b(?:{'|'.join(words)})\b", said, re.IGNORECASE)
                if bool(is_there) == group.startswith(_NOT):
                    return f"the {field} of {self.name} is {said!r}, the story is for {group!r}"
        return None


class Story(_LeanSituation):
    """What happened to somebody, in at most sixty lines: whoever fits may have lived it."""

    topics: tuple[Line, ...] = Field(min_length=1, max_length=8)
    ages: tuple[Annotated[int, Field(ge=16)], Annotated[int, Field(le=99)]]
    life: tuple[Literal["any", Way], ...] = Field(min_length=1)
    gender: Literal["any", "female", "male", "nonbinary"] = "any"
    work: tuple[Line, ...] = Field(default=(), max_length=MAX_LINES)
    """Groups of alternatives, such as "nurse|care assistant": one of each stands in the person's
    `work`, and none of a group that begins with "not ".
    """
    home: tuple[Line, ...] = Field(default=(), max_length=MAX_LINES)
    """The same of the person's `home`: "UK|Ireland", "not flat|narrowboat"."""
    needs: dict[HiddenNeed, Wish] = Field(min_length=1)
    split: Split

    @cached_property
    def words(self) -> frozenset[str]:
        """All of them, as they are written."""
        return frozenset(re.findall(r"\w+", self.model_dump_json()))


class LeanCard(LeanPerson, _LeanSituation, Wish):
    """A person in a situation with a hidden need, in at most sixty lines."""

    help_command = "personas schema lean"
    need: HiddenNeed
    split: Split | None = None
    """None: drawn in whichever split is asked for."""
    more: More = More()

    @model_validator(mode="after")
    def _more_is_known(self) -> Self:
        for field, named, known in (
            ("manner", self.more.manner, Manner.model_fields),
            ("about_people", self.more.about_people, self.people),
        ):
            if strange := [name for name in named if name not in known]:
                raise ValueError(
                    f"more.{field}: {strange[0][:60]!r} is none of {', '.join(known)[:400]}"
                )
        return self

    def spoken(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Every sentence with its place in the card, but what meets the need."""
        for field in ("timeline", "people"):
            yield from (((field, key), line) for key, line in getattr(self, field).items())
        for field in ("tried", "facts", "hints"):
            yield from (((field, at), line) for at, line in enumerate(getattr(self, field)))
        yield ("now",), self.now
        for tone, line in self.openings.model_dump(exclude_none=True).items():
            yield ("openings", tone), line


def make_lean_cards(
    story: Story, disposition: Disposition = Disposition.PASSIVE
) -> Iterator[LeanCard]:
    """A story with each of its needs, as the card of somebody of that disposition."""
    fields: dict[str, Any] = {"disposition": disposition}
    fields |= {name: getattr(story, name) for name in _LeanSituation.model_fields}
    for need, wish in story.needs.items():
        yield LeanCard.model_construct(**fields, need=need, hints=wish.hints, meets=wish.meets)
