"""How the policy does with people it never learned from.

The same dialogues every time, so that two evaluations can be compared pair by pair.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from rlver_gym.core.emotion import Outcome
from rlver_gym.environment.alarms import find_alerts
from rlver_gym.environment.dialogue_env import DialogueEnv
from rlver_gym.environment.env import EmpathyEnv
from rlver_gym.environment.episode import Episode
from rlver_gym.policy.learner import Learner
from rlver_gym.policy.learning.metrics import compute_metrics
from rlver_gym.policy.models.distributed import all_gather, local_slice
from rlver_gym.policy.models.rollout import ResetSpec, TextEnv
from rlver_gym.policy.models.trajectory import Trajectory
from rlver_gym.util.interval import bootstrap


class Evaluation(NamedTuple):
    """The dialogues of an evaluation, in the order of its starts, and what they come to."""

    trajectories: list[Trajectory]
    alarms: list[str]
    """Why the score may not be what it seems; none where dialogues cannot be judged so."""
    metrics: dict[str, float]
    """Each name begins with `eval_`; `eval_low` to `eval_high` holds the mean score with 95 %."""


def evaluate(learner: Learner) -> Evaluation:
    config, envs = learner.config, learner.held_out
    specs = make_distinct_specs(envs[0], len(envs))
    trajectories = learner.play(
        envs, specs, temperature=config.eval_temperature, draw_seed=config.seed
    )
    episodes = all_gather(_collect_episodes(envs[: len(local_slice(specs))]))
    alarms = [alarm.says for alarm in find_alerts(episodes)]
    score = bootstrap(final_score(one) for one in trajectories if one.valid)
    metrics = {f"eval_{name}": value for name, value in compute_metrics(trajectories).items()}
    scores = {"eval_score": score.mean, "eval_low": score.low, "eval_high": score.high}
    return Evaluation(
        trajectories, alarms, {**metrics, **scores, "eval_alarms": float(len(alarms))}
    )


def _collect_episodes(envs: Sequence[TextEnv]) -> list[Episode]:
    ours = [env.unwrapped for env in envs if isinstance(env.unwrapped, EmpathyEnv)]
    sessions = [env.session for env in ours]
    return [
        Episode.of(one, "policy") for one in sessions if one.outcome not in (None, Outcome.FAILED)
    ]


def final_score(dialogue: Trajectory) -> float:
    """The last emotion where the environment tells it, else the return."""
    return float(dialogue.info.get("emotion", dialogue.total_reward))


def make_distinct_specs(env: TextEnv, count: int) -> list[ResetSpec]:
    """Starts with seeds from 0 on, one a persona where the environment names them, then again."""
    seen: list[object] = []
    seeds: list[int] = []
    for seed in range(50 * count):
        persona = _find_persona(env, seed)
        if persona not in seen:
            seen.append(persona)
            seeds.append(seed)
        if len(seeds) == count:
            break
    more = itertools.count(50 * count)
    seeds += [next(more) for _ in range(count - len(seeds))]
    return [ResetSpec(number, seed, number) for number, seed in enumerate(seeds)]


def _find_persona(env: TextEnv, seed: int) -> object:
    """Whom a reset with that seed meets, without first words where that can be told."""
    if isinstance(inner := env.unwrapped, DialogueEnv):
        return inner.draw_persona(seed)
    return env.reset(seed=seed)[1].get("persona", seed)
