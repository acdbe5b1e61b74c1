"""Checkpoints: a learner to disk and back, exactly; each is whole or not there.

What is sampled and in which order it is learned follow from seed and iteration, so there is no
random state to save.
"""

import json
import math
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, cast

import torch
from pydantic import BaseModel, ConfigDict, Field
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.optim import Optimizer
from transformers import PreTrainedModel

from rlver_gym.policy.config import Section, make_saved_config, refuse_changes
from rlver_gym.policy.learner import Learner, ReferenceStart
from rlver_gym.policy.learning.persona_baseline import PersonaBaseline
from rlver_gym.policy.models.agent import ReplyConfig
from rlver_gym.policy.models.distributed import rank, unwrap
from rlver_gym.policy.models.model import export_model
from rlver_gym.util import __version__
from rlver_gym.util.atomic import write_atomically
from rlver_gym.util.errors import TrainingError
from rlver_gym.util.field_errors import explain_invalid
from rlver_gym.util.files import open_regular, read_text
from rlver_gym.util.folders import sync_to_disk
from rlver_gym.util.interval import Interval
from rlver_gym.util.json_text import parse_json
from rlver_gym.util.terminal import one_line

BEST = "best.json"
_NAME = re.compile(r"[0-9]{6}")


class _BestCheckpoint(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    iteration: int = Field(ge=0, lt=10**6)
    score: float


class Checkpoints:
    """The checkpoints of a run folder, each a folder named by its iteration."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder = folder
        self.keep = keep

    def write(
        self, iteration: int, fill: Callable[[Path], None], score: float | None = None
    ) -> Path:
        """Let `fill` write into a new folder, then give it its name; older ones go, but the best by
        `score` (higher is better). TrainingError when it cannot be written: what was there is
        intact.
        """
        final, unfinished = self.folder / f"{iteration:06d}", self.unfinished_path(iteration)
        try:
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            fill(unfinished)
            sync_to_disk(*filter(Path.is_file, unfinished.rglob("*")), unfinished)
            shutil.rmtree(final, ignore_errors=True)
            # Whoever is killed before the next line has noted one that is not there: see `best`
            self._update_best(iteration, score)
            unfinished.rename(final)
            sync_to_disk(self.folder)
        except OSError as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise TrainingError(
                f"the checkpoint {final} cannot be written ({error}). Make room and go on with"
                f" --resume; {self._what_stays()}"
            ) from error
        self._remove_old()
        return final

    def unfinished_path(self, iteration: int) -> Path:
        return self.folder / f".{iteration:06d}.tmp"

    def all(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        return sorted(path for path in self.folder.iterdir() if _NAME.fullmatch(path.name))

    def latest(self) -> Path | None:
        return (self.all() or [None])[-1]

    def best(self) -> Path | None:
        """The one with the highest score; None when none was scored."""
        noted = self._read_best()
        path = self.folder / f"{noted.iteration:06d}" if noted else None
        return path if path is not None and path.is_dir() else None

    def _read_best(self) -> _BestCheckpoint | None:
        path = self.folder / BEST
        if not path.exists():
            return None
        try:
            text = read_text(path, max_bytes=1 << 10, error=TrainingError)
            return _BestCheckpoint.model_validate(parse_json(text))
        except ValueError as error:
            raise TrainingError(
                f"{path}: does not say which checkpoint is best. Remove it; then the last one"
                " counts."
            ) from error

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


WEIGHTS, OPTIMIZER, STATE, MODEL = "learner.safetensors", "optimizer.pt", "state.json", "model"
_STEPPED = "stepped"
"""In the optimizer's file: the weights of which it holds a state, which not all need to have."""
MAX_STATE_BYTES = 16 << 20
"""Of the state: a line for each persona that the critic knows."""
_LOAD_ERRORS = (OSError, RuntimeError, ValueError, TypeError, KeyError, EOFError, UnpicklingError)
_LOAD_ERRORS += (SafetensorError,)
_WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True, strict=False)


def save(learner: Learner, folder: Path) -> None:
    """Write the learner into a folder: what learns (safetensors), the optimizer, the state, and the
    model as `from_pretrained` reads it. Every process calls it with the same folder, which is
    there; the first one writes. OSError when it cannot be written.
    """
    save_weights(_collect_modules(learner), learner.optimizer, folder)
    if rank() == 0:
        lm = cast(PreTrainedModel, learner.language_model)
        with _raise_as_os_error():
            export_model(lm, learner.renderer.tokenizer, folder / MODEL)
        config, baseline = learner.config, learner.persona_baseline
        ReplyConfig(
            system=config.prompt,
            style=config.style,
            max_reply_tokens=config.max_reply_tokens,
            temperature=config.eval_temperature,
        ).write(folder / MODEL)
        state = {
            "persona_baseline": baseline.state if baseline else None,
            "reference_start": learner.reference_start and learner.reference_start._asdict(),
            "reward_hash": learner.own_reward.hash if learner.own_reward else None,
        }
        write_state(folder, learner.iteration, config, **state)


