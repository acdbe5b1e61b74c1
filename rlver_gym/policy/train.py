"""The training loop: start, talk, pack, judge, update. It yields what each iteration was like; whoever calls it logs, saves and stops."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rlver_gym.policy.advantage import overlong
from rlver_gym.policy.batch import pack
from rlver_gym.policy.config import TrainConfig
from rlver_gym.policy.distributed import gathered, share
from rlver_gym.policy.judge import judge
from rlver_gym.policy.learner import Learner
from rlver_gym.policy.measures import measures
from rlver_gym.policy.optimizer import schedule
from rlver_gym.policy.rollout import Start, groups, talk
from rlver_gym.policy.trajectory import Played
from rlver_gym.policy.update import update


class Iteration(NamedTuple):
    """One round of talking and learning."""

    number: int
    """From 1."""
    played: list[Played]
    metrics: dict[str, float]
    """What the seed decides: the same in every equal run."""
    times: dict[str, float]
    """Seconds, and tokens a second: never twice the same."""


def train(learner: Learner, save_to: Path | None = None) -> Iterator[Iteration]:
    """The iterations that are left, one by one; the learner has learned each when it is yielded.

    `save_to`: where the batch goes whose loss is no number. Raises TrainingError for that, and whatever the environment raises.
    """
    config, is_measured = learner.config, False
    while learner.iteration < config.iterations:
        clock, rng = _Clock(), np.random.default_rng((config.seed, learner.iteration))
        starts = start(config, learner.iteration)
        played = _talked(learner, starts)
        clock.lap("talk_s")
        batch = pack(played, config.mask_cut)
        judged = judge(
            batch,
            learner.actor,
            learner.critic,
            learner.reference,
            learner.expected,
            credit=learner.credit,
            temperature=config.temperature,
            tokens=config.microbatch_tokens,
            reward_scale=config.reward_scale,
            format_penalty=config.format_penalty,
            kl_in_reward=config.kl if config.kl_estimator == "k1" else 0.0,
            cost_DN=config.overlong_cost * overlong(batch.tokens_DN, config.max_reply_tokens, config.overlong_tokens),
            one_step=config.epochs * config.minibatches == 1,
        )
        if learner.expected and judged.batch.dialogues:
            learner.expected.learn(judged.batch.who_D, judged.surprise_D)
        clock.lap("judge_s")
        schedule(learner.optimizer, learner.iteration, config.iterations, config.warmup, config.anneal)
        metrics = update(
            judged,
            learner.actor,
            learner.optimizer,
            learner.critic,
            rng=rng,
            objective=learner.objective,
            epochs=config.epochs,
            minibatches=config.minibatches,
            tokens=config.microbatch_tokens,
            temperature=config.temperature,
            grad_clip=config.grad_clip,
            target_kl=config.target_kl,
            max_sampler_kl=None if is_measured else config.max_sampler_kl,
            critic_only=learner.iteration < config.critic_warmup,
            save_to=save_to,
        )
        is_measured = is_measured or "sampler_kl" in metrics
        clock.lap("update_s")
        learner.iteration += 1
        said = sum(int(one.said_T.sum()) for dialogue in played for one in dialogue.sequences)
        yield Iteration(
            number=learner.iteration,
            played=played,
            metrics={**measures(played), **judged.metrics, **metrics},
            times={**clock.laps, "tokens_per_s": said / clock.total},
        )


def start(config: TrainConfig, iteration: int) -> list[Start]:
    """How the dialogues of an iteration begin: groups of the config's size, each with a seed of its own, never the same in two iterations."""
    number = config.dialogues // config.group
    seeds = np.random.SeedSequence((config.seed, iteration)).generate_state(number)
    return groups(config.dialogues, config.group, iter(map(int, seeds)))


def _talked(learner: Learner, starts: list[Start]) -> list[Played]:
    """The dialogues of all processes, each having played its share."""
    config, mine = learner.config, share(starts)
    with learner.talking() as sampler:
        played = talk(
            sampler,
            learner.renderer,
            learner.sampling(config.temperature),
            learner.envs[: len(mine)],
            mine,
            draw_seed=int(np.random.SeedSequence((config.seed, learner.iteration, 1)).generate_state(1)[0]),
            max_tokens=learner.max_tokens,
            workers=config.workers,
        )
    return gathered(played)


class _Clock:
    """Seconds from one lap to the next."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._start = self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name], self._last = now - self._last, now

    @property
    def total(self) -> float:
        """Seconds since the first lap began."""
        return self._last - self._start
