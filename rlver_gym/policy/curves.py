"""Learning curves of one run or several, as one page that needs no network."""

from collections.abc import Mapping, Sequence
from html import escape
from math import floor, log10
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlver_gym.environment.alarms import ACTS, describe_act
from rlver_gym.io.atomic import write_atomically
from rlver_gym.io.errors import TrainingError
from rlver_gym.io.files import path_inside, read_lines
from rlver_gym.io.interval import bootstrap
from rlver_gym.io.json_text import parse_json
from rlver_gym.io.svg import INKS, Margins, Plot
from rlver_gym.io.terminal import one_line
from rlver_gym.policy.learning.metrics import EVALUATIONS, MAX_BYTES, is_number, read_metrics

PAGE = "curves.html"

_PANELS: tuple[tuple[str, str], ...] = (
    ("eval_score", "held-out people: final emotion, with 95 % interval"),
    ("emotion", "final emotion while training"),
    ("return", "return, in points of emotion"),
    ("tokens", "tokens a reply"),
    ("distinct", "distinct replies, share of all"),
    ("repeated", "repeated three-word runs, share"),
    ("copied", "three-word runs copied from the person, share"),
    ("entropy", "entropy, nats a token"),
    ("kl", "how far an update moved the policy (KL), nats a token"),
    ("explained_variance", "explained variance of the critic"),
    ("format_error", "replies with a broken format, share"),
    ("left", "people who left, share"),
    *((f"does_{act}", f"replies that {describe_act(act)}, share") for act in ACTS),
)


def write_curves(folders: Sequence[Path], out: Path | None = None) -> Path:
    """Write the page for these run folders; several share the panels.

    TrainingError for a folder without metrics.
    """
    names = [folder.resolve().name for folder in folders]
    labels = [
        str(one) if names.count(name) > 1 else name
        for one, name in zip(folders, names, strict=True)
    ]
    runs = {label: _with_start(folder) for label, folder in zip(labels, folders, strict=True)}
    for label, lines in runs.items():
        if not lines:
            raise TrainingError(
                f"{label} holds no metrics yet. Is it the folder of a training run?"
            )
    path = out or folders[0] / PAGE
    legend = "".join(
        f'<span><i style="background:{INKS[at % len(INKS)]}"></i>{escape(one_line(label))}</span>'
        for at, label in enumerate(runs)
    )
    panels = "".join(
        f"<figure><figcaption>{escape(title)}</figcaption>{panel(runs, name)}</figure>"
        for name, title in _PANELS
        if any(line.get(name) is not None for lines in runs.values() for line in lines)
    )
    write_atomically(
        path,
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport"'
        ' content="width=device-width"><title>Learning'
        f" curves</title><style>{_CSS}</style><h1>Learning curves</h1><p"
        f" class=legend>{legend}</p><main>{panels}</main>\n",
        TrainingError,
    )
    return path


def panel(runs: Mapping[str, Sequence[Mapping[str, Any]]], name: str) -> str:
    """One metric over the iterations, a line a run, as SVG; the interval as a band where there is
    one.
    """
    points = {
        label: [
            (line["iteration"], line[name], line) for line in lines if line.get(name) is not None
        ]
        for label, lines in runs.items()
    }
    values = [value for line in points.values() for _, value, _ in line]
    values += [
        line[bound]
        for one in points.values()
        for _, _, line in one
        for bound in _bounds(name, line)
    ]
    low, high = _range(name, values)
    last = max((number for line in points.values() for number, _, _ in line), default=1)
    plot = Plot(420, 200, Margins(46, 8, 8, 24), (0, max(last, 1)), (low, high))
    for part in range(5):
        tick, number = low + (high - low) * part / 4, last * part / 4
        plot.line((0, tick), (max(last, 1), tick), class_="grid")
        label = _label(tick, (high - low) / 4)
        plot.add("text", label, x=40, y=plot.y(tick) + 3, text_anchor="end")
        plot.add("text", f"{number:.0f}", x=plot.x(number), y=192, text_anchor="middle")
    for line, ink in zip(points.values(), INKS * len(points), strict=False):
        _draw_curve(plot, line, name, ink)
    return plot.render(role="img", aria_label=name)


