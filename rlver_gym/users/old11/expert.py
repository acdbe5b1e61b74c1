"""What experts would give for what an utterance does to a person of this need: acts by how surely
they are done and how far they take up what was told, anchors, form. Inputs of the score, no score.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from rlver_gym.core.ledger import ACT_IN_WORDS
from rlver_gym.core.persona import AnchorKind, Persona
from rlver_gym.users.embedded.copies import Copies
from rlver_gym.users.embedded.hearing.utterance_features import UtteranceFeatures
from rlver_gym.util.files import load_json

if TYPE_CHECKING:
    from rlver_gym.users.embedded.perception import Past, Relevance

_ACTS = tuple(
    sorted({*ACT_IN_WORDS} - {"concrete", "self_care", "emphasis", "contrast", "sympathy"})
)
_KINDS: tuple[str, ...] = AnchorKind.__args__
_HURTING = ("insult", "blame", "threat", "minimise")
_OF_THE_WHOLE = ("invite", "open_question")
ITEMS = (
    *(f"does:{act}" for act in _ACTS), *(f"anchor:{kind}" for kind in _KINDS), "uptake",
    "reached_sentences", "gained", "lost", "anchored", "leaning", "asked_first", "too_soon",
    "short", "long", "elsewhere",
)  # fmt: skip
_PLACE = {name: at for at, name in enumerate(ITEMS)}
_SCALE = 5.0
"""Points that make a value of 1."""


@lru_cache(maxsize=1)
def _load_expert_points() -> dict[str, Any]:
    """What experts would give: points by need and act (acts), by need and kind of anchor (anchors),
    by need for telling back (told_back), by bad act (bad_acts) and what is left of these for a need
    (relief); the acts with which an anchor counts whole (frames).
    """
    return load_json("rlver_gym.users.embedded", "priors_en.json")


class AnchorTouch(NamedTuple):
    """An anchor that is touched for the first time."""

    kind: str
    key: str
    sentence: int
    is_in_one_sentence: bool


def ramp(value: float, low: float, high: float) -> float:
    """0 up to `low`, 1 from `high` on, straight between."""
    return min(1.0, max(0.0, (value - low) / (high - low)))


def weigh_items(
    persona: Persona,
    heard: UtteranceFeatures,
    past: "Past",
    copies: Copies,
    homes: Sequence["Relevance"],
    touched: Sequence[AnchorTouch],
) -> list[float]:
    expert, need = _load_expert_points(), persona.need
    found = [0.0] * len(ITEMS)
    empty = copies.parroted | copies.torn
    uptake = [
        0.0
        if at in empty or not piece.is_fluent or home.strange >= 300
        else (
            home.fresh
            + 0.1 * (home.told - home.fresh)
            + 0.5 * min(home.guessed, max(0.0, -home.strange))
        )
        * ramp(home.strange, 200, -50)
        * (0.75 if at in copies.quoted else 1.0)
        for at, (piece, home) in enumerate(zip(heard.pieces, homes, strict=True))
    ]
    reach = [min(1.0, sum(uptake[max(0, at - 1) : at + 2]) / 300) for at in range(len(uptake))]
    total = min(1.0, sum(uptake) / 300)
    acts = heard.acts
    trust = ramp(copies.share, 0.9, 0.7) * ramp(copies.repeated_most, 0.5, 0.15)
    if any(act in acts and acts[act][0] > 0.5 for act in _HURTING):
        trust *= 0.6
    points = expert["acts"][need]
    gained, lost = expert["told_back"][need] * total * trust, 0.0
    for act, (share, _) in acts.items():
        at, worth, bad = (
            _PLACE.get(f"does:{act}"),
            points.get(act, 0.0),
            expert["bad_acts"].get(act),
        )
        if at is None:
            continue
        if bad is not None:
            value = bad * share * expert["relief"].get(need, {}).get(act, 1.0)
        elif worth <= 0:
            value = worth * share
        else:
            value = (
                worth
                * share
                * trust
                * _weigh_act_by_relevance(act, heard, reach, total, copies, empty, past)
            )
        found[at] = value / _SCALE
        if value > 0:
            gained += value
        else:
            lost += value
    anchored = _weigh_anchors(persona, heard, copies, homes, touched, trust, found)
    logits = heard.logits
    leaning = (
        sum([worth * math.tanh(logits.get(act, 0.0) / 3) for act, worth in points.items()])
        if logits
        else 0.0
    )
    count, turn = len(heard.line.words), len(past.utterances)
    is_early = turn < 2
    found[_PLACE["uptake"] :] = [
        total * trust,
        sum([one > 0.5 for one in reach]) / max(1, len(reach)),
        math.tanh(gained / 10), math.tanh(lost / 10), math.tanh(anchored / 10),
        math.tanh(leaning / 9),
        float(is_early and ("open_question" in acts or acts.get("invite", (0.0,))[0] > 0.5)),
        float(is_early and need != "practical_advice" and acts.get("advice", (0.0,))[0] > 0.5),
        float(count < 5), max(0.0, min(1.0, (count - 110) / 200)),
        ramp(sum([one.alien for one in homes]) - sum([one.told + one.guessed for one in homes]),
             0, 1200),
    ]  # fmt: skip
    return found


def _weigh_act_by_relevance(
    act, heard: UtteranceFeatures, reach, total, copies: Copies, empty, past: "Past"
) -> float:
    """How far an act is done to this very person rather than to anyone, and again less."""
    times = past.acts.get(act, 0)
    if act in _OF_THE_WHOLE:
        share = total
    else:
        most, reached = 0.0, 0.0
        for at, piece in enumerate(heard.pieces):
            sure = piece.acts.get(act, 0.0)
            if sure:
                most = max(most, sure)
                if at not in empty and at not in copies.stale and "cliche" not in piece.phrases:
                    reached = max(reached, sure * reach[at])
        share = reached / most if most else total
    return share * 0.9**times + (1 - share) * 0.35 * 0.75**times


def _weigh_anchors(persona: Persona, heard, copies, homes, touched, trust, found) -> float:
    """Anchors: the dearest counts whole, the next ones less."""
    if not touched:
        return 0.0
    expert = _load_expert_points()
    points = expert["anchors"][persona.need]
    each = []
    for one in touched:
        piece = heard.pieces[one.sentence]
        if not piece.is_fluent or one.sentence in copies.torn or "cliche" in piece.phrases:
            continue
        framed = max(
            [heard.acts[act][0] for act in expert["frames"][one.kind] if act in heard.acts],
            default=0.0,
        )
        value = points[one.kind] * (0.5 + 0.5 * framed)
        if one.sentence in copies.parroted:
            value = 0.0
        elif one.sentence in copies.quoted:
            value *= 0.75
        if value > 0:
            value *= ramp(homes[one.sentence].strange, 200, -50) * trust
            value *= 1.0 if one.is_in_one_sentence else 0.2
        each.append((value, one.kind))
    each.sort(reverse=True)
    total = 0.0
    for number, (value, kind) in enumerate(each):
        if value > 0:
            value *= (1.0, 0.5, 0.25, 0.0)[min(3, number)]
        found[_PLACE[f"anchor:{kind}"]] += value / _SCALE
        total += value
    return total
