"""Everything that a training run holds in memory, made from its config. What changes in it is the weights, the optimizer, what the critic expects of whom, and the iteration."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import gymnasium as gym
import torch
from torch import nn
from torch.optim import AdamW

from rlver_gym.errors import TrainingError
from rlver_gym.policy.config import TrainConfig
from rlver_gym.policy.credit import Credit
from rlver_gym.policy.distributed import plain, spread_out, whole
from rlver_gym.policy.exchange import Exchange
from rlver_gym.policy.expected import Expected
from rlver_gym.policy.forward import Actor, Critic, Scorer, without_adapters
from rlver_gym.policy.lessons import AGENTS, exchangeable, lessons
from rlver_gym.policy.model import computes_half, frozen_copy, load_model, load_tokenizer, max_context
from rlver_gym.policy.objective import Objective
from rlver_gym.policy.optimizer import make_optimizer
from rlver_gym.policy.prompts import agent_prompt
from rlver_gym.policy.renderer import Renderer
from rlver_gym.policy.rollout import TextEnv
from rlver_gym.policy.sampler import ModelSampler, Sampler, Sampling
from rlver_gym.policy.server_sampler import ServerSampler
from rlver_gym.policy.variants import VARIANTS
from rlver_gym.policy.vllm_sampler import VllmSampler

_HEARD = 256
"""Dialogues in which it is heard which words are people's own and which are what agents say."""


@dataclass
class Learner:
    """A policy that learns, its critic and reference, and the people it talks to."""

    config: TrainConfig
    renderer: Renderer
    actor: nn.Module
    critic: nn.Module | None
    reference: Scorer | None
    optimizer: AdamW
    sampler: Sampler
    envs: list[TextEnv]
    held_out: list[TextEnv]
    credit: Credit
    objective: Objective
    max_tokens: int
    expected: Expected | None = None
    """What the critic expects of whom, if it knows whom."""
    iteration: int = 0
    """Iterations that are done."""

    @property
    def language_model(self) -> nn.Module:
        """The causal LM, with adapters if it has any."""
        return plain(self.actor).model  # pyright: ignore[reportReturnType]

    def sampling(self, temperature: float) -> Sampling:
        """How replies are drawn at this temperature."""
        return Sampling(self.config.max_reply_tokens, self.renderer.stop_ids, temperature)

    @contextmanager
    def talking(self) -> Iterator[Sampler]:
        """The sampler, with the weights of now. All processes enter together; the weights are whole on each for as long as it samples with them itself."""
        with whole(self.actor):
            self.sampler.refresh()
            if not isinstance(self.sampler, ServerSampler):
                yield self.sampler
                return
        yield self.sampler

    def close(self) -> None:
        """Close the environments, and take from a server what it was given."""
        if isinstance(self.sampler, VllmSampler):
            self.sampler.close()
        for env in [*self.envs, *self.held_out]:
            env.close()


def make_learner(config: TrainConfig) -> Learner:
    """Load models, make environments. Raises TrainingError for a model that cannot be used, and whatever the environment raises for its options."""
    torch.manual_seed(config.seed)  # new adapters, and dropout where a model has it
    tokenizer = load_tokenizer(config.model)
    renderer = Renderer(tokenizer, agent_prompt(config.language, config.style), config.style)
    half, (credit, objective) = computes_half(config.dtype), algorithm(config)

    def load() -> nn.Module:
        return load_model(
            config.model, half=half, lora=config.lora_rank, gradient_checkpointing=config.gradient_checkpointing
        )

    model = load()
    room = min(config.max_tokens, max_context(model))  # pyright: ignore[reportArgumentType]
    if config.max_reply_tokens >= room:
        raise TrainingError(
            f"{config.model} reads {room} tokens at most, which a reply of max_reply_tokens ({config.max_reply_tokens}) would fill. Make replies shorter."
        )
    actor = Actor(model, value_head=config.algo == "ppo" and config.critic == "shared", half=half)
    critic = Critic(load(), half) if config.algo == "ppo" and config.critic == "own" else None
    reference: Scorer | None = None
    if config.kl:
        reference = without_adapters(actor) if config.lora_rank else Actor(frozen_copy(model), half=half)  # pyright: ignore[reportArgumentType]
    spread = spread_out(actor, config.engine)
    spread_critic = spread_out(critic, config.engine) if critic else None
    return Learner(
        config=config,
        renderer=renderer,
        actor=spread,
        critic=spread_critic,
        reference=reference,
        optimizer=make_optimizer(
            spread, spread_critic, lr=config.lr, critic_lr=config.critic_lr, weight_decay=config.weight_decay
        ),
        sampler=_sampler(config, model, half),
        envs=_environments(config),
        held_out=_held_out(config) if config.eval_every else [],
        credit=credit,
        objective=objective,
        max_tokens=room,
        expected=Expected() if config.algo == "ppo" and config.critic_knows == "persona" else None,
    )


def _environments(config: TrainConfig) -> list[TextEnv]:
    made = [gym.make(config.env, **config.env_options) for _ in range(config.dialogues)]
    if not config.exchange:
        return made
    vocabulary = exchangeable(list(lessons(AGENTS, _HEARD)))
    return [Exchange(env, vocabulary, config.exchange) for env in made]


def _held_out(config: TrainConfig) -> list[TextEnv]:
    options = config.env_options | config.eval_options
    try:
        return [gym.make(config.env, **options) for _ in range(config.eval_dialogues)]
    except TypeError as error:
        raise TrainingError(
            f"{config.env} cannot be made with {options} ({error}). What differs when evaluating is eval_options; in a YAML file, eval_options: {{}} for nothing."
        ) from error


def _sampler(config: TrainConfig, model: nn.Module, half: bool) -> Sampler:
    if config.vllm and config.vllm_folder:
        return VllmSampler(config.vllm, model, config.vllm_folder, seeded=config.vllm_seeds)
    return ModelSampler(model, half, copied=_samples_with_a_copy(config, half))


def _samples_with_a_copy(config: TrainConfig, half: bool) -> bool:
    """Weights in bfloat16 speak twice as fast as float32 ones under autocast. Below adapters they are that already; sharded ones are nowhere whole for long."""
    return half and not config.lora_rank and config.engine == "ddp"


def algorithm(config: TrainConfig) -> tuple[Credit, Objective]:
    """The published algorithm, with what the config changes in it."""
    credit, objective = VARIANTS[config.algo]
    if credit.kind == "gae":
        credit = replace(
            credit,
            gamma=config.gamma,
            gae_lambda=config.gae_lambda,
            discount_per=config.discount_per,
            rewards=config.rewards,
        )
    else:
        credit = replace(credit, kind=config.credit, gamma=config.gamma, floor=config.spread_floor)
    low = config.clip_low or objective.low
    return credit, replace(
        objective,
        low=low,
        high=config.clip_high or config.clip_low or objective.high,
        aggregate=config.aggregate or objective.aggregate,
        tis_cap=config.tis_cap if config.vllm or _samples_with_a_copy(config, computes_half(config.dtype)) else None,
        tis_level=config.tis_level,
        entropy=config.entropy,
        kl=0.0 if config.kl_estimator == "k1" else config.kl,
        estimator="k3" if config.kl_estimator == "k1" else config.kl_estimator,
        value_clip=config.value_clip,
    )
