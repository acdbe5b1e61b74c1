"""`rlver-gym train` and `sft`: PPO, GRPO and their kin on a text environment, and learning from
demonstrations. The options are the fields of the configs, one each.
"""

import inspect
import signal
import types
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from rich.markup import escape

from rlver_gym.bench.export.demonstrations import AGENTS, generate_demonstrations
from rlver_gym.cli.model_options import add_options
from rlver_gym.cli.servers import parse_user_options
from rlver_gym.corpora.demonstrations import read_demonstrations
from rlver_gym.policy.config import (
    FIELDS,
    RUN_FOLDER,
    Section,
    TrainConfig,
    folder_name,
    list_presets,
    make_config,
    read_config_values,
    resume_config,
)
from rlver_gym.policy.learning.registry import ALGORITHMS, list_algorithms_with_option
from rlver_gym.policy.sft_config import SftConfig, make_sft_config
from rlver_gym.util.errors import TrainingError, pip_install
from rlver_gym.util.machine import keep_freed_memory
from rlver_gym.util.stop import exit_at_once, handle_stops

_NONE = "none"
"""Typed for what may be missing, such as a preset's target_kl."""
WARM_STARTS = {"quick": "--dialogues 240 --epochs 2"}
"""By preset of the tiny model: the options of `rlver-gym sft` that teach it to speak first."""
_FLAGS = {"corpus": "--from"}
"""Where the word of the command line is none of Python's."""
_USUAL = (
    *("model", "env", "env_options", "style", "seed", "iterations", "dialogues"),
    *("max_reply_tokens", "lr", "kl", "lora_rank", "eval_every", "algo", "group_size"),
    *("reference", "stop_on_gap", "compare", "corpus", "reward"),
)
"""What `--help` shows of the config; `--help-all` shows the rest, too."""


def spell_flag(name: str) -> str:
    """How the command line calls a field of the config."""
    return _FLAGS.get(name, "--" + name.replace("_", "-"))


def _make_option(name: str, config: type[Section] = TrainConfig) -> inspect.Parameter:
    field, is_train = config.model_fields[name], config is TrainConfig
    is_hidden = is_train and name not in _USUAL
    flag = spell_flag(name)
    kind, shown = _parse_annotation(field.annotation)
    default = field.get_default(call_default_factory=True)
    named = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    known = ALGORITHMS if name == "algo" else named
    choices = f" One of: {', '.join(known)}." if known else ""
    takers = list_algorithms_with_option(name) if is_train else list(ALGORITHMS)
    others = [name for name in ALGORITHMS if name not in takers]
    only = f"{', '.join(takers)}: " if len(takers) < len(others) else ""
    only = only or (f"Not of {', '.join(others)}: " if others else "")
    help_text = (
        f"{only}{field.description}{choices} [default:"
        f" {_NONE if default in (None, {}, ()) else default}]"
    )
    option = typer.Option(
        flag,
        help=escape(help_text),
        metavar=shown,
        show_default=False,
        rich_help_panel="The run's config" + (", all of it" if is_hidden else ""),
        hidden=is_hidden,
    )
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, option],
    )


def _parse_annotation(annotation: Any) -> tuple[Any, str | None]:
    """What the command line parses for a field, and how it is named in the help."""
    if get_origin(annotation) in (Union, types.UnionType):
        (annotation,) = [kind for kind in get_args(annotation) if kind is not type(None)]
        return str, f"<{annotation.__name__.lower()}>|{_NONE}"  # the config reads what it says
    if get_origin(annotation) is tuple:
        return list[str], f"<{get_args(annotation)[0].__name__.lower()}>"
    if get_origin(annotation) is Literal:
        return str, "<choice>"
    if annotation is bool:
        return str, "true|false"
    if get_origin(annotation) is dict:
        return list[str], "NAME=VALUE"
    return annotation, None


def build_config(preset: str | None, fields: dict[str, Any]) -> TrainConfig:
    """The config of a preset or file, with the given options on top.

    TrainingError for what does not fit.
    """
    return make_config(_collect_values(preset, fields), preset or "the options")


def _collect_values(preset: str | None, fields: dict[str, Any]) -> dict[str, Any]:
    values = read_config_values(preset, fields) if preset else {}
    for name, value in fields.items():
        is_list = isinstance(value, list)
        values[name] = parse_user_options(value, spell_flag(name)) if is_list else value
        if value == _NONE and type(None) in get_args(FIELDS[name].annotation):
            values[name] = None
    return values


def _print_full_help(ctx: typer.Context, asked: bool) -> None:
    """The help with the options that `--help` leaves out."""
    if not asked:
        return
    options = [param for param in ctx.command.params if param.name in FIELDS and param.hidden]  # pyright: ignore[reportAttributeAccessIssue]
    for option in options:
        option.hidden = False  # pyright: ignore[reportAttributeAccessIssue]
    typer.echo(ctx.get_help())
    # The command may be asked again in this process.
    for option in options:
        option.hidden = True  # pyright: ignore[reportAttributeAccessIssue]
    raise typer.Exit


