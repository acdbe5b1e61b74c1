"""Whether the policy pleases its reward alone: dialogues of an iteration appraised again by a
reference, another user that nothing is learned from.
"""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import fmean

from rlver_gym.core.library import library
from rlver_gym.core.user import Scene, is_async_user
from rlver_gym.environment.env import EmpathyEnv
from rlver_gym.environment.rescore import make_reference, rescore_texts
from rlver_gym.policy.config import TrainConfig
from rlver_gym.policy.evaluate import final_score
from rlver_gym.policy.learner import Learner
from rlver_gym.policy.models.distributed import all_gather, rank
from rlver_gym.policy.models.trajectory import Trajectory
from rlver_gym.util.errors import TrainingError

_AT_ONCE = 16
"""Dialogues under way with a user that waits for a server."""


class RewardOveroptimisationCheck:
    """The reference of a run. Only the first process asks it."""

    def __init__(self, learner: Learner) -> None:
        """TrainingError where the environment's dialogues cannot be appraised here; raises what the
        making of the user raises.
        """
        self.config, env = learner.config, learner.envs[0].unwrapped
        if self.config.reference is None or not isinstance(env, EmpathyEnv) or env.is_remote:
            raise TrainingError(
                f"{self.config.env} has no persona and env cards on this machine, by which a"
                " reference could appraise its dialogues. Leave out --reference."
            )
        self._card, self._library = env.card, library(self.config.env_options.get("personas"))
        self._user = make_reference(self.config.reference, **self.config.reference_options)

    def is_due(self, iteration: int) -> bool:
        return iteration in (1, self.config.iterations) or (
            iteration % self.config.reference_every == 0
        )

    def measure(self, learner: Learner, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """Means over the same dialogues: `reference_reward`, the final emotion by the user that
        pays; `reference_score`, that by the reference; `reference_gap`, by how much more the first
        has gained since the start; `reference_failed`, dialogues at which the reference failed.
        The learner keeps where it started.
        """
        mine = self._appraise(trajectories) if rank() == 0 else {}
        found = all_gather([mine])[0]
        apart = found["reference_reward"] - found["reference_score"]
        if learner.reference_start is None and math.isfinite(apart):
            learner.reference_start = apart
        start = math.nan if learner.reference_start is None else learner.reference_start
        return found | {"reference_gap": apart - start}

    def _appraise(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        chosen = sample_dialogues(trajectories, self.config.reference_dialogues)
        with ThreadPoolExecutor(_AT_ONCE if is_async_user(self._user) else 1) as pool:
            scores = pool.map(self._score, chosen)
        pairs = [
            (final_score(one), score)
            for one, score in zip(chosen, scores, strict=True)
            if score is not None
        ]
        rewards, found = zip(*pairs, strict=True) if pairs else ([math.nan], [math.nan])
        return {
            "reference_reward": fmean(rewards),
            "reference_score": fmean(found),
            "reference_failed": float(len(chosen) - len(pairs)),
        }

    def _score(self, one: Trajectory) -> int | None:
        scene = Scene(self._library.get(one.info["persona"]), self._card, one.seed)
        return rescore_texts(self._user, scene, [line.text for line in one.lines])


def sample_dialogues(trajectories: Sequence[Trajectory], count: int) -> list[Trajectory]:
    """At most so many of those that count, evenly from all groups."""
    valid = [one for one in trajectories if one.valid]
    chosen = min(count, len(valid))
    return [valid[at * len(valid) // chosen] for at in range(chosen)]


def explain_early_stop(config: TrainConfig, iteration: int, gap: float) -> str:
    """Why a run ended at its gap, and how it goes on."""
    return (
        f"stopped after iteration {iteration}: since the start the reward has gained {gap:.1f}"
        f" points of emotion more than the reference {config.reference}, --stop-on-gap allows"
        f" {config.stop_on_gap:g}. The policy exploits the reward: read dialogues.md. The"
        " checkpoint is kept; to go on all the same: --resume --stop-on-gap none"
    )
