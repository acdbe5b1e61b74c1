"""Expert priors: what experts give for each item and how it counts less, as two shipped cards."""

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from rlver_gym.core.ledger import ACT_IN_WORDS
from rlver_gym.core.library import parse_card
from rlver_gym.core.persona import AnchorKind, HiddenNeed
from rlver_gym.io.files import load_json
from rlver_gym.io.frozen import Frozen
from rlver_gym.users.embedded.weights import Number


def _check_act(name: str) -> str:
    if name not in ACT_IN_WORDS:
        raise ValueError(f"there is no act of that name, but {', '.join(ACT_IN_WORDS)}")
    return name


def _check_complete(names: Collection[str]) -> Callable[[Mapping[str, object]], object]:
    def check(value: Mapping[str, object]) -> object:
        missing = [name for name in names if name not in value]
        if missing:
            raise ValueError(f"lacks {', '.join(missing)}")
        return value

    return check


Act = Annotated[str, AfterValidator(_check_act)]
Count = Annotated[int, Field(ge=0, le=10_000, strict=True)]
Share = Annotated[float, Field(ge=0, le=1, strict=True)]
PointsByAct = dict[Act, Number]
EachNeed = AfterValidator(_check_complete(tuple(HiddenNeed)))
EachKind = AfterValidator(_check_complete(AnchorKind.__args__))
PointsByKind = Annotated[dict[AnchorKind, Number], EachKind]
Interval = tuple[Number, Number]
"""0 up to the first, 1 from the second on, straight between."""


class Points(Frozen):
    """What an item is worth, in points of emotion."""

    points: Number


class IntervalPoints(Points):
    """The same, by a share or a count that begins to matter at one end of `ramp`."""

    ramp: Interval


class EmptyPoints(Points):
    """For an utterance of fewer `characters`."""

    characters: Count


class TalkRule(Frozen):
    """What makes a Chinese sentence talk: the share of everyday characters, the characters of a
    clause, the share of distinct runs of three.
    """

    everyday: Share
    clause: Count
    variety: Share
    ramp: Interval
    """By the share of characters in sentences that are talk."""
    quoted: Share
    """From this share of copied runs on, a sentence of any language is a quotation."""


class StoryTouch(Frozen):
    """How many words of the person's story open the relevance gate."""

    words: Interval
    again: Share
    """What a word is worth that the agent took up before."""
    again_most: Number
    told: Interval
    """How many words the person has told before relevance counts."""


class ChallengingRule(Frozen):
    """The challenging user: what its gains are multiplied by."""

    warming: Share


class Priors(Frozen):
    """What recordings cannot teach, in any language: the priors beside the measured weights."""

    about: str
    relevance: Points
    copying: IntervalPoints
    reuse: IntervalPoints
    unreadable: Points
    empty: EmptyPoints
    crowded: IntervalPoints
    strangers: Points
    talk: TalkRule
    touch: StoryTouch
    challenging: ChallengingRule
    acts: Annotated[
        dict[Literal["en", "zh"], PointsByAct], AfterValidator(_check_complete(("en", "zh")))
    ]


class Ramp(Frozen):
    """A share that rises from 0 to 1."""

    free: Number
    all: Number

    @model_validator(mode="after")
    def _rises(self) -> Self:
        if not self.free < self.all:
            raise ValueError("free must lie below all")
        return self

    def at(self, value: float) -> float:
        """0 up to `free`, 1 from `all` on, straight between."""
        way = (value - self.free) / (self.all - self.free)
        return 0.0 if way <= 0.0 else 1.0 if way >= 1.0 else way


class RampPoints(Ramp):
    """The points of what the ramp measures."""

    points: Number


class ElsewherePoints(RampPoints):
    """The same, in full from `full_at` on."""

    full_at: Annotated[int, Field(ge=1, strict=True)]
    """How much an utterance says at all, in hundredths of a nat."""


class StrangenessRamp(Ramp):
    """The ramp of words that would suit another story better."""

    own: Number
    """What this story's own words weigh against them."""


class WholeReply(Frozen):
    """What a reply of at least `words` words is worth taken together: a logit of its acts."""

    points: Number
    words: Annotated[int, Field(ge=1, strict=True)]
    shift: Number
    leaning: PointsByAct


class Uptake(Frozen):
    """How much of what a person told is taken up, and what is left of an act that is not."""

    full_at: Annotated[int, Field(ge=1, strict=True)]
    """In nats."""
    again: Share
    guessed: Share
    wear: Share
    """What an act loses each time it is done."""
    floor: Share
    """What an act is worth that is done to anyone."""
    same_words: Share
    wear_for_anyone: Share


class TimingPoints(Points):
    """For what is done in the first `turns` turns."""

    turns: Count


class QuoteRule(Frozen):
    """From which share of the person's runs on a sentence is theirs, and what is left of it."""

    least: Share = Field(alias="from")
    share: Share


class ParrotRule(QuoteRule):
    """The same for one of at least `words` words that is nothing but theirs."""

    words: Count


class SplicedPoints(Points):
    """For a run of at least `words` words glued into a sentence."""

    words: Count


class StrangerPoints(Points):
    """For each name that nobody in the story has, `most` at most."""

    most: Number


class FormPoints(Frozen):
    """The points of length and form, and from where on they count."""

    few_words: Count
    few: Number
    many_words: Count
    per_word: Number
    most: Number
    list_items: Count
    list: Number
    list_advice: Number
    """The same for somebody who wants advice."""
    questions: Count
    interrogation: Number


class ExpertPoints(Frozen):
    """What experts would give an utterance for each item, and the rules by which it counts
    less.
    """

    provenance: str
    acts: Annotated[dict[HiddenNeed, PointsByAct], EachNeed]
    anchors: Annotated[dict[HiddenNeed, PointsByKind], EachNeed]
    frames: Annotated[dict[AnchorKind, tuple[Act, ...]], EachKind]
    """The acts with which an anchor counts whole."""
    unframed: Share
    told_back: Annotated[dict[HiddenNeed, Number], EachNeed]
    whole: dict[HiddenNeed, WholeReply]
    relief: dict[HiddenNeed, dict[Act, Share]]
    """What is left of a bad act for somebody with that need."""
    bad_acts: PointsByAct
    bad_from: Share
    saturation: Annotated[tuple[Share, ...], Field(min_length=1)]
    """What the dearest anchor counts, the next one, and so on."""
    act_cap: Number
    touch: Uptake
    asked_first: TimingPoints
    too_soon: TimingPoints
    shape: FormPoints
    silence: Number
    nonsense: Number
    copying: RampPoints
    reuse: RampPoints
    elsewhere: ElsewherePoints
    belonging: Ramp
    quote: QuoteRule
    torn: SplicedPoints
    parrot: ParrotRule
    at_home: Ramp
    in_two: Share
    """What is left of an anchor that two sentences match together."""
    attention: StrangenessRamp
    strange: StrangenessRamp
    strangers: StrangerPoints
    beside_a_hurt: Share
    """What is left of a gain beside an act that hurts."""


@lru_cache(maxsize=1)
def load_priors() -> Priors:
    """What recordings cannot teach; CardError names what is wrong with a damaged file."""
    name = "priors.json"
    return parse_card(Priors, load_json("rlver_gym.users.embedded", name), f"the shipped {name}")


@lru_cache(maxsize=4)
def load_expert_points(language: str) -> ExpertPoints:
    """What experts would give; CardError names what is wrong with a damaged file."""
    name, package = f"priors_{language}.json", "rlver_gym.users.embedded"
    return parse_card(ExpertPoints, load_json(package, name), f"the shipped {name}")
