"""tinker-cookbook: dialogues as a `MessageEnv`, groups of them, and a dataset for its RL trainer.
To be copied.

Needs: pip install 'tinker-cookbook>=0.5.8,<0.7'

rl.train.Config(dataset_builder=EmpathyDatasetBuilder(
    model_name=MODEL, renderer_name="qwen3_instruct", group_size=8, groups_per_batch=16), ...)
"""

# pyright: reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import chz
from tinker import ModelInput
from tinker_cookbook.renderers import Message, Renderer, get_renderer, get_text_content
from tinker_cookbook.rl.message_env import EnvFromMessageEnv, MessageEnv, MessageStepResult
from tinker_cookbook.rl.types import (
    STOP_METRIC_PREFIX,
    Env,
    EnvGroupBuilder,
    RLDataset,
    RLDatasetBuilder,
    StopReason,
)
from tinker_cookbook.tokenizer_utils import get_tokenizer

from rlver_gym import env_card
from rlver_gym.integrations.episodes import (
    DEFAULT_ENV,
    EpisodeSpec,
    TextEpisode,
    list_specs,
    share_host,
)

REMEDY = "Train with rollout_error_tolerance=RetryOnFailure() to try it again, or skip its group."


class EmpathyMessageEnv(MessageEnv):
    """One dialogue. When the user fails, UserFailed ends the rollout as an error, which is what
    rollout strategies are for: with `RetryOnFailure` it is tried again, or its group skipped; the
    default, `FailFast`, stops the training.
    """

    def __init__(self, episode: TextEpisode) -> None:
        """`episode`: one that has not begun."""
        self._episode = episode
        self._messages: list[Message] = []

    async def initial_observation(self) -> list[Message]:
        await self._episode.abegin()
        self._messages = [Message(**one) for one in self._episode.messages]
        return list(self._messages)

    async def step(self, message: Message) -> MessageStepResult:
        """Say something to the person. The policy's messages stay in the conversation as they were
        sampled. The reason to stop is "completed" also when the turns are used up: that is an end
        like the others here, and tinker-cookbook takes the reward from what a limit stopped.
        """
        result = await self._episode.asay(get_text_content(message))
        self._messages += [message, Message(role="user", content=result.reply)]
        completed = {f"{STOP_METRIC_PREFIX}{StopReason.COMPLETED}": 1.0}
        return MessageStepResult(
            reward=result.reward,
            episode_done=result.done,
            next_messages=list(self._messages),
            metrics={**self._episode.metrics, **completed} if result.done else {},
        )


class RenderOnLoop(EnvFromMessageEnv):
    """Renders on the event loop: in threads, which share a tokenizer, the renderers for Qwen of
    0.5.8 stop with "Already borrowed" as soon as two dialogues go on at once.
    """

    async def _render_in_thread(self, messages: list[Message], **kwargs: Any) -> ModelInput:
        return self.renderer.build_generation_prompt(messages, **kwargs)


@dataclass(frozen=True)
class EmpathyGroupBuilder(EnvGroupBuilder):
    """A group whose members meet the same person in the same mood. Can be pickled when its renderer
    was made by `get_renderer` with a `model_name`.
    """

    spec: EpisodeSpec
    renderer: Renderer
    group_size: int
    user: Any = "embedded"
    options: Mapping[str, Any] = field(default_factory=dict)
    """The user's, whom the members share. They are written to the log, and may hold no key."""
    max_trajectory_tokens: int | None = None
    """Of a dialogue, its prompt included; None for no limit."""
    max_generation_tokens: int | None = None
    """Of a reply: what has to be left in `max_trajectory_tokens` for a turn to take place."""

    async def make_envs(self) -> Sequence[Env]:
        host = share_host({"user": self.user, "written_to": "the log", **self.options})
        card = env_card(self.spec.env)
        # Breaking off costs what the worst dialogue does. With tinker-cookbook's own penalties, -1
        # and -0.1, it was worth learning.
        worst = 0.0 if card.reward == "terminal" else -float(card.start)
        limits = {
            "failed_parse_reward": worst,
            "context_overflow_reward": worst,
            "max_trajectory_tokens": self.max_trajectory_tokens,
            "max_generation_tokens": self.max_generation_tokens,
        }
        episodes = [host.episode(self.spec, REMEDY) for _ in range(self.group_size)]
        return [RenderOnLoop(self.renderer, EmpathyMessageEnv(one), **limits) for one in episodes]

    def logging_tags(self) -> list[str]:
        return [self.spec.env]


@dataclass(frozen=True)
class EmpathyDataset(RLDataset):
    """Batches of groups, in their order; a rest that fills no batch is left out."""

    groups: Sequence[EmpathyGroupBuilder]
    groups_per_batch: int

    def get_batch(self, index: int) -> Sequence[EnvGroupBuilder]:
        if not 0 <= index < len(self):
            raise IndexError(f"there is no batch {index}: the dataset has {len(self)}.")
        start = index * self.groups_per_batch
        return self.groups[start : start + self.groups_per_batch]

    def __len__(self) -> int:
        return len(self.groups) // self.groups_per_batch


@chz.chz
class EmpathyDatasetBuilder(RLDatasetBuilder):
    """Every persona of the train split with each seed, shuffled, to train on; those of the
    validation split to test on, once each.
    """

    model_name: str
    """The name that tinker-cookbook's `get_tokenizer` takes."""
    renderer_name: str
    group_size: int
    groups_per_batch: int
    env: str = DEFAULT_ENV
    num_seeds: int = 1
    """How many groups a persona gets, with the seeds from 0."""
    shuffle_seed: int = 0
    user: str = "embedded"
    options: Mapping[str, Any] = chz.field(default_factory=dict)
    max_trajectory_tokens: int | None = None
    max_generation_tokens: int | None = None

    async def __call__(self) -> tuple[EmpathyDataset, EmpathyDataset]:
        specs = list_specs(self.env, "train", range(self.num_seeds))
        random.Random(self.shuffle_seed).shuffle(specs)
        tests = self._group(list_specs(self.env, "validation"), group_size=1)
        train = EmpathyDataset(self._group(specs, self.group_size), self.groups_per_batch)
        return train, EmpathyDataset(tests, len(tests))

    def _group(self, specs: Sequence[EpisodeSpec], group_size: int) -> list[EmpathyGroupBuilder]:
        tokenizer = get_tokenizer(self.model_name)
        renderer = get_renderer(self.renderer_name, tokenizer, model_name=self.model_name)
        names = ("user", "options", "max_trajectory_tokens", "max_generation_tokens")
        known = {name: getattr(self, name) for name in names}
        return [EmpathyGroupBuilder(spec, renderer, group_size, **known) for spec in specs]
