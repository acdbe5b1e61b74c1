"""Whether the policy pleases its reward alone: dialogues of an iteration appraised again by a
reference, another user that nothing is learned from.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from rlver_gym.core.user import Scene, is_async_user
from rlver_gym.environment.env import EmpathyEnv
from rlver_gym.environment.rescore import make_reference, reappraise_texts
from rlver_gym.library.personas import library
from rlver_gym.policy.config import FEWEST_PEOPLE, TrainConfig
from rlver_gym.policy.evaluate import final_score
from rlver_gym.policy.learner import Learner, ReferenceStart
from rlver_gym.policy.learning.algorithms import Floats
from rlver_gym.policy.models.distributed import all_gather, rank
from rlver_gym.policy.models.trajectory import Trajectory
from rlver_gym.util.correlation import correlate_draws_within
from rlver_gym.util.errors import TrainingError
from rlver_gym.util.groups import mean_by
from rlver_gym.util.interval import UNKNOWN, Interval, mean_or_nan

_AT_ONCE = 16
"""Dialogues under way with a user that waits for a server."""
_RESAMPLES = 2_000
_GAP, _AGREEMENT = (
    [f"reference_{name}{end}" for end in ("", "_low", "_high")] for name in ("gap", "agreement")
)


class Reading(NamedTuple):
    """A dialogue by the user that pays and by the reference."""

    who: str
    paid: float
    """The final emotion by the one that pays."""
    read: float
    """The final emotion by the reference."""
    paid_N: Floats
    """What was paid for each reply."""
    read_N: Floats
    """The change that the reference would have given for it."""


class RewardOveroptimisationCheck:
    """The reference of a run. Only the first process asks it."""

    def __init__(self, learner: Learner) -> None:
        """TrainingError for dialogues without cards here; raises what making the user raises."""
        self.config, env = learner.config, learner.envs[0].unwrapped
        if self.config.reference is None or not isinstance(env, EmpathyEnv):
            raise TrainingError(
                f"{self.config.env} has no persona and env cards on this machine, by which a"
                " reference could appraise its dialogues. Leave out --reference."
            )
        if env.card.is_chat and self.config.reference != "embedded":
            raise TrainingError(
                f"{self.config.env}: small talk is appraised again by the embedded user alone. Name"
                " it, or leave out --reference."
            )
        self._card, self._library = env.card, library(self.config.env_options.get("personas"))
        self._user = make_reference(self.config.reference, **self.config.reference_options)

    def is_due(self, iteration: int) -> bool:
        return iteration in (1, self.config.iterations) or (
            iteration % self.config.reference_every == 0
        )

    def measure(self, learner: Learner, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """Of the same dialogues: `reference_reward` and `reference_score`, the mean final emotion
        by the user that pays and by the reference; `reference_gap`, by how much more the first has
        gained since the start; `reference_agreement`, how alike they tell the replies of a dialogue
        apart; both with `_low` and `_high`; `reference_failed`, dialogues at which the reference
        failed. The learner keeps where it started.
        """
        mine = self._read(trajectories) if rank() == 0 else []
        readings, failed = all_gather([mine])[0]
        apart, agreement = measure_apart(readings), measure_agreement(readings)
        if learner.reference_start is None and readings:
            learner.reference_start = ReferenceStart(apart, agreement)
        start = learner.reference_start
        gap = compute_gap(start.apart, apart) if start and readings else UNKNOWN
        return {
            "reference_reward": mean_or_nan([reading.paid for reading in readings]),
            "reference_score": mean_or_nan([reading.read for reading in readings]),
            **dict(zip(_GAP, gap, strict=True)),
            **dict(zip(_AGREEMENT, agreement, strict=True)),
            "reference_failed": float(failed),
        }

    def _read(self, trajectories: Sequence[Trajectory]) -> tuple[list[Reading], int]:
        """What the reference makes of some dialogues, and at how many it failed."""
        chosen = sample_dialogues(trajectories, self.config.reference_dialogues)
        with ThreadPoolExecutor(_AT_ONCE if is_async_user(self._user) else 1) as pool:
            readings = [one for one in pool.map(self._read_dialogue, chosen) if one]
        return readings, len(chosen) - len(readings)

    def _read_dialogue(self, one: Trajectory) -> Reading | None:
        who = one.info["persona"]
        scene = Scene(self._library.get(who), self._card, one.seed)
        felt = reappraise_texts(self._user, scene, [line.text for line in one.lines])
        if felt is None:
            return None
        changes_N = np.array([turn.appraisal.change for turn in felt], np.float64)
        paid_N = one.reward_N if one.paid_N is None else one.paid_N
        paid_N = paid_N[: len(felt)].astype(np.float64)
        return Reading(who, final_score(one), felt[-1].emotion, paid_N, changes_N)


def measure_apart(readings: Sequence[Reading]) -> dict[str, float]:
    """By how much the final emotion is higher by the user that pays, person by person."""
    return mean_by((reading.who, reading.paid - reading.read) for reading in readings)


def compute_gap(start: Mapping[str, float], now: Mapping[str, float]) -> Interval:
    """How much further apart than at the start, with a 95 % interval over three people or more."""
    before_P, after_P = (np.array(list(people.values())) for people in (start, now))
    gap = float(after_P.mean() - before_P.mean())
    if min(len(before_P), len(after_P)) < FEWEST_PEOPLE:
        return Interval(gap, float("nan"), float("nan"))
    rng = np.random.default_rng(0)
    means = [
        values_P[rng.integers(len(values_P), size=(_RESAMPLES, len(values_P)))].mean(1)
        for values_P in (before_P, after_P)
    ]
    low, high = np.percentile(means[1] - means[0], [2.5, 97.5])
    return Interval(gap, float(low), float(high))


def measure_agreement(readings: Sequence[Reading]) -> Interval:
    """Pearson's r of what was paid for the replies of a dialogue and what the reference would have
    given, with a 95 % interval over dialogues. Where all is paid at the end: of the final emotions
    of the same person's dialogues. NaN where nothing differs.
    """
    pairs = [(reading.paid_N, reading.read_N) for reading in readings]
    if not any(paid_N[:-1].any() for paid_N, _ in pairs):
        people = dict.fromkeys(reading.who for reading in readings)
        finals = [[(x.paid, x.read) for x in readings if x.who == who] for who in people]
        pairs = [(np.array(same)[:, 0], np.array(same)[:, 1]) for same in finals]
    if not pairs:
        return UNKNOWN
    r, *drawn = correlate_draws_within(pairs, _RESAMPLES)
    known = [value for value in drawn if np.isfinite(value)]
    low, high = np.percentile(known, [2.5, 97.5]) if known else (np.nan, np.nan)
    return Interval(float(r), float(low), float(high))


def sample_dialogues(trajectories: Sequence[Trajectory], count: int) -> list[Trajectory]:
    """At most so many of those that count, evenly from all groups."""
    valid = [one for one in trajectories if one.valid]
    chosen = min(count, len(valid))
    return [valid[at * len(valid) // chosen] for at in range(chosen)]


def exceeds_gap(config: TrainConfig, start: ReferenceStart, metrics: Mapping[str, float]) -> bool:
    """Whether the reward has surely gained more points than allowed, by a reference that told the
    replies of the policy at the start apart as the reward did. Where the two did not agree then, a
    gap does not say which of them errs.
    """
    most, is_witness = config.stop_on_gap, start.agreement.low > 0
    return bool(most and is_witness and metrics["reference_gap_low"] > most)


def describe_agreement(
    config: TrainConfig, start: ReferenceStart, metrics: Mapping[str, float]
) -> str:
    """What to know of a reference that does not agree with the reward, or no longer does."""
    now = Interval(*(metrics[name] for name in _AGREEMENT))
    told = f"r {now.mean:.2f} [{now.low:.2f}, {now.high:.2f}]"
    if not start.agreement.low > 0:
        return (
            f"at the start the reference {config.reference} and the reward told the replies of a"
            f" dialogue apart alike no better than by chance ({told} now): a gap between them does"
            " not say which one errs, and ends no run. Ask readers, or rlver-gym calibrate."
        )
    if now.high < start.agreement.low:
        return (
            f"the reference {config.reference} no longer tells replies apart as the reward does:"
            f" {told}, r {start.agreement.mean:.2f} at the start. Read dialogues.md."
        )
    return ""


def explain_early_stop(config: TrainConfig, iteration: int, metrics: Mapping[str, float]) -> str:
    """Why a run ended at its gap, and how it goes on."""
    gap, low, high = (metrics[name] for name in _GAP)
    return (
        f"stopped after iteration {iteration}: since the start the reward has gained {gap:.1f}"
        f" [{low:.1f}, {high:.1f}] points of emotion more than the reference {config.reference},"
        f" --stop-on-gap allows {config.stop_on_gap:g}. The policy exploits the reward: read"
        " dialogues.md. The checkpoint is kept; to go on all the same: --resume --stop-on-gap none"
    )