def save_weights(learning: nn.Module, optimizer: Optimizer, folder: Path) -> None:
    weights, state = get_state_dict(learning, optimizer, options=_WHOLE)
    if rank() == 0:
        saved = {
            name: cast(Tensor, weights[name]).contiguous()
            for name, one in learning.named_parameters()  # tied ones once
            if one.requires_grad
        }
        with _raise_as_os_error():
            save_file(saved, folder / WEIGHTS)
            torch.save(state | {_STEPPED: [*state["state"]]}, folder / OPTIMIZER)


def write_state(folder: Path, iteration: int, config: Section, **more: Any) -> None:
    values = config.model_dump(mode="json")
    state = {"iteration": iteration, "version": __version__, "config": values, **more}
    (folder / STATE).write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")


@contextmanager
def _raise_as_os_error() -> Iterator[None]:
    try:
        yield
    except (SafetensorError, RuntimeError) as error:  # what they make of a full disk
        raise OSError(str(error)) from error


def load(learner: Learner, folder: Path) -> None:
    """Bring a learner of the same config to where the saved one was, or raise TrainingError."""
    state = read_state(folder)
    saved = make_saved_config(state["config"], str(folder))
    refuse_changes(saved, learner.config.model_dump(mode="json"), folder)
    if learner.own_reward and learner.own_reward.hash != state["reward_hash"]:
        raise TrainingError(
            f"{folder} learned from another {learner.own_reward.name}: its file has changed. Go on"
            " with the file of before, or choose another --out."
        )
    load_weights(_collect_modules(learner), learner.optimizer, folder)
    if learner.persona_baseline:
        with _name_damage(folder):
            learner.persona_baseline = PersonaBaseline(dict(state["persona_baseline"]))
    learner.iteration, start = state["iteration"], state["reference_start"]
    learner.reference_start = (
        ReferenceStart(start["apart"], Interval(*start["agreement"])) if start else None
    )


@contextmanager
def _name_damage(folder: Path) -> Iterator[None]:
    try:
        yield
    except _LOAD_ERRORS as error:
        raise TrainingError(
            f"the checkpoint {folder} cannot be loaded ({error}). Remove it to go on from the one"
            " before."
        ) from error


def load_weights(learning: nn.Module, optimizer: Optimizer, folder: Path) -> None:
    """What `save_weights` wrote, on every process. TrainingError where it cannot be read."""
    with _name_damage(folder):
        for path in (folder / WEIGHTS, folder / OPTIMIZER):
            with open_regular(path, error=TrainingError):
                pass  # libraries would wait for a pipe
        weights: dict[str, Any] = {**load_file(folder / WEIGHTS)}
        state = torch.load(folder / OPTIMIZER, weights_only=True, map_location="cpu", mmap=True)
        names = {name for name, one in learning.named_parameters() if one.requires_grad}
        stepped = state.pop(_STEPPED)
        for path, lost in (
            (WEIGHTS, names - weights.keys()),
            (OPTIMIZER, {*stepped} - state["state"].keys()),
        ):
            if lost:
                raise ValueError(f"{path} lacks {one_line(', '.join(sorted(lost)), max_chars=300)}")
        states = {"model_state_dict": weights, "optim_state_dict": state}
        set_state_dict(learning, optimizer, **states, options=_WHOLE)


def read_state(folder: Path) -> dict[str, Any]:
    """What stands beside the weights of a checkpoint. TrainingError when it is none."""
    end = "). Remove it to go on from the one before."
    with explain_invalid(TrainingError, f"{folder} is no checkpoint (", "the whole file", end):
        text = read_text(folder / STATE, max_bytes=MAX_STATE_BYTES, error=TrainingError)
        return _State.model_validate(parse_json(text, allow_nan=True)).model_dump()


class _ReferenceStart(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    apart: dict[str, float]
    agreement: list[float] = Field(min_length=3, max_length=3)


class _State(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")

    iteration: int = Field(ge=0)
    version: str
    config: dict[str, Any]
    persona_baseline: dict[str, Any] | None = None
    reference_start: _ReferenceStart | None = None
    reward_hash: str | None = None


def _collect_modules(learner: Learner) -> nn.ModuleDict:
    """Actor and critic as one module, since one optimizer serves both."""
    return nn.ModuleDict({name: unwrap(one) for name, one in learner.models.learners.items()})
