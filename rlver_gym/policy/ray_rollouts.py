"""The dialogues of an iteration on the workers of a Ray cluster: weights go there, trajectories
come back.

A worker makes its model, renderer and environments once. What it samples follows from the weights
and the dialogue, not from the worker.
"""

import pickle
import socket
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import groupby, pairwise
from typing import NamedTuple

import torch
from safetensors.torch import load, save

from rlver_gym.io.errors import TrainingError
from rlver_gym.io.ray_workers import LOCAL, Workers, open_cluster
from rlver_gym.io.version import __version__
from rlver_gym.policy.config import TrainConfig
from rlver_gym.policy.models.distributed import ranks
from rlver_gym.policy.models.model import bf16_copy, load_model, uses_bf16
from rlver_gym.policy.models.rollout import ResetSpec, collect_rollouts, refuse_all_failed
from rlver_gym.policy.models.sampler import ModelSampler, Sampling
from rlver_gym.policy.models.trajectory import Trajectory
from rlver_gym.policy.train import (
    Collect,
    Learner,
    draw_seed,
    make_environments,
    make_renderer,
    samples_with_a_copy,
)


class Share(NamedTuple):
    """Dialogues of an iteration that one worker holds, and how."""

    number: int
    specs: Sequence[ResetSpec]
    draw_seed: int
    max_tokens: int


class RolloutWorker:
    """A copy of the policy with environments, in a worker's process. It samples on the CPU."""

    def __init__(self, config: TrainConfig, num_envs: int, use_bf16: bool, version: str) -> None:
        """`num_envs`: the most dialogues of a share; `use_bf16`: as the learner computes.

        TrainingError when rlver-gym has another `version` here, and whatever `make_learner` raises.
        """
        if version != __version__:
            raise TrainingError(
                f"rlver-gym is {__version__} on {socket.gethostname()}, and the learner's is"
                f" {version}. Install the same on all machines of the cluster."
            )
        self._config = config
        model = load_model(config.model, use_bf16=use_bf16, device="cpu", lora=config.lora_rank)
        is_copied = samples_with_a_copy(config, use_bf16) and not config.lora_rank
        self._model = bf16_copy(model) if is_copied else model
        self._sampler = ModelSampler(self._model, use_bf16 and not is_copied)
        self._renderer = make_renderer(config)
        self._envs = make_environments(config, num_envs)

    @torch.no_grad()
    def learn(self, news: bytes) -> None:
        """Take in the weights that `dump_weights` gave. TrainingError for those of another
        model.
        """
        weights, mine = load(news), dict(self._model.named_parameters())
        for name, weight in weights.items():
            if name not in mine or mine[name].shape != weight.shape:
                raise TrainingError(
                    f"{self._config.model} is another model on {socket.gethostname()}: it has no"
                    f" {name} of shape {tuple(weight.shape)}. Put the same there."
                )
            mine[name].copy_(weight)
        self._sampler.refresh()

    def hold(self, item: Share) -> tuple[int, bytes]:
        """The share's number and its trajectories, pickled: as they are, their arrays would be
        read-only views of the cluster's memory.
        """
        config, renderer = self._config, self._renderer
        trajectories = collect_rollouts(
            self._sampler,
            renderer,
            Sampling(config.max_reply_tokens, renderer.stop_ids, config.temperature),
            self._envs[: len(item.specs)],
            item.specs,
            draw_seed=item.draw_seed,
            max_tokens=item.max_tokens,
            workers=config.workers,
            candidates=config.candidates,
        )
        return item.number, pickle.dumps(trajectories)

    def collect(self) -> None:
        """There is nothing to tell."""


def dump_weights(learner: Learner) -> bytes:
    """The weights that learn (adapters alone, where there are any) in the dtype that is sampled
    with, as a safetensors file.
    """
    config = learner.config
    is_copied = samples_with_a_copy(config, uses_bf16(config.dtype)) and not config.lora_rank
    return save(
        {
            name: one.detach().to("cpu", torch.bfloat16 if is_copied else one.dtype).contiguous()
            for name, one in learner.language_model.named_parameters()
            if one.requires_grad
        }
    )


def split_groups(specs: Sequence[ResetSpec], num_shares: int) -> list[list[ResetSpec]]:
    """Runs of neighbours, as even as whole groups allow; fewer when there are fewer groups."""
    groups = [list(group) for _, group in groupby(specs, lambda spec: spec.group)]
    num_shares = min(num_shares, len(groups))
    edges = [len(groups) * at // num_shares for at in range(num_shares + 1)]
    return [
        [spec for group in groups[start:end] for spec in group] for start, end in pairwise(edges)
    ]


class RayRollouts:
    """Workers that stay from one iteration to the next."""

    def __init__(self, config: TrainConfig, num_workers: int) -> None:
        """RunError for a config that cannot be pickled. They begin with the first iteration."""
        num_envs = config.group * -(-config.dialogues // config.group // num_workers)
        make = partial(RolloutWorker, config, num_envs, uses_bf16(config.dtype), __version__)
        self._num_workers, self._weights = num_workers, b""
        self._pool = Workers(make, num_workers, 1, lambda: self._weights, queue=0)

    def collect(self, learner: Learner, specs: Sequence[ResetSpec]) -> list[Trajectory]:
        """What `collect_in_process` gives. A worker that dies costs its share, which another one
        holds. RunError when they die again and again.
        """
        seed, self._weights = draw_seed(learner.config, learner.iteration), dump_weights(learner)
        shares = [
            [Share(number, share, seed, learner.max_tokens)]
            for number, share in enumerate(split_groups(specs, self._num_workers))
        ]
        pickled = dict(result for result, _ in self._pool.map(shares) if result)
        self._weights = b""
        trajectories = [one for number in sorted(pickled) for one in pickle.loads(pickled[number])]
        refuse_all_failed(trajectories)
        return trajectories

    def close(self) -> None:
        """End the workers."""
        self._pool.close()


@contextmanager
def rollouts_on_ray(
    config: TrainConfig, address: str = LOCAL, workers: int | None = None
) -> Iterator[Collect]:
    """What `train` collects dialogues by on a Ray cluster (see `open_cluster`), for as long as the
    block. No key is sent to it.

    TrainingError for a config that does not go with it.
    """
    _refuse_config(config)
    with (
        open_cluster(address, workers) as num_workers,
        closing(RayRollouts(config, num_workers)) as rollouts,
    ):
        yield rollouts.collect


def _refuse_config(config: TrainConfig) -> None:
    """TrainingError, with what to leave out."""
    options = config.env_options
    if config.vllm:
        raise TrainingError(
            "either a vLLM server samples or workers on Ray. Leave out one of them."
        )
    if ranks() > 1 or config.engine == "fsdp":
        raise TrainingError(
            "on Ray workers sample and one process learns. Leave out torchrun and --engine fsdp."
        )
    if "api_key" in options or "@" in str(options.get("base_url", "")):
        raise TrainingError(
            "no key is sent to workers, nor an address with a password: set OPENAI_API_KEY and"
            " OPENAI_BASE_URL, here and on the machines of the cluster."
        )
    if named := [name for name in ("response_cache", "budget") if name in options]:
        raise TrainingError(
            f"{' and '.join(named)} of env_options would be each worker's own. Leave it out, or"
            " --ray."
        )