def _label(tick: float, step: float) -> str:
    """As many decimals as it takes to tell a tick from the next."""
    return f"{round(tick, max(0, 1 - floor(log10(step)))):g}"


def _draw_curve(
    plot: Plot, line: Sequence[tuple[int, float, Mapping[str, Any]]], name: str, ink: str
) -> None:
    band = [(number, one) for number, _, one in line if len(_bounds(name, one)) == 2]
    if band:
        upper = [(number, one["eval_high"]) for number, one in band]
        lower = [(number, one["eval_low"]) for number, one in reversed(band)]
        plot.area([*upper, *lower], fill=ink, opacity="0.15")
    path = [(number, value) for number, value, _ in line]
    plot.path(path, fill="none", stroke=ink, stroke_width=1.8)
    for point in path if band else ():
        plot.dot(point, 2.5, fill=ink)


def _bounds(name: str, line: Mapping[str, Any]) -> list[str]:
    return [
        bound
        for bound in ("eval_low", "eval_high")
        if name == "eval_score" and line.get(bound) is not None
    ]


def _range(name: str, values: Sequence[float]) -> tuple[float, float]:
    if name in ("eval_score", "emotion"):
        return 0.0, 100.0
    if name.startswith("does_"):
        return 0.0, 1.0
    low, high = min(values, default=0.0), max(values, default=1.0)
    low = min(low, 0.0) if low < high * 0.5 else low
    return (low, high) if high - low > 1e-9 else (low - 0.5, high + 0.5)


def _with_start(folder: Path) -> list[dict[str, Any]]:
    """The metrics, with the evaluation before the first iteration in front where there is one."""
    lines = read_metrics(folder)
    path = path_inside(folder, EVALUATIONS, error=TrainingError)
    if path.exists() and path.stat().st_size and lines:
        scores = _first_scores(path)
        if len(scores):
            mean, low, high = bootstrap(scores)
            lines = [
                {"iteration": 0, "eval_score": mean, "eval_low": low, "eval_high": high},
                *lines,
            ]
    return lines


def _first_scores(path: Path) -> NDArray[np.float64]:
    """Of the evaluation before the first iteration; none when the file begins with a later one.

    TrainingError when it is not what was written.
    """
    _, line = next(read_lines(path, error=TrainingError, max_line_bytes=MAX_BYTES))
    try:
        first = parse_json(line, allow_nan=True)
        scores = [one["score"] for one in first["dialogues"] if one["valid"]]
        if not all(map(is_number, scores)):
            raise ValueError("a score is no number")
        return np.array(scores if first["iteration"] == 0 else [], dtype=np.float64)
    except (ValueError, TypeError, KeyError) as error:
        raise TrainingError(
            f"{path}, line 1: not an evaluation ({type(error).__name__}: {error}). Was it edited?"
        ) from error


_CSS = """
:root{color-scheme:light dark;--ink:#1b1b18;--paper:#fbfaf7;--line:#ddd8cc}
@media(prefers-color-scheme:dark){:root{--ink:#e8e6df;--paper:#1b1b18;--line:#3a3933}}
body{margin:2rem auto;max-width:1320px;padding:0 1rem;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{display:grid;grid-template-columns:repeat(auto-fit,minmax(320px,1fr));gap:1.2rem}figure{margin:0}figcaption{font-size:.85rem;margin-bottom:.3rem}
svg{width:100%;height:auto}svg text{font-size:10px;fill:var(--ink);opacity:.75}.grid{stroke:var(--line)}
.legend span{margin-right:1.2rem}.legend i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.4em}
"""