@add_options("fields", map(_make_option, FIELDS), dict)
def train(
    *,
    preset: Annotated[
        str | None,
        typer.Option(
            "--config",
            help=f"A preset ({', '.join(list_presets())}) or a YAML file; the options below go on"
            " top.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help=(
                "Run folder. Default: runs/"
                + RUN_FOLDER.format(algo="ALGO", style="STYLE", model="MODEL", seed="SEED")
                + "."
            )
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on from the last checkpoint of --out, with its options. A run without one"
            " begins anew.",
        ),
    ] = False,
    track: Annotated[
        str | None, typer.Option(help="Also log to wandb or trackio, when installed.")
    ] = None,
    help_all: Annotated[
        bool,
        typer.Option(
            "--help-all",
            callback=_print_full_help,
            is_eager=True,
            help="Show every option of the config, and exit.",
        ),
    ] = False,
    fields: dict[str, Any],
) -> None:
    """Train a chat model through a text environment with PPO, GRPO and its kin, by preferences
    (DPO) or best-of-n fine-tuning.

    Writes metrics (JSONL and TensorBoard), dialogues to read, checkpoints and the trained model
    into the run folder.

    Ctrl-C and SIGTERM end it with a checkpoint of the last whole iteration and exit code 130; a
    second one ends it at once. Interrupted or killed, it goes on with rlver-gym train --resume
    --out RUN exactly as if it had not been. Options that are said again and differ from the run's
    are refused, but for those that decide nothing of what was learned, such as --iterations.

    The preset quick trains a tiny model that needs a warm start: rlver-gym sft.

    Example: rlver-gym train --config quick --model runs/warm --algo ppo --seed 1
    """
    if preset in WARM_STARTS and "model" not in fields and not resume:
        raise TrainingError(
            f"--config {preset} trains the tiny model, which cannot speak before a warm start."
            f" First: rlver-gym sft --out runs/warm {WARM_STARTS[preset]}. Then: rlver-gym train"
            f" --config {preset} --model runs/warm. (With --model tiny it begins from nothing.)"
        )
    if resume:
        out = out or Path("runs") / folder_name(build_config(preset, fields))
        config = resume_config(out, _collect_values(preset, fields))
    else:
        config = build_config(preset, fields)
    with handle_stops(signal.default_int_handler):
        import_with_torch("rlver_gym.policy.run_training").run_training(
            config, out=out, resume=resume, track=track
        )


def import_with_torch(module: str) -> Any:
    """A module that needs torch, imported when it is needed, since that takes seconds.

    TrainingError when the extra is not installed.
    """
    keep_freed_memory()
    try:
        with handle_stops(exit_at_once):
            return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("rlver_gym"):
            raise
        raise TrainingError(
            f"training needs {error.name}, which is not installed: {pip_install('train')}"
            " (for a CPU alone, first: pip install torch==2.13.0)."
        ) from error


@add_options("fields", [_make_option(name, SftConfig) for name in SftConfig.model_fields], dict)
def sft(
    *,
    out: Annotated[Path, typer.Option(help="Folder for the model.")],
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on from the last checkpoint of --out; the other options are those of before.",
        ),
    ] = False,
    fields: dict[str, Any],
) -> None:
    """Teach a model to speak, by plain supervised learning on demonstrations, or on what the
    benchmark's agents say to the train personas.

    A tiny model knows nothing before. What it learns here is how replies sound, not which ones
    help: that is for rlver-gym train. The loss on people who are held out, in metrics.jsonl, says
    when further passes only learn by heart.

    Ctrl-C and SIGTERM end it with a checkpoint and exit code 130; a second one ends it at once.
    Interrupted or killed, the same command with --resume goes on exactly as if it had not been.

    Example: rlver-gym sft --model tiny --out runs/warm

    From what readers found good: rlver-gym export recordings/en/train --to sft --roles --min-change
    5 --split train --out good.jsonl, then rlver-gym sft --model smollm2 --data good.jsonl --epochs
    2 --out runs/sft

    On two cores: OMP_NUM_THREADS=1 torchrun --nproc-per-node=2 -m rlver_gym sft --model tiny --out
    runs/warm
    """
    values = {name: None if value == _NONE else value for name, value in fields.items()}
    config = make_sft_config(values, "the options")
    with handle_stops(signal.default_int_handler):
        run_sft = import_with_torch("rlver_gym.policy.run_sft")
        told = [row for path in config.data for row in read_demonstrations(path)]
        if not config.data:
            agents = config.agent or AGENTS
            told = generate_demonstrations(agents, config.dialogues, config.seed)
        run_sft.teach(config, told, out, resume=resume)
