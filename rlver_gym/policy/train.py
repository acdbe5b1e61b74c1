"""The training loop, and all that it holds in memory.

Each iteration: rollouts, a batch, advantages, an update, metrics.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.optim import AdamW
from transformers import PreTrainedModel

from rlver_gym.core.agent import agent_prompt
from rlver_gym.core.cards import EnvCard
from rlver_gym.environment.env import make_for_loop
from rlver_gym.policy.config import TrainConfig
from rlver_gym.policy.learning.algorithms import compute_overlong_penalty
from rlver_gym.policy.learning.batch import Batch, pack_batch
from rlver_gym.policy.learning.experience import PersonaBaseline, prepare_batch
from rlver_gym.policy.learning.metrics import compute_metrics
from rlver_gym.policy.learning.registry import AdvantageConfig, Objective
from rlver_gym.policy.learning.update import make_optimizer, run_optimizer_steps, set_learning_rates
from rlver_gym.policy.models.actor import Actor, Critic, Scorer, make_reference_without_adapters
from rlver_gym.policy.models.distributed import (
    all_gather,
    distribute,
    local_slice,
    unwrap,
)
from rlver_gym.policy.models.model import (
    get_max_context,
    load_model,
    load_tokenizer,
    make_frozen_copy,
    uses_bf16,
)
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
from rlver_gym.util.errors import TrainingError


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
    advantage: AdvantageConfig
    objective: Objective
    max_tokens: int
    persona_baseline: PersonaBaseline | None = None
    """What the critic expects of whom, if it knows whom."""
    iteration: int = 0
    """Iterations that are done."""
    reference_start: float | None = None
    """How far reward and reference user were apart at the start, in points of emotion."""
    on_progress: OnProgress = ignore_progress
    interruptible: Callable[[], AbstractContextManager[None]] = nullcontext
    """Around rollouts, which change nothing: where a stop loses no learning."""

    @property
    def language_model(self) -> nn.Module:
        return unwrap(self.actor).model  # pyright: ignore[reportReturnType]

    def play(
        self,
        envs: Sequence[TextEnv],
        specs: Sequence[ResetSpec],
        *,
        temperature: float,
        draw_seed: int,
        candidates: int = 1,
    ) -> list[Trajectory]:
        """The dialogues of all processes, each having played its share in its first `envs`.

        Raises TrainingError when all of them fail, and whatever the environment raises.
        """
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


def make_learner(config: TrainConfig) -> Learner:
    """Load models, make environments.

    Raises TrainingError for a model that cannot be used, and whatever the environment raises for
    its options.
    """
    torch.manual_seed(config.seed)  # new adapters, and dropout where a model has it
    prompt = agent_prompt(config.language, config.style)
    renderer = Renderer(load_tokenizer(config.model), prompt, config.style)
    use_bf16, (advantage, objective) = uses_bf16(config.dtype), resolve_algorithm(config)

    models = _make_models(config, use_bf16)
    max_tokens = min(config.max_tokens, get_max_context(models.policy))
    if config.max_reply_tokens >= max_tokens:
        raise TrainingError(
            f"{config.model} reads {max_tokens} tokens at most, which a reply of max_reply_tokens"
            f" ({config.max_reply_tokens}) would fill. Make replies shorter."
        )
    return Learner(
        config=config,
        renderer=renderer,
        actor=models.actor,
        critic=models.critic,
        reference=models.reference,
        optimizer=make_optimizer(
            models.actor,
            models.critic,
            lr=config.lr,
            critic_lr=config.critic_lr,
        ),
        sampler=_make_sampler(config, models.policy, use_bf16),
        envs=_make_environments(config, config.dialogues),
        held_out=_make_held_out(config) if config.eval_every else [],
        advantage=advantage,
        objective=objective,
        max_tokens=max_tokens,
        persona_baseline=PersonaBaseline() if config.critic_knows == "persona" else None,
    )


class _Models(NamedTuple):
    policy: PreTrainedModel  # inside of the actor
    actor: nn.Module
    critic: nn.Module | None
    reference: Scorer | None


def _make_models(config: TrainConfig, use_bf16: bool) -> _Models:
    def load() -> PreTrainedModel:
        return load_model(
            config.model,
            use_bf16=use_bf16,
            lora=config.lora_rank,
            gradient_checkpointing=config.gradient_checkpointing,
        )

    policy = load()
    actor = Actor(policy, use_bf16)
    reference: Scorer | None = None
    is_compared = config.kl_weight or config.algorithm.learns_rivals
    if is_compared and config.lora_rank:
        reference = make_reference_without_adapters(actor)
    elif is_compared:
        reference = Actor(make_frozen_copy(policy), use_bf16)
    critic = distribute(Critic(load(), use_bf16)) if config.algorithm.has_critic else None
    torch.manual_seed(config.seed)
    return _Models(policy, distribute(actor), critic, reference)


def _make_environments(config: TrainConfig, number: int) -> list[TextEnv]:
    made = [make_for_loop(config.env, **config.env_options) for _ in range(number)]
    card = getattr(made[0].unwrapped, "card", None)
    if config.candidates > 1 and isinstance(card, EnvCard) and card.reward == "terminal":
        raise TrainingError(
            f"{config.algo} compares replies by what each of them earns, and {config.env} pays at"
            " the end alone: take RLVER-Empathy-v0, or another algorithm."
        )
    return made


def _make_held_out(config: TrainConfig) -> list[TextEnv]:
    options = config.env_options | config.eval_options
    try:
        return [make_for_loop(config.env, **options) for _ in range(config.eval_dialogues)]
    except TypeError as error:
        raise TrainingError(
            f"{config.env} cannot be made with {options} ({error}). What differs when evaluating is"
            " eval_options; in a YAML file, eval_options: {} for nothing."
        ) from error


def _make_sampler(config: TrainConfig, model: nn.Module, use_bf16: bool) -> Sampler:
    if config.vllm and config.vllm_folder:
        return VllmSampler(config.vllm, model, config.vllm_folder, seeded=config.vllm_seeds)
    return ModelSampler(model, use_bf16, copied=_needs_bf16_copy(config, use_bf16))


def _needs_bf16_copy(config: TrainConfig, use_bf16: bool) -> bool:
    """Whether the sampler has weights of its own: in bfloat16 they speak twice as fast as float32
    ones under autocast.

    Below adapters they are that already, but on a GPU the calls of a layer's adapters take longer
    than its work, so the copy has them merged in.
    """
    is_worth_it = not config.lora_rank or torch.cuda.is_available()
    return use_bf16 and is_worth_it


def resolve_algorithm(config: TrainConfig) -> tuple[AdvantageConfig, Objective]:
    """The published algorithm, with what the config changes in it."""
    advantage, objective, ignores, _ = config.algorithm
    changes = {
        name: getattr(config, name)
        for name in ("gamma", "gae_lambda", "min_std")
        if name not in ignores
    }
    kind = advantage.kind if "advantage" in ignores else config.advantage
    has_other_sampler = bool(config.vllm) or _needs_bf16_copy(config, uses_bf16(config.dtype))
    return replace(advantage, kind=kind, **changes), replace(
        objective,
        clip_low=config.clip_low or objective.clip_low,
        clip_high=config.clip_high or config.clip_low or objective.clip_high,
        aggregate=config.aggregate or objective.aggregate,
        tis_cap=config.tis_cap if has_other_sampler else None,
        entropy=config.entropy,
        kl=config.kl_weight,
        beta=config.beta,
        value_clip=config.value_clip,
    )


def make_reset_specs(config: TrainConfig, iteration: int) -> list[ResetSpec]:
    """How the dialogues of an iteration begin: groups of the config's size, each with a seed of its
    own, never the same in two iterations.
    """
    number = config.dialogues // config.group
    seeds = np.random.SeedSequence((config.seed, iteration)).generate_state(number)
    return make_grouped_reset_specs(config.dialogues, config.group, iter(map(int, seeds)))


def derive_sampling_seed(config: TrainConfig, iteration: int) -> int:
    return int(np.random.SeedSequence((config.seed, iteration, 1)).generate_state(1)[0])


class Iteration(NamedTuple):
    """One round of rollouts and learning."""

    number: int
    """From 1."""
    trajectories: list[Trajectory]
    metrics: dict[str, float]
    """What the seed decides: the same in every equal run, if the sampler goes by seeds."""
    times: dict[str, float]
    """Seconds, and tokens a second: never twice the same."""


_STAGES = ("rollout_s", "prepare_s", "update_s")


def train(learner: Learner) -> Iterator[Iteration]:
    """The iterations that are left, one by one; the learner has learned each when it is yielded.

    Raises TrainingError for a loss that is no number, and whatever the environment raises.
    """
    config, is_measured = learner.config, False
    while learner.iteration < config.iterations:
        times = [time.perf_counter()]
        with learner.interruptible():
            trajectories = learner.play(
                learner.envs,
                make_reset_specs(config, learner.iteration),
                temperature=config.temperature,
                draw_seed=derive_sampling_seed(config, learner.iteration),
                candidates=config.candidates,
            )
        times.append(time.perf_counter())
        prepared = _prepare_batch(learner, trajectories)
        times.append(time.perf_counter())
        metrics = _update_learner(learner, prepared, check_sampler=not is_measured)
        times.append(time.perf_counter())
        is_measured = is_measured or "sampler_kl" in metrics
        learner.iteration += 1
        sampled = sum(
            int(one.action_mask_T.sum()) for dialogue in trajectories for one in dialogue.sequences
        )
        yield Iteration(
            number=learner.iteration,
            trajectories=trajectories,
            metrics={**compute_metrics(trajectories), **prepared.metrics, **metrics},
            times={
                **dict(zip(_STAGES, np.diff(times).tolist(), strict=True)),
                "tokens_per_s": sampled / (times[-1] - times[0]),
            },
        )


def _prepare_batch(learner: Learner, trajectories: list[Trajectory]) -> Batch:
    config = learner.config
    batch = pack_batch(trajectories, config.algorithm.learns_rivals)
    prepared = prepare_batch(
        batch,
        learner.actor,
        learner.critic,
        learner.reference,
        learner.persona_baseline,
        advantage=learner.advantage,
        temperature=config.temperature,
        tokens=config.microbatch_tokens,
        reward_scale=config.reward_scale,
        format_penalty=config.format_penalty,
        cost_DN=config.overlong_cost
        * compute_overlong_penalty(
            batch.tokens_DN, config.max_reply_tokens, config.overlong_tokens
        ),
        one_step=config.epochs * config.minibatches == 1,
        on_progress=learner.on_progress,
    )
    if learner.persona_baseline and prepared.dialogues:
        learner.persona_baseline.learn(prepared.who_D, prepared.residual_D)
    return prepared


def _update_learner(learner: Learner, prepared: Batch, check_sampler: bool) -> dict[str, float]:
    config, iteration = learner.config, learner.iteration
    set_learning_rates(
        learner.optimizer, iteration, config.iterations, config.warmup, config.anneal
    )
    return run_optimizer_steps(
        prepared,
        learner.actor,
        learner.optimizer,
        learner.critic,
        rng=np.random.default_rng((config.seed, iteration)),
        objective=learner.objective,
        epochs=config.epochs,
        minibatches=config.minibatches,
        tokens=config.microbatch_tokens,
        temperature=config.temperature,
        grad_clip=config.grad_clip,
        target_kl=config.target_kl,
        max_sampler_kl=config.max_sampler_kl if check_sampler else None,
        on_progress=learner.on_progress,
    )
