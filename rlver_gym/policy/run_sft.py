"""A warm start as a folder: checkpoints and losses while it learns, in their place at the end the
model with its losses.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import nn

from rlver_gym.corpora.demonstrations import Demonstration
from rlver_gym.policy.checkpoints import (
    Checkpoints,
    load_weights,
    read_state,
    save_weights,
    write_state,
)
from rlver_gym.policy.config import refuse_changes
from rlver_gym.policy.learning.metrics import METRICS, read_metrics, truncate_log_after_iteration
from rlver_gym.policy.models.actor import Actor
from rlver_gym.policy.models.agent import ReplyConfig
from rlver_gym.policy.models.distributed import (
    all_gather,
    distribute,
    enter_on_first,
    process_group,
    rank,
    unwrap,
)
from rlver_gym.policy.models.model import (
    explain_slow_bf16,
    export_model,
    load_model,
    load_tokenizer,
    uses_bf16,
)
from rlver_gym.policy.models.renderer import Renderer
from rlver_gym.policy.models.trajectory import Trajectory
from rlver_gym.policy.prompt import pin_prompt
from rlver_gym.policy.sft import (
    SupervisedLearner,
    hold_out,
    measure_cross_entropy,
    tokenize_demonstration,
)
from rlver_gym.policy.sft_config import SftConfig, make_sft_config
from rlver_gym.util.atomic import write_atomically
from rlver_gym.util.errors import TrainingError
from rlver_gym.util.files import read_text
from rlver_gym.util.folders import is_taken, write_folder
from rlver_gym.util.json_lines import append_lines
from rlver_gym.util.json_text import parse_json
from rlver_gym.util.progress import progress_bar
from rlver_gym.util.stop import StopRequested, StopSignals
from rlver_gym.util.terminal import SafeConsole

SETTINGS = "sft.json"
"""In the folder: the config, and what tells the demonstrations from others."""
_MAX_SETTINGS_BYTES = 1 << 20
CONFIG = "config.json"
"""Of the model: it is finished."""


def teach(
    config: SftConfig, demonstrations: Iterable[Demonstration], out: Path, *, resume: bool = False
) -> None:
    """Teach a model what was said in the demonstrations, and write it to a folder that
    `from_pretrained`, `train --model` and `hf:PATH` read. `resume`: go on from its last checkpoint.
    TrainingError for a model that cannot be used, a folder that is taken or holds another run, or
    demonstrations without thoughts for a style that thinks. Ctrl-C and SIGTERM end it with
    KeyboardInterrupt and a checkpoint of the last whole step; a second one at once.
    """
    rows, stop, config = list(demonstrations), StopSignals(), pin_prompt(config)
    if config.style == "think" and not all(all(one.plans) for one in rows):
        raise TrainingError(
            "these demonstrations hold no thoughts to learn. Choose --style direct."
        )
    digest = hashlib.sha256(json.dumps(rows).encode()).hexdigest()
    settings = {"config": config.model_dump(mode="json"), "demonstrations": digest}
    if resume and (out / CONFIG).exists():
        _refuse_others(out, settings)
        SafeConsole(stderr=True).print(f"model {out} is there already", soft_wrap=True)
        return
    folder = partial(_open_folder, out, settings, resume)
    with process_group(), enter_on_first(folder) as draft:
        torch.manual_seed(config.seed)  # new adapters
        use_bf16, tokenizer = uses_bf16(config.dtype), load_tokenizer(config.model)
        lm = load_model(config.model, use_bf16=use_bf16, lora=config.lora_rank)
        renderer = Renderer(tokenizer, config.prompt, config.style)
        split = hold_out(rows, config.held_out_share, config.seed)
        learned, held_out = (
            [tokenize_demonstration(one, renderer) for one in part] for part in split
        )
        actor = distribute(Actor(lm, use_bf16))
        how = config.epochs, config.highest_lr, config.seed
        if draft:
            write_atomically(out / SETTINGS, json.dumps(settings, indent=2), TrainingError)
            if note := explain_slow_bf16(config.dtype):
                SafeConsole(stderr=True).print(note, soft_wrap=True)
        with stop.listen():
            _learn_and_record(SupervisedLearner(actor, learned, *how), held_out, config, out, stop)
        if draft:
            export_model(unwrap(actor).model, tokenizer, draft)  # pyright: ignore[reportArgumentType]
            limit = config.limit_replies(_count_longest_reply(learned))
            told = ReplyConfig(system=config.prompt, style=config.style, max_reply_tokens=limit)
            told.write(draft)
            for name in (SETTINGS, METRICS):
                write_atomically(draft / name, (out / name).read_bytes(), TrainingError)
        del actor


def _count_longest_reply(trajectories: Sequence[Trajectory]) -> int:
    return max(
        int(np.bincount(sequence.turn_T[sequence.action_mask_T]).max())
        for one in trajectories
        for sequence in one.sequences
    )


@contextmanager
def _open_folder(out: Path, settings: dict[str, Any], resume: bool) -> Iterator[Path]:
    """The draft that takes the folder's place at the end. TrainingError for other contents."""
    with write_folder(out, TrainingError) as draft:
        is_other = is_taken(out)
        if is_other and not resume:
            hint = " or go on with --resume" if (out / SETTINGS).exists() else ""
            raise TrainingError(f"{out} is not empty. Choose another folder with --out{hint}.")
        if is_other:
            _refuse_others(out, settings)
        yield draft


