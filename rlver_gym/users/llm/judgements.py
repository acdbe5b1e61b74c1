"""From what the model said to an appraisal: the median of its judgements, bounded by code, every
bound a reason.
"""

from collections.abc import Sequence
from statistics import median_low, pstdev
from typing import NamedTuple

from rlver_gym.core.dialogue import Appraisal, Reason, ReasonCode, Reply
from rlver_gym.core.emotion import MAX_CHANGE, apply_change
from rlver_gym.users.llm.parse import Claims, change_in, text_in


class Judgement(NamedTuple):
    """What one answer of the model says of an utterance.

    `change` as the model gave it, in [-100, 100].
    """

    change: int
    reading: str
    fit: str
    thought: str
    feeling: str
    to_machine: bool
    """Whether the model took the words for something meant for itself, not for the person."""
    draft: Reply | None
    """The person's answer, when the model gave it at once."""


def addresses_judge(appraisal: Appraisal) -> bool:
    return any(reason.code == ReasonCode.JUDGE_ADDRESSED for reason in appraisal.reasons)


def get_unclipped_change(appraisal: Appraisal) -> int:
    """The change before the end of the scale cut it: what the words did, not what the number could
    show of it.
    """
    return appraisal.change - int(
        sum(reason.points for reason in appraisal.reasons if reason.code == ReasonCode.SCALE_END)
    )


def parse_judgement(claims: Claims, draft: Reply | None = None) -> Judgement:
    """The judgement that an answer holds. Raises Unreadable when it has no clear change."""
    return Judgement(
        change=change_in(claims),
        reading=text_in(claims, "reading"),
        fit=text_in(claims, "fit"),
        thought=text_in(claims, "thought"),
        feeling=text_in(claims, "feeling"),
        to_machine=text_in(claims, "meant_for").casefold() == "machine",
        draft=draft,
    )


def aggregate_judgements(
    judgements: Sequence[Judgement], emotion: int, addressed: str | None
) -> Appraisal:
    """The appraisal by one judgement or more, of which the lower median counts. `addressed` says
    how the utterance spoke to the judge, if it did: that counts as the worst words there are, and
    half of that where only the model says so.

    The reasons' points add up to the change, which is at most ±10 and keeps the emotion within its
    scale.
    """
    most = -MAX_CHANGE
    if addressed is None and 2 * sum(one.to_machine for one in judgements) > len(judgements):
        addressed = "the model took it for words that are not meant for the person"
        most = -MAX_CHANGE // 2
    change = median_low(one.change for one in judgements)
    one = next(one for one in judgements if one.change == change)
    bounded = _bound(change)
    kept = bounded if addressed is None else min(bounded, most)
    within = apply_change(emotion, kept) - emotion
    said = sorted(one.change for one in judgements)
    reasons = [Reason(ReasonCode.MODEL, float(change), one.fit)]
    note = f"the model said {change:+d}; one turn moves them by at most {MAX_CHANGE}"
    if bounded != change:
        reasons.append(Reason(ReasonCode.LIMIT, float(bounded - change), note))
    if addressed is not None:
        reasons.append(Reason(ReasonCode.JUDGE_ADDRESSED, float(kept - bounded), addressed))
    if within != kept:
        reasons.append(Reason(ReasonCode.SCALE_END, float(within - kept), "the scale ends here"))
    spread = round(pstdev(map(_bound, said)), 2) if len(said) > 1 else None
    median = f"median of {len(said)}: {' '.join(f'{one:+d}' for one in said)}"
    notes = (
        (ReasonCode.SAMPLES, median if len(said) > 1 else ""),
        (ReasonCode.READING, one.reading),
        (ReasonCode.FEELING, one.feeling),
    )
    reasons += [Reason(code, 0.0, text) for code, text in notes if text]
    draft = one.draft if addressed is None else None
    return Appraisal(within, one.thought, tuple(reasons), spread, draft)


def _bound(change: int) -> int:
    return max(-MAX_CHANGE, min(MAX_CHANGE, change))
