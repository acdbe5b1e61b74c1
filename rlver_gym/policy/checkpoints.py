"""Checkpoints: a learner to disk and back, exactly; each is whole or not there.

What is sampled and in which order it is learned follow from seed and iteration, so there is no
random state to save.
"""

import json
import math
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, NamedTuple, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel

from rlver_gym.core.agent import agent_prompt
from rlver_gym.io.atomic import write_atomically
from rlver_gym.io.errors import TrainingError
from rlver_gym.io.files import open_regular, read_text
from rlver_gym.io.json_text import parse_json
from rlver_gym.io.version import __version__
from rlver_gym.policy.config import TrainConfig, make_config
from rlver_gym.policy.learning.experience import PersonaBaseline
from rlver_gym.policy.models.agent import ReplyConfig
from rlver_gym.policy.models.distributed import all_gather, full_params, rank, ranks, unwrap
from rlver_gym.policy.models.model import export
from rlver_gym.policy.train import Learner

BEST = "best.json"
_NAME = re.compile(r"[0-9]{6}")


class _Best(NamedTuple):
    iteration: int
    score: float


class Checkpoints:
    """The checkpoints of a run folder, one folder each, named by the iteration after which it was
    written.
    """

    def __init__(self, folder: Path, keep: int = 2) -> None:
        """`keep`: how many of the last ones stay, beside the best."""
        self.folder = folder
        self.keep = keep

    def write(
        self, iteration: int, fill: Callable[[Path], None], score: float | None = None
    ) -> Path:
        """Let `fill` write into a new folder, then give it its name; older ones go. `score`: higher
        is better; the best one stays. One that is no number says nothing.

        TrainingError when the disk is full or cannot be written; what was there before is intact
        then.
        """
        final, unfinished = self.folder / f"{iteration:06d}", self.unfinished_path(iteration)
        try:
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            fill(unfinished)
            _flush(*filter(Path.is_file, unfinished.rglob("*")), unfinished)
            shutil.rmtree(final, ignore_errors=True)
            # Whoever is killed before the next line has noted one that is not there: see `best`
            self._update_best(iteration, score)
            unfinished.rename(final)
            _flush(self.folder)
        except OSError as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise TrainingError(
                f"the checkpoint {final} cannot be written ({error}). Make room and go on with"
                f" --resume; {self._what_stays()}"
            ) from error
        self._remove_old()
        return final

    def unfinished_path(self, iteration: int) -> Path:
        """Where a checkpoint stands while it is written."""
        return self.folder / f".{iteration:06d}.tmp"

    def all(self) -> list[Path]:
        """The whole ones, oldest first."""
        if not self.folder.is_dir():
            return []
        return sorted(path for path in self.folder.iterdir() if _NAME.fullmatch(path.name))

    def latest(self) -> Path | None:
        """The last one; None when there is none."""
        return (self.all() or [None])[-1]

    def best(self) -> Path | None:
        """The one with the highest score; None when none was scored."""
        noted = self._read_best()
        path = self.folder / f"{noted.iteration:06d}" if noted else None
        return path if path is not None and path.is_dir() else None

    def _read_best(self) -> "_Best | None":
        path = self.folder / BEST
        if not path.exists():
            return None
        try:
            value = parse_json(read_text(path, max_bytes=1 << 10, error=TrainingError))
            iteration, score = value["iteration"], value["score"]
            if (
                type(iteration) is not int
                or not 0 <= iteration < 10**6
                or type(score) not in (int, float)
            ):
                raise ValueError("it holds no iteration and score")
        except (ValueError, TypeError, KeyError) as error:
            raise TrainingError(
                f"{path}: does not say which checkpoint is best ({error}). Remove it; then the last"
                " one counts."
            ) from error
        return _Best(iteration, score)

    def _update_best(self, iteration: int, score: float | None) -> None:
        noted = self._read_best()
        if (
            score is None
            or not math.isfinite(score)
            or (noted is not None and noted.iteration < iteration and noted.score >= score)
        ):
            return
        write_atomically(
            self.folder / BEST, json.dumps({"iteration": iteration, "score": score}), OSError
        )

    def _remove_old(self) -> None:
        stay = {*self.all()[-self.keep :], self.best()}
        for path in self.all():
            if path not in stay:
                shutil.rmtree(path, ignore_errors=True)

    def _what_stays(self) -> str:
        latest = self.latest()
        return f"the one before, {latest}, is intact." if latest else "there is no earlier one."