def _refuse_others(out: Path, settings: dict[str, Any]) -> None:
    hint = f"Is {out} the folder of a warm start?"
    text = read_text(out / SETTINGS, max_bytes=_MAX_SETTINGS_BYTES, error=TrainingError, hint=hint)
    try:
        saved = parse_json(text)
        config, told = saved["config"], saved["demonstrations"]
    except (ValueError, TypeError, KeyError) as error:
        raise TrainingError(f"{out / SETTINGS}: no settings ({error}). {hint}") from error
    refuse_changes(make_sft_config(config, str(out / SETTINGS)), settings["config"], out)
    if told != settings["demonstrations"]:
        raise TrainingError(
            f"{out} learned from other demonstrations than these. Go on with the same, or choose"
            " another --out."
        )


def _learn_and_record(
    learner: SupervisedLearner,
    held_out: Sequence[Trajectory],
    config: SftConfig,
    out: Path,
    stop: StopSignals,
) -> None:
    """All processes learn, and the first one writes and shows."""
    learning = nn.ModuleDict({"actor": unwrap(learner.actor)})
    checkpoints = Checkpoints(out / "checkpoints", keep=1)
    if latest := checkpoints.latest():
        load_weights(learning, learner.optimizer, latest)
        learner.step = read_state(latest)["iteration"]
    log = _LossLog(out, learner)

    def save(path: Path) -> None:
        save_weights(learning, learner.optimizer, path)
        if rank() == 0:
            write_state(path, learner.step, config)

    def keep() -> None:
        if rank() == 0:
            checkpoints.write(learner.step, save)
        else:
            save(checkpoints.unfinished_path(learner.step))

    with log.bar:
        if config.held_out_share:
            log.say(
                f"held out: {len(held_out)} demonstrations, {len(learner.trajectories)} to learn"
            )
        if learner.step == 0 and held_out:
            log.write(held_out=measure_cross_entropy(learner.actor, held_out))
        while learner.step < len(learner.plan):
            loss, shown = learner.learn(), None
            if held_out and learner.is_pass_done:
                shown = measure_cross_entropy(learner.actor, held_out)
            log.write(loss, shown)
            if any(all_gather([stop.is_requested])):
                keep()
                log.say(
                    f"stopped after step {learner.step}: checkpoint {checkpoints.latest()}. To go"
                    " on: the same command with --resume"
                )
                raise StopRequested
            if learner.step % config.save_every == 0:
                keep()
        if rank() == 0:
            log.say(f"{log.summarise()}\nmodel {out}")


class _LossLog:
    """The losses of a warm start, on disk and on the screen of the first process."""

    def __init__(self, folder: Path, learner: SupervisedLearner) -> None:
        self._folder, self._learner, self._steps = folder, learner, len(learner.plan)
        self.bar = progress_bar(quiet=rank() != 0)
        if rank() == 0:
            truncate_log_after_iteration(folder / METRICS, learner.step)
        self._task = self.bar.add_task("learning to speak", total=self._steps)

    def say(self, text: str) -> None:
        self.bar.console.print(text, highlight=False, soft_wrap=True)

    def write(self, loss: float | None = None, held_out: float | None = None) -> None:
        """The losses after the learner's last step, of its own and of the people held out."""
        if rank() != 0:
            return
        step, values = self._learner.step, {"loss": loss, "held_out_loss": held_out}
        line = {name: value for name, value in values.items() if value is not None}
        append_lines(
            self._folder / METRICS, [json.dumps({"iteration": step, **line})], TrainingError
        )
        tenth = max(1, self._steps // 10)
        if step and step % tenth == 0:
            mean = fmean(self._read("loss")[-tenth:])
            self.say(f"step {step:5d} of {self._steps}, loss {mean:.2f} (nats a token)")
        if held_out is not None:
            self.say(f"held out after step {step}: loss {held_out:.3f} (nats a token)")
        self.bar.update(self._task, completed=step)

    def summarise(self) -> str:
        losses, held_out = self._read("loss"), self._read("held_out_loss")
        tenth = max(1, self._steps // 10)
        first, last = fmean(losses[:tenth]), fmean(losses[-tenth:])
        more = f"; held out {held_out[0]:.3f}, then {held_out[-1]:.3f}" if held_out else ""
        return f"loss {first:.2f} at first, {last:.2f} at last{more} (nats a token)"

    def _read(self, name: str) -> list[float]:
        return [line[name] for line in read_metrics(self._folder) if name in line]
