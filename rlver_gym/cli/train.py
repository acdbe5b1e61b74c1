"""`rlver-gym train`: PPO, GRPO and their kin on a text environment. Its options are the fields of the config, one each."""

import inspect
import types
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from rich.markup import escape

from rlver_gym.cli.machine import keep_freed_memory
from rlver_gym.io.errors import TrainingError
from rlver_gym.policy.config import FIELDS, RUN_FOLDER, TrainConfig, make_config, only_of, read_values

_NONE = "none"
"""Typed for what may be missing, such as a preset's target_kl."""
WARM_STARTS = {
    "quick": "--dialogues 240 --epochs 2 --word-substitution 0",
    "laptop": "--dialogues 6144 --epochs 2 --lr 2e-3",
}
"""By preset of the tiny model: the options of `rlver-gym sft` that teach it to speak first."""


def with_fields(command: Callable[..., None]) -> Callable[..., None]:
    """The command with one option for each field of the config, after its own."""

    def called(**given: Any) -> None:
        own = {name: given.pop(name) for name in list(given) if name not in FIELDS}
        command(fields={name: value for name, value in given.items() if value is not None}, **own)

    own = [one for one in inspect.signature(command).parameters.values() if one.name != "fields"]
    called.__signature__ = inspect.Signature([*own, *map(_option, FIELDS)])  # pyright: ignore[reportFunctionMemberAccess]
    called.__doc__, called.__name__ = command.__doc__, command.__name__
    return called


def _option(name: str) -> inspect.Parameter:
    field = FIELDS[name]
    flag = "--" + name.replace("_", "-")
    kind, shown = _typed(field.annotation)
    default = field.get_default(call_default_factory=True)
    choices = f" One of: {', '.join(get_args(field.annotation))}." if get_origin(field.annotation) is Literal else ""
    only = {"ppo": "ppo: ", "group": "With groups: "}.get(only_of(name) or "", "")
    help_text = f"{only}{field.description}{choices} [default: {_NONE if default in (None, {}) else default}]"
    option = typer.Option(
        flag, help=escape(help_text), metavar=shown, show_default=False, rich_help_panel="The run's config"
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )


def _typed(annotation: Any) -> tuple[Any, str | None]:
    """What the command line parses for a field, and how it is named in the help."""
    if get_origin(annotation) in (Union, types.UnionType):
        (annotation,) = [one for one in get_args(annotation) if one is not type(None)]
        return str, f"<{annotation.__name__.lower()}>|{_NONE}"  # the config reads what it says
    if get_origin(annotation) is Literal:
        return str, "<choice>"
    if annotation is bool:
        return str, "true|false"
    if get_origin(annotation) is dict:
        return list[str], "NAME=VALUE"
    return annotation, None


def gathered(preset: str | None, fields: dict[str, Any]) -> TrainConfig:
    """The config of a preset or file, with the given options on top. TrainingError for what does not fit."""
    values = read_values(preset, fields.get("algo")) if preset else {}
    for name, value in fields.items():
        values[name] = dict(map(_pair, value)) if isinstance(value, list) else value
        if value == _NONE and type(None) in get_args(FIELDS[name].annotation):
            values[name] = None
    return make_config(values, preset or "the options")


def _pair(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE")
    return name, _plain(value)


def _plain(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


@with_fields
def train(
    fields: dict[str, Any],
    preset: Annotated[
        str | None,
        typer.Option(
            "--config",
            help="A preset (quick, laptop, smollm2, single-gpu, paper-ppo, paper-grpo) or a YAML file; the options below go on top.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help=f"Run folder. Default: runs/{RUN_FOLDER.format(algo='ALGO', style='STYLE', model='MODEL', seed='SEED')}."
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint of the run folder.")] = False,
    track: Annotated[str | None, typer.Option(help="Also log to wandb or trackio, when installed.")] = None,
) -> None:
    """Train a chat model through a text environment with PPO, GRPO and its kin, or best-of-n fine-tuning.

    Writes metrics (JSONL and TensorBoard), dialogues to read, checkpoints and the trained model into the run folder. Interrupted or killed, it goes on
    with --resume exactly as if it had not been.

    The presets quick and laptop train the tiny model, which needs a warm start: rlver-gym sft.

    Example: rlver-gym train --config quick --model runs/warm --algo ppo --seed 1
    """
    if preset in WARM_STARTS and "model" not in fields:
        raise TrainingError(
            f"--config {preset} trains the tiny model, which cannot speak before a warm start. First: rlver-gym sft --out runs/warm {WARM_STARTS[preset]}. "
            f"Then: rlver-gym train --config {preset} --model runs/warm. (With --model tiny it begins from nothing.)"
        )
    config = gathered(preset, fields)
    with_torch("rlver_gym.policy.runs.folder").run(config, out=out, resume=resume, track=track)


def with_torch(module: str) -> Any:
    """A module that needs torch, imported when it is needed, since that takes seconds. TrainingError when the extra is not installed."""
    keep_freed_memory()
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("rlver_gym"):
            raise
        raise TrainingError(
            f"training needs {error.name}, which is not installed: pip install 'rlver-gym[train]' (for a CPU alone, first: pip install torch==2.13.0)."
        ) from error