def _flush(*paths: Path) -> None:
    """Onto the disk with them: a name must never stand for less than its contents."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


WEIGHTS, OPTIMIZER, STATE, MODEL = "learner.safetensors", "optimizer.pt", "state.json", "model"
MAX_STATE_BYTES = 16 << 20
"""Of the state: a line for each persona that the critic knows."""


def save(learner: Learner, folder: Path) -> None:
    """Write the learner into a folder: what learns (safetensors), the optimizer, the config, how
    far it got and what the critic expects of whom, and the model as `from_pretrained` reads it.

    Every process calls it with the same folder, which is there. The first one writes, and with
    shards each writes its own. OSError when the disk is full or cannot be written.
    """
    all_gather([None])  # the folder is there when the first process comes here
    try:
        if isinstance(learner.actor, FSDPModule):
            _save_shard(learner, folder)
        else:
            weights, optimizer = get_state_dict(_all(learner), learner.optimizer, options=_FULL)
            if rank() == 0:
                save_file(
                    _select_trainable(weights, _get_trainable_names(learner)), folder / WEIGHTS
                )
                torch.save(optimizer, folder / OPTIMIZER)
        _export(learner, folder / MODEL)
    # What safetensors and torch make of a full disk.
    except (
        SafetensorError,
        RuntimeError,
    ) as error:
        raise OSError(str(error)) from error
    if rank() == 0:
        make_reply_config(learner.config).write(folder / MODEL)
        state = {
            "iteration": learner.iteration,
            "version": __version__,
            "config": learner.config.model_dump(mode="json"),
            "persona_baseline": (
                learner.persona_baseline.state if learner.persona_baseline else None
            ),
            "reference_start": learner.reference_start,
        }
        (folder / STATE).write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")
    all_gather([None])  # nobody's shard is missing when the first process goes on


def _export(learner: Learner, folder: Path) -> None:
    """The model as `from_pretrained` reads it, by the first process."""
    lm, tokenizer = cast(PreTrainedModel, learner.language_model), learner.renderer.tokenizer
    if learner.config.lora_rank:
        with full_params(learner.actor):
            if rank() == 0:
                export(lm, tokenizer, folder)
        return
    weights = get_model_state_dict(unwrap(learner.actor), options=_FULL)
    if rank() == 0:
        own = {
            name: weights[f"model.{name}"] for name, _ in lm.named_parameters()
        }  # tied ones once
        export(lm, tokenizer, folder, own)


def load(learner: Learner, folder: Path) -> None:
    """Bring a learner made from the same config to where the saved one was.

    TrainingError for a checkpoint of another config, or one that cannot be read.
    """
    state = read_state(folder)
    ours = learner.config.model_dump(mode="json")
    theirs = make_config(state["config"], str(folder)).model_dump(mode="json")
    for name in ours:
        if name not in _MAY_CHANGE and ours[name] != theirs.get(name):
            raise TrainingError(
                f"{folder} was made with {name} {theirs.get(name)!r}, this run has {ours[name]!r}."
                " Go on with the same, or choose another --out."
            )
    try:
        shards = sorted(folder.glob("shard-*.safetensors"))
        for path in shards or [folder / WEIGHTS, folder / OPTIMIZER]:
            with open_regular(path, error=TrainingError):
                pass  # libraries would wait for a pipe
        if shards and len(shards) != int(shards[0].stem.rpartition("-")[2]):
            raise ValueError(f"it has {len(shards)} of its shards")
        if isinstance(learner.actor, FSDPModule) and len(shards) == ranks():
            _load_own_shard(learner, shards[rank()])
        elif shards:
            _load_and_join_shards(learner, shards)
        else:
            weights: dict[str, Any] = {**load_file(folder / WEIGHTS)}
            _set_state(
                learner,
                weights,
                torch.load(folder / OPTIMIZER, weights_only=True, map_location="cpu"),
            )
        if learner.persona_baseline:
            learner.persona_baseline = PersonaBaseline(dict(state["persona_baseline"]))
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
            f"the checkpoint {folder} cannot be loaded ({error}). Remove it to go on from the one"
            " before."
        ) from error
    learner.iteration, learner.reference_start = state["iteration"], state["reference_start"]


_MAY_CHANGE = frozenset(
    "iterations eval_every save_every keep_checkpoints show_every workers microbatch_tokens engine"
    " vllm vllm_folder vllm_seeds max_sampler_kl stop_on_alarm"
    " reference_every reference_dialogues reference_options stop_on_gap".split()
)
"""Settings that decide nothing of what was learned so far."""


def make_reply_config(config: TrainConfig) -> ReplyConfig:
    """How the model was told to reply, and is evaluated, for `hf:PATH`."""
    system = agent_prompt(config.language, config.style)
    return ReplyConfig(
        system=system,
        style=config.style,
        max_reply_tokens=config.max_reply_tokens,
        temperature=config.eval_temperature,
    )


def read_state(folder: Path) -> dict[str, Any]:
    """What stands beside the weights of a checkpoint: iteration, version, config, and what the
    critic expects of whom if it knows whom. TrainingError when it is none.
    """
    try:
        value = parse_json(
            read_text(folder / STATE, max_bytes=MAX_STATE_BYTES, error=TrainingError)
        )
        state = {"persona_baseline": None, "reference_start": None, **value}
        names = ("iteration", "version", "config", "persona_baseline", "reference_start")
        state = {name: state[name] for name in names}
        if (
            type(state["iteration"]) is not int
            or state["iteration"] < 0
            or not isinstance(state["config"], dict)
        ):
            raise ValueError("iteration or config is none")
        if not isinstance(state["persona_baseline"], dict | None):
            raise ValueError("persona_baseline is none")
        if type(state["reference_start"]) not in (float, int, type(None)):
            raise ValueError("reference_start is no number")
    except (ValueError, KeyError, TypeError) as error:
        raise TrainingError(
            f"{folder} is no checkpoint ({type(error).__name__}: {error}). Remove it to go on from"
            " the one before."
        ) from error
    return state


def _all(learner: Learner) -> nn.ModuleDict:
    """Actor and critic as one module, since one optimizer serves both."""
    parts = {"actor": unwrap(learner.actor)}
    return nn.ModuleDict(parts | ({"critic": unwrap(learner.critic)} if learner.critic else {}))


def _get_trainable_names(learner: Learner) -> set[str]:
    return {name for name, weight in _all(learner).named_parameters() if weight.requires_grad}


def _select_trainable(weights: Mapping[str, Any], learning: set[str]) -> dict[str, Tensor]:
    """The weights that learn, each once: tied ones have two names."""
    return {name: value.contiguous() for name, value in weights.items() if name in learning}


def _set_state(learner: Learner, weights: dict[str, Any], optimizer: dict[str, Any]) -> None:
    set_state_dict(
        _all(learner),
        learner.optimizer,
        model_state_dict=weights,
        optim_state_dict=optimizer,
        options=_FULL,
    )


def _save_shard(learner: Learner, folder: Path) -> None:
    """This process's part of what learns and of the optimizer's state.

    Rates and the like follow from the config, so they are not written.
    """
    place = folder / f"shard-{rank():05d}-of-{ranks():05d}.safetensors"
    save_file({name: part.contiguous() for name, part in _own_parts(learner).items()}, place)


def _load_own_shard(learner: Learner, path: Path) -> None:
    """What as many processes wrote as there are now: nobody needs more than their own part."""
    saved = load_file(path)
    for name, part in _own_parts(learner).items():
        if name in saved or "|" not in name:
            part.copy_(saved[name])
    _drop_missing_state(learner, saved)


def _drop_missing_state(learner: Learner, saved: Mapping[str, Tensor]) -> None:
    """A weight that had not learned when it was saved, as in a critic's warm-up, has no state in
    the optimizer.
    """
    for name, weight in _all(learner).named_parameters():
        if f"{name}|step" not in saved:
            learner.optimizer.state.pop(weight, None)


def _load_and_join_shards(learner: Learner, shards: list[Path]) -> None:
    """What another number of processes wrote, put together."""
    parts = [load_file(path) for path in shards]
    saved = {
        name: one if not one.dim() else torch.cat([part[name] for part in parts])
        for name, one in parts[0].items()
    }
    optimizer = cast(
        dict,
        get_state_dict(
            _all(learner), learner.optimizer, options=StateDictOptions(full_state_dict=True)
        )[1],
    )
    for name in saved:
        weight, _, state = name.partition("|")
        if state:
            optimizer["state"][weight][state] = saved[name]
    _set_state(
        learner, {name: value for name, value in saved.items() if "|" not in name}, optimizer
    )
    _drop_missing_state(learner, saved)


def _own_parts(learner: Learner) -> dict[str, Tensor]:
    """The memory of this process's part of each weight that learns, and of each of its states,
    `WEIGHT|STATE`, in the optimizer.
    """
    found: dict[str, Tensor] = {}
    states = cast(dict, get_state_dict(_all(learner), learner.optimizer)[1]["state"])
    for name, weight in _all(learner).named_parameters():
        if weight.requires_grad:
            found[name] = weight.detach()
            found |= {f"{name}|{key}": value for key, value in states.get(name, {}).items()}
    return {
        name: value.to_local() if isinstance(value, DTensor) else value
        for name, value in found.items()
    }


_FULL = StateDictOptions(
    full_state_dict=True, cpu_offload=True, strict=False, broadcast_from_rank0=False
)
