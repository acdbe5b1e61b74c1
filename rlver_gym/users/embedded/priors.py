"""Expert priors: what experts give for each item, as a shipped card."""

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator, Field

from rlver_gym.core.ledger import ACT_IN_WORDS
from rlver_gym.core.library import parse_card
from rlver_gym.core.persona import AnchorKind, HiddenNeed
from rlver_gym.io.files import load_json
from rlver_gym.io.frozen import Frozen


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
Number = Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False, strict=True)]
Share = Annotated[float, Field(ge=0, le=1, strict=True)]
PointsByAct = dict[Act, Number]
EachNeed = AfterValidator(_check_complete(tuple(HiddenNeed)))
EachKind = AfterValidator(_check_complete(AnchorKind.__args__))
PointsByKind = Annotated[dict[AnchorKind, Number], EachKind]


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
def load_expert_points() -> ExpertPoints:
    """What experts would give; CardError names what is wrong with a damaged file."""
    name = "priors_en.json"
    return parse_card(
        ExpertPoints, load_json("rlver_gym.users.embedded", name), f"the shipped {name}"
    )
