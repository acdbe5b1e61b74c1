"""What a training holds in memory: models, environments, a sampler, and how far it is."""

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.optim import AdamW
from transformers import PreTrainedModel

from rlver_gym.core.cards import EnvCard
from rlver_gym.environment.make import make_for_loop
from rlver_gym.policy.config import TrainConfig
from rlver_gym.policy.learning.persona_baseline import PersonaBaseline
from rlver_gym.policy.learning.steps import make_optimizer
from rlver_gym.policy.models.actor import Actor, Critic, Models, make_reference_without_adapters
from rlver_gym.policy.models.distributed import all_gather, distribute, local_slice, unwrap
from rlver_gym.policy.models.model import (
    find_causal_lm,
    get_max_context,
    load_model,
    load_tokenizer,
    uses_bf16,
)
from rlver_gym.policy.models.own_reward import OwnReward
from rlver_gym.policy.models.renderer import Renderer
from rlver_gym.policy.models.rollout import (
    ResetSpec,
    TextEnv,
    collect_rollouts,
    make_grouped_reset_specs,
    raise_if_all_failed,
)
from rlver_gym.policy.models.sampler import ModelSampler, Sampler, Sampling
from rlver_gym.policy.models.servers import VllmSampler
from rlver_gym.policy.models.trajectory import OnProgress, Trajectory, ignore_progress
from rlver_gym.policy.prompt import pin_prompt
from rlver_gym.policy.rated import draw_moments, read_rated_moments
from rlver_gym.util.errors import TrainingError
from rlver_gym.util.interval import Interval
from rlver_gym.util.model_cache import SHARED, SharedModel


class ReferenceStart(NamedTuple):
    """The user that pays and the reference, before anything was learned."""

    apart: dict[str, float]
    """By how much the final emotion is higher by the one that pays, in points, by person."""
    agreement: Interval
    """How alike they tell the replies of a dialogue apart, as a correlation."""


@dataclass
class Learner:
    """A policy that learns, its critic and reference, and the people it talks to."""

    config: TrainConfig
    renderer: Renderer
    models: Models
    optimizer: AdamW
    sampler: Sampler
    envs: list[TextEnv]
    held_out: list[TextEnv]
    max_tokens: int
    rated: list[Trajectory]
    """Moments of a corpus to learn from; none where the policy holds its own dialogues."""
    own_reward: OwnReward | None = None
    """What adds to the rewards that are learned from."""
    persona_baseline: PersonaBaseline | None = None
    """What the critic expects of whom, if it knows whom."""
    iteration: int = 0
    """Iterations that are done."""
    reference_start: ReferenceStart | None = None
    """How reward and reference user stood to each other at the start."""
    on_progress: OnProgress = ignore_progress
    interruptible: Callable[[], AbstractContextManager[None]] = nullcontext
    """Around rollouts, which change nothing: where a stop loses no learning."""

    @property
    def language_model(self) -> nn.Module:
        return unwrap(self.models.actor).model  # pyright: ignore[reportReturnType]

    def collect(self) -> list[Trajectory]:
        """The dialogues of the next iteration, of all processes; or the next rated moments."""
        config = self.config
        # Of a model that drops out while it learns, a run that goes on drops the same.
        torch.manual_seed(_derive_sampling_seed(config, self.iteration))
        with self.interruptible():
            if self.rated:
                return draw_moments(self.rated, config.dialogues, self.iteration, config.seed)
            return self.play(
                self.envs,
                make_reset_specs(config, self.iteration),
                temperature=config.temperature,
                draw_seed=_derive_sampling_seed(config, self.iteration),
                candidates=config.num_candidates,
                own_reward=self.own_reward,
            )

    def play(
        self,
        envs: Sequence[TextEnv],
        specs: Sequence[ResetSpec],
        *,
        temperature: float,
        draw_seed: int,
        candidates: int = 1,
        own_reward: OwnReward | None = None,
    ) -> list[Trajectory]:
        """The dialogues of all processes, each playing its share. TrainingError if all fail."""
        mine = local_slice(specs)
        self.sampler.refresh()
        trajectories = collect_rollouts(
            self.sampler,
            self.renderer,
            Sampling(self.config.max_reply_tokens, self.renderer.stop_ids, temperature),
            envs[: len(mine)],
            mine,
            draw_seed=draw_seed,
            max_tokens=self.max_tokens,
            workers=self.config.workers,
            candidates=candidates,
            goes_on_from_best=self.config.goes_on_from_best,
            own_reward=own_reward,
            on_progress=self.on_progress,
        )
        trajectories = all_gather(trajectories)
        raise_if_all_failed(trajectories)
        return trajectories

    def close(self) -> None:
        if isinstance(self.sampler, VllmSampler):
            self.sampler.close()
        for env in [*self.envs, *self.held_out]:
            env.close()
        SHARED.clear()


