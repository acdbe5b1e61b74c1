"""A learner to disk and back, exactly. What is sampled and in which order it is learned follow from seed and iteration, so there is no random state to save."""

import json
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict

from rlver_gym._version import __version__
from rlver_gym.errors import TrainingError
from rlver_gym.policy.agent import Manner
from rlver_gym.policy.config import TrainConfig
from rlver_gym.policy.distributed import plain, rank, whole
from rlver_gym.policy.expected import Expected
from rlver_gym.policy.learner import Learner
from rlver_gym.policy.model import export
from rlver_gym.policy.prompts import agent_prompt
from rlver_gym.untrusted.files import open_regular, read_text
from rlver_gym.untrusted.jsontext import parse_json

WEIGHTS, OPTIMIZER, STATE, MODEL = "learner.safetensors", "optimizer.pt", "state.json", "model"
MAX_STATE_BYTES = 16 << 20
"""Of the state: a line for each persona that the critic knows."""


def save(learner: Learner, folder: Path) -> None:
    """Write the learner into a folder: what learns (safetensors), the optimizer, the config, how far it got and what the critic expects of whom, and the model as `from_pretrained` reads it.

    Every process calls it; the first one writes. OSError when the disk is full or cannot be written.
    """
    weights, optimizer = get_state_dict(_all(learner), learner.optimizer, options=_whole())
    with whole(learner.actor):
        if rank() != 0:
            return
        try:
            save_file(_unshared(weights, _learning(learner)), folder / WEIGHTS)
            torch.save(optimizer, folder / OPTIMIZER)
            export(learner.language_model, learner.renderer.tokenizer, folder / MODEL)  # pyright: ignore[reportArgumentType]
        except (SafetensorError, RuntimeError) as error:  # what safetensors and torch make of a full disk
            raise OSError(str(error)) from error
        manner(learner.config).write(folder / MODEL)
    state = {
        "iteration": learner.iteration,
        "version": __version__,
        "config": learner.config.model_dump(mode="json"),
        "expected": learner.expected.state if learner.expected else None,
    }
    (folder / STATE).write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")


def load(learner: Learner, folder: Path) -> None:
    """Bring a learner made from the same config to where the saved one was. TrainingError for a checkpoint of another config, or one that cannot be read."""
    state = read_state(folder)
    ours = learner.config.model_dump(mode="json")
    theirs = TrainConfig.made(state["config"], str(folder)).model_dump(mode="json")
    for name in ours:
        if name not in _MAY_CHANGE and ours[name] != theirs[name]:
            raise TrainingError(
                f"{folder} was made with {name} {theirs[name]!r}, this run has {ours[name]!r}. Go on with the same, or choose another --out."
            )
    try:
        for name in (WEIGHTS, OPTIMIZER):
            with open_regular(folder / name, error=TrainingError):
                pass  # libraries would wait for a pipe
        weights: dict[str, Any] = {**load_file(folder / WEIGHTS)}
        optimizer = torch.load(folder / OPTIMIZER, weights_only=True, map_location="cpu")
        set_state_dict(
            _all(learner), learner.optimizer, model_state_dict=weights, optim_state_dict=optimizer, options=_whole()
        )
        if learner.expected:
            learner.expected = Expected(dict(state["expected"]))
    except (
        OSError,
        RuntimeError,
        ValueError,
        TypeError,
        KeyError,
        EOFError,
        UnpicklingError,
        SafetensorError,
    ) as error:
        raise TrainingError(
            f"the checkpoint {folder} cannot be loaded ({error}). Remove it to go on from the one before."
        ) from error
    learner.iteration = state["iteration"]


_MAY_CHANGE = frozenset(
    {
        "iterations",
        "eval_every",
        "save_every",
        "keep",
        "show_every",
        "workers",
        "microbatch_tokens",
        "engine",
        "vllm",
        "vllm_folder",
        "vllm_seeds",
        "max_sampler_kl",
        "stop_on_alarm",
    }
)
"""Settings that decide nothing of what was learned so far."""


def manner(config: TrainConfig) -> Manner:
    """How the model was told to reply, and is evaluated, for `hf:PATH`."""
    system = agent_prompt(config.language, config.style)
    return Manner(
        system=system,
        style=config.style,
        max_reply_tokens=config.max_reply_tokens,
        temperature=config.eval_temperature,
    )


def read_state(folder: Path) -> dict[str, Any]:
    """What stands beside the weights of a checkpoint: iteration, version, config, and what the critic expects of whom if it knows whom. TrainingError when it is none."""
    try:
        value = parse_json(read_text(folder / STATE, max_bytes=MAX_STATE_BYTES, error=TrainingError))
        state = {"expected": None, **value}
        state = {name: state[name] for name in ("iteration", "version", "config", "expected")}
        if type(state["iteration"]) is not int or state["iteration"] < 0 or not isinstance(state["config"], dict):
            raise ValueError("iteration or config is none")
        if not isinstance(state["expected"], dict | None):
            raise ValueError("expected is none")
    except (ValueError, KeyError, TypeError) as error:
        raise TrainingError(
            f"{folder} is no checkpoint ({type(error).__name__}: {error}). Remove it to go on from the one before."
        ) from error
    return state


def _all(learner: Learner) -> nn.ModuleDict:
    """Actor and critic as one module, since one optimizer serves both."""
    parts = {"actor": plain(learner.actor)}
    return nn.ModuleDict(parts | ({"critic": plain(learner.critic)} if learner.critic else {}))


def _learning(learner: Learner) -> set[str]:
    return {name for name, weight in _all(learner).named_parameters() if weight.requires_grad}


def _unshared(weights: Mapping[str, Any], learning: set[str]) -> dict[str, Tensor]:
    """The weights that learn, each once: tied ones have two names."""
    return {name: value.contiguous() for name, value in weights.items() if name in learning}


def _whole() -> StateDictOptions:
    return StateDictOptions(full_state_dict=True, cpu_offload=True, strict=False, broadcast_from_rank0=False)
