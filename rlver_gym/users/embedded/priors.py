"""Expert priors: what experts give for each item and how it counts less, as two shipped cards."""

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

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


class ExpertPoints(Frozen):
    """What experts would give an utterance for each item."""

    provenance: str
    acts: Annotated[dict[HiddenNeed, PointsByAct], EachNeed]
    anchors: Annotated[dict[HiddenNeed, PointsByKind], EachNeed]
    frames: Annotated[dict[AnchorKind, tuple[Act, ...]], EachKind]
    """The acts with which an anchor counts whole."""
    told_back: Annotated[dict[HiddenNeed, Number], EachNeed]
    relief: dict[HiddenNeed, dict[Act, Share]]
    """What is left of a bad act for somebody with that need."""
    bad_acts: PointsByAct


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