def make_learner(config: TrainConfig) -> Learner:
    """Load models, make environments. TrainingError for a model that cannot be used."""
    torch.manual_seed(config.seed)  # new adapters, and dropout where a model has it
    config = pin_prompt(config)
    renderer = Renderer(load_tokenizer(config.model), config.prompt, config.style)
    use_bf16 = uses_bf16(config.dtype)
    policy, models = _make_models(config, use_bf16)
    lock = Lock()
    SHARED.clear()
    if disabled := getattr(policy, "disable_adapter", None):
        decoder = find_causal_lm(policy).get_decoder()
        # Of its own: splitting marks, as the reader does, is a state of the tokenizer, and others
        # would split the prompt's marks meanwhile.
        tokenizer = copy.deepcopy(renderer.tokenizer)
        SHARED[config.model] = SharedModel(decoder, tokenizer, disabled, lock)
    max_tokens = min(config.max_tokens, get_max_context(policy))
    if config.max_reply_tokens >= max_tokens:
        raise TrainingError(
            f"{config.model} reads {max_tokens} tokens at most, which a reply of max_reply_tokens"
            f" ({config.max_reply_tokens}) would fill. Make replies shorter."
        )
    own_reward = OwnReward(config.reward) if config.reward else None
    evaluated = config.env_options | config.eval_options
    return Learner(
        config=config,
        renderer=renderer,
        models=models,
        optimizer=make_optimizer(models, lr=config.lr, critic_lr=config.critic_lr),
        sampler=_make_sampler(config, policy, use_bf16, lock),
        envs=[] if config.corpus else _make_environments(config, config.dialogues),
        held_out=_make_text_envs(config.env, evaluated, config.eval_dialogues)
        if config.eval_every
        else [],
        max_tokens=max_tokens,
        rated=_read_corpus(config, renderer, max_tokens, own_reward),
        own_reward=own_reward,
        persona_baseline=PersonaBaseline() if config.critic_knows == "persona" else None,
    )


def _make_models(config: TrainConfig, use_bf16: bool) -> tuple[PreTrainedModel, Models]:
    def load() -> PreTrainedModel:
        return load_model(
            config.model,
            use_bf16=use_bf16,
            lora=config.lora_rank,
            gradient_checkpointing=config.gradient_checkpointing,
        )

    policy = load()
    actor, reference = Actor(policy, use_bf16), None
    if config.has_reference and config.lora_rank:
        reference = make_reference_without_adapters(actor)
    elif config.has_reference:
        reference = Actor(copy.deepcopy(policy).requires_grad_(False).eval(), use_bf16)
    critic = distribute(Critic(load(), use_bf16)) if config.algorithm.has_critic else None
    torch.manual_seed(config.seed)
    return policy, Models(distribute(actor), critic, reference)


def _read_corpus(
    config: TrainConfig, renderer: Renderer, max_tokens: int, own_reward: OwnReward | None
) -> list[Trajectory]:
    if config.corpus is None:
        return []
    at_least = 1 if config.algorithm.has_critic else 2
    return read_rated_moments(Path(config.corpus), renderer, max_tokens, at_least, own_reward)


def _make_environments(config: TrainConfig, number: int) -> list[TextEnv]:
    made = _make_text_envs(config.env, config.env_options, number)
    card = getattr(made[0].unwrapped, "card", None)
    if config.num_candidates > 1 and isinstance(card, EnvCard) and card.reward == "terminal":
        raise TrainingError(
            f"replies are compared by what each of them earns, and {config.env} pays at the end"
            " alone: take RLVER-Empathy-v0, or another algorithm with --compare dialogues."
        )
    return made


def _make_text_envs(env: str, options: dict[str, Any], number: int) -> list[TextEnv]:
    try:
        made = [make_for_loop(env, **options) for _ in range(number)]
    except (gym.error.Error, ImportError, TypeError) as error:
        raise TrainingError(
            f"{env} cannot be made ({error}). Look at --env, --env-options and, of what differs"
            " when evaluating, --eval-options; in a YAML file, eval_options: {} for nothing."
        ) from error
    spaces = made[0].observation_space, made[0].action_space
    if not all(isinstance(space, gym.spaces.Text) for space in spaces):
        raise TrainingError(
            f"{env} is no environment of text: its observations and actions are {spaces}. Take"
            " another, such as RLVER-Empathy-v0."
        )
    return made


def _make_sampler(
    config: TrainConfig, model: nn.Module, use_bf16: bool, lock: AbstractContextManager[Any]
) -> Sampler:
    if config.vllm and config.vllm_folder:
        return VllmSampler(config.vllm, model, config.vllm_folder, seeded=config.vllm_seeds)
    # bfloat16 is twice as fast as float32 under autocast. Weights below adapters are in it already,
    # but on a GPU adapters cost more than their layers' work: the copy has them merged in.
    is_worth_it = not config.lora_rank or torch.cuda.is_available()
    return ModelSampler(model, use_bf16, copied=use_bf16 and is_worth_it, lock=lock)


def make_reset_specs(config: TrainConfig, iteration: int) -> list[ResetSpec]:
    """The starts of an iteration's dialogues: a seed a group, never the same in two iterations."""
    number = config.dialogues // config.group
    seeds = np.random.SeedSequence((config.seed, iteration)).generate_state(number)
    return make_grouped_reset_specs(config.dialogues, config.group, iter(map(int, seeds)))


def _derive_sampling_seed(config: TrainConfig, iteration: int) -> int:
    return int(np.random.SeedSequence((config.seed, iteration, 1)).generate_state(1)[0])
