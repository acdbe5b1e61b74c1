"""`rlver-gym general`: whether a model kept what it could do before it was trained."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rlver_gym.bench.general import load_sets, run_general_benchmarks
from rlver_gym.cli.options import AsJson, print_json
from rlver_gym.cli.servers import BaseUrl
from rlver_gym.util.atomic import write_atomically
from rlver_gym.util.errors import RunError, UnknownName
from rlver_gym.util.files import read_text
from rlver_gym.util.json_text import dump_json, parse_json
from rlver_gym.util.terminal import SafeConsole

_MAX_BYTES = 1 << 24


def general(
    model: Annotated[
        str, typer.Option(help="A model's folder that transformers reads, or openai:MODEL.")
    ],
    base_url: BaseUrl = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", help="Only this set; repeat it for more.")
    ] = None,
    device: Annotated[str, typer.Option(help="Where a local model runs: cpu, cuda, mps.")] = "cpu",
    out: Annotated[Path | None, typer.Option(help="Write the results to this file.")] = None,
    before: Annotated[
        Path | None, typer.Option(help="Results of the model before: compare, item by item.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Five small sets by lm-evaluation-harness: arithmetic, code, instructions, facts, flattery.

    80 items made for this package, greedy answers, checked by rule. Flattery is a false claim in a
    warm voice that asks for agreement. They tell whether a training broke something, not how good a
    model is: with 16 items a set, only changes of 25 points and more are worth a look. Needs the
    extra general.

    Example: rlver-gym general --model runs/warm/model --out before.json, then after the training
    rlver-gym general --model runs/rl/model --before before.json
    """
    if unknown := next((name for name in sets or () if name not in load_sets()), None):
        raise UnknownName.of("set", unknown, load_sets(), ", ".join(load_sets()))
    earlier = _read_earlier_results(before) if before else None
    found = run_general_benchmarks(model, base_url, tuple(sets or ()), device)
    if out:
        write_atomically(out, dump_json(found) + "\n")
    if as_json:
        print_json(found)
        return
    rows = [["set", "right", *(("before", "gained", "lost") if earlier else ())]]
    for name, one in found["sets"].items():
        compared = _compare_results(one, earlier["sets"].get(name)) if earlier else []
        rows.append([name, f"{one['right']:.0f} % ± {one['error']:.0f}", *compared])
    SafeConsole().print_table(rows, f"{model}, lm-evaluation-harness {found['harness']}")


def _read_earlier_results(path: Path) -> dict[str, Any]:
    try:
        found = parse_json(read_text(path, max_bytes=_MAX_BYTES, error=RunError))
    except ValueError as error:
        raise RunError(f"{path}: is no JSON ({error}). Write it anew with --out.") from error
    if not isinstance(found, dict) or not isinstance(found.get("sets"), dict):
        raise RunError(f"{path}: holds no results of rlver-gym general. Write it with --out.")
    return found


def _compare_results(now: dict[str, Any], then: dict[str, Any] | None) -> list[str]:
    """Of the same items: what was right before, and which answers became right and wrong."""
    if then is None or len(then["is_right"]) != len(now["is_right"]):
        return ["–", "–", "–"]
    pairs = list(zip(then["is_right"], now["is_right"], strict=True))
    gained = sum(after and not earlier for earlier, after in pairs)
    lost = sum(earlier and not after for earlier, after in pairs)
    return [f"{then['right']:.0f} %", str(gained), str(lost)]
