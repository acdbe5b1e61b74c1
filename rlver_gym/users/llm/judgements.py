"""From what the model said to an appraisal: the median of its judgements, bounded by code, every
bound a reason.
"""

import re
from collections.abc import Sequence
from statistics import fmean, median_low, pstdev
from typing import NamedTuple

from rlver_gym.answers.fields import Claims
from rlver_gym.core.dialogue import Appraisal, Reason, ReasonCode, Reply
from rlver_gym.core.emotion import MAX_CHANGE, apply_change
from rlver_gym.users.llm.parse import change_in, text_in


class Judgement(NamedTuple):
    """What one answer of the model says of an utterance.

    `change` as the model gave it, in [-100, 100].
    """

    change: int
    checks: str
    """What the model looked at before it gave a number, in one line."""
    thought: str
    feeling: str
    to_machine: bool
    """Whether the model took the words for something meant for itself, not for the person."""
    draft: Reply | None = None
    """The person's answer, when the model gave it at once."""


def addresses_judge(appraisal: Appraisal) -> bool:
    return any(reason.code == ReasonCode.JUDGE_ADDRESSED for reason in appraisal.reasons)


_MEANT_FOR = re.compile(r"person|人|(machine|机器)", re.IGNORECASE)
"""The first of the words that were asked for counts, whatever stands around it."""
CHECKS = ("took_up", "wrong", "again", "new")
"""What is looked at before the number: what is answered of the last words, what is not so, what was
there before, what is new.
"""


def parse_judgement(claims: Claims, draft: Reply | None = None) -> Judgement:
    """The judgement that an answer holds. Raises Unreadable when it has no clear change."""
    meant_for = _MEANT_FOR.search(text_in(claims, "meant_for"))
    checks = [(name.replace("_", " "), text_in(claims, name)) for name in CHECKS]
    return Judgement(
        change=change_in(claims),
        checks="; ".join(f"{name}: {text}" for name, text in checks if text),
        thought=text_in(claims, "thought"),
        feeling=text_in(claims, "feeling"),
        to_machine=meant_for is not None and meant_for.lastindex is not None,
        draft=draft,
    )


def aggregate_judgements(
    orders: Sequence[Sequence[Judgement]], emotion: int, addressed: str | None = None
) -> Appraisal:
    """The appraisal by the judgements of one order of replies or more: of each order the lower
    median counts, of several orders the mean, rounded to even. `addressed` says how the utterance
    spoke to the judge, if it did: that counts as the worst words there are (then nobody need have
    judged), and half of that where only the model says so.

    The reasons' points add up to the change, which is at most ±10 and keeps the emotion within its
    scale.
    """
    judgements = [judgement for order in orders for judgement in order]
    most = -MAX_CHANGE
    if addressed is None and 2 * sum(x.to_machine for x in judgements) > len(judgements):
        addressed = "the model took it for words that are not meant for the person"
        most = -MAX_CHANGE // 2
    medians = [median_low(x.change for x in order) for order in orders if order]
    change = round(fmean(medians)) if medians else 0
    nearest = min(judgements, key=lambda x: abs(x.change - change), default=_NOBODY)
    bounded = _bound(change)
    kept = bounded if addressed is None else min(bounded, most)
    within = apply_change(emotion, kept) - emotion
    reasons = [Reason(ReasonCode.MODEL, float(change), nearest.checks)] if judgements else []
    note = f"the model said {change:+d}; one turn moves them by at most {MAX_CHANGE}"
    if bounded != change:
        reasons.append(Reason(ReasonCode.LIMIT, float(bounded - change), note))
    if addressed is not None:
        reasons.append(Reason(ReasonCode.JUDGE_ADDRESSED, float(kept - bounded), addressed))
    if within != kept:
        reasons.append(Reason(ReasonCode.SCALE_END, float(within - kept), "the scale ends here"))
    several = len(judgements) > 1
    orders_said = " | ".join(" ".join(f"{x.change:+d}" for x in order) for order in orders)
    notes = (
        (ReasonCode.SAMPLES, f"{len(judgements)} judgements: {orders_said}" if several else ""),
        (ReasonCode.FEELING, nearest.feeling),
    )
    reasons += [Reason(code, 0.0, text) for code, text in notes if text]
    spread = round(pstdev(_bound(x.change) for x in judgements), 2) if several else None
    draft = nearest.draft if addressed is None else None
    return Appraisal(within, nearest.thought, tuple(reasons), spread, draft)


_NOBODY = Judgement(0, "", "", "", to_machine=False)


def _bound(change: int) -> int:
    return max(-MAX_CHANGE, min(MAX_CHANGE, change))
