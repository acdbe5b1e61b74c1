"""Does the learner learn? PPO, GRPO and RFT, direct and thinking, on a tiny model: held-out people
before and after, with intervals, and the marks of hacking.

rlver-gym sft --out runs/warm-direct && rlver-gym sft --style think --out runs/warm-think
python benchmarks/learning.py [--seeds 3] [--algo grpo] [--style direct] [--figure
    docs/learning.svg] [--transcripts FILE.md] [--out runs/learning] [-- MORE TRAINING OPTIONS]
What is finished in the folder is not trained again.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from rlver_gym.util.interval import bootstrap
from rlver_gym.util.svg import draw_line_chart
from rlver_gym.util.terminal import escape_markdown

ALGOS, STYLES = ("ppo", "grpo", "rft"), ("direct", "think")
Evaluation = dict[str, Any]


def main() -> None:
    """Train what is missing, and print the comparison.

    A person's score is the mean over trainings; intervals are 95 % bootstrap intervals over people.
    """
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--algo", choices=ALGOS, help="only this one")
    parser.add_argument("--style", choices=STYLES, help="only this one")
    parser.add_argument("--warm", default="runs/warm-{style}", help="the model to begin from")
    parser.add_argument(
        "--figure", type=Path, help="draw the mean held-out scores into this .svg file"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/learning"))
    parser.add_argument(
        "--processes", type=int, default=2, help="that share a training's work, one a core"
    )
    parser.add_argument(
        "--transcripts",
        type=Path,
        help=(
            "write a .md file with three people's dialogues before and after, from the first"
            " training: the largest gain, the median and the smallest"
        ),
    )
    args, options = parser.parse_known_args()
    options = [word for word in options if word != "--"]
    table, curves, texts = Table(box=None), {}, []
    for column in (
        "run",
        "before",
        "after",
        "gain [95 %]",
        "left",
        "words",
        "repeated",
        "copied",
        "distinct",
        "minutes",
    ):
        table.add_column(column, justify="left" if column == "run" else "right")
    for style in [args.style] if args.style else STYLES:
        for algo in [args.algo] if args.algo else ALGOS:
            folders = [args.out / f"{algo}-{style}-{seed}" for seed in range(args.seeds)]
            for seed, folder in enumerate(folders):
                warm = args.warm.format(style=style)
                _train(
                    args.processes,
                    folder,
                    [
                        "--algo",
                        algo,
                        "--style",
                        style,
                        "--seed",
                        str(seed),
                        "--model",
                        warm,
                        *options,
                    ],
                )
            table.add_row(f"{algo}, {style}", *_row(folders))
            curves[f"{algo}, {style}"] = _curve(folders)
            texts.append(f"# {algo}, {style}\n\n{_before_and_after(folders[0])}")
    Console(width=140).print(table)
    if args.figure:
        args.figure.write_text(
            draw_line_chart(curves, {}, across="iterations of training"), encoding="utf-8"
        )
    if args.transcripts:
        args.transcripts.write_text("\n".join(texts), encoding="utf-8")


def _train(processes: int, folder: Path, options: list[str]) -> None:
    if not (folder / "model").exists():
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
        begun = ["--resume"] if any((folder / "checkpoints").glob("[0-9]*")) else []
        words = [
            "-m",
            "rlver_gym",
            "train",
            "--config",
            "research/tiny/laptop.yaml",
            "--out",
            str(folder),
            *begun,
            *options,
        ]
        subprocess.run([sys.executable, *(launcher if processes > 1 else []), *words], check=True)


def _row(folders: list[Path]) -> list[str]:
    """Before the first iteration and after the last, not the best: the best was chosen on these
    people.
    """
    first, last = (_scores(folders, at) for at in (0, -1))
    gain = bootstrap(last - first)
    ends = [
        json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1]) for folder in folders
    ]
    marks = ("eval_left", "eval_words", "eval_repeated", "eval_copied", "eval_distinct")
    means = [float(np.mean([end[name] for end in ends])) for name in marks]
    minutes = [_minutes(folder) for folder in folders]
    return [
        f"{first.mean():.1f}",
        f"{last.mean():.1f}",
        f"{gain.mean:+.1f} [{gain.low:+.1f}, {gain.high:+.1f}]",
        f"{means[0]:.0%}",
        f"{means[1]:.0f}",
        *(f"{mean:.2f}" for mean in means[2:]),
        f"{min(minutes):.1f} to {max(minutes):.1f}",
    ]


def _minutes(folder: Path) -> float:
    """Of talking and learning, without the evaluations."""
    laps = [json.loads(line) for line in (folder / "times.jsonl").read_text().splitlines()]
    return (
        sum(
            seconds
            for lap in laps
            for name, seconds in lap.items()
            if name.endswith("_s") and name != "tokens_per_s"
        )
        / 60
    )


def _scores(folders: list[Path], at: int) -> np.ndarray:
    """Each held-out person's final emotion, mean over the trainings, in one order of people."""
    runs = [
        {one["persona"]: one["score"] for one in _evaluations(folder)[at]["dialogues"]}
        for folder in folders
    ]
    return np.array([np.mean([run[person] for run in runs]) for person in sorted(runs[0])])


def _curve(folders: list[Path]) -> list[tuple[int, float]]:
    numbers = [evaluation["iteration"] for evaluation in _evaluations(folders[0])]
    return [(number, float(_scores(folders, at).mean())) for at, number in enumerate(numbers)]


def _before_and_after(folder: Path) -> str:
    evaluations = _evaluations(folder)
    first, last = ({one["persona"]: one for one in evaluations[at]["dialogues"]} for at in (0, -1))
    by_gain = sorted(first, key=lambda person: first[person]["score"] - last[person]["score"])
    chosen = {"largest": by_gain[0], "median": by_gain[len(by_gain) // 2], "smallest": by_gain[-1]}
    return "\n".join(
        f"## {person}, the {which} gain: {when}, final emotion"
        f" {one[person]['score']:.0f}\n\n{_as_text(one[person]['lines'])}\n"
        for which, person in chosen.items()
        for when, one in (
            ("before", first),
            (f"after {evaluations[-1]['iteration']} iterations", last),
        )
    )


def _as_text(lines: list[list[str]]) -> str:
    return "\n\n".join(
        f"> {escape_markdown(text)}" if who == "agent" else f"**Person:** {escape_markdown(text)}"
        for who, text, _ in lines
    )


def _evaluations(folder: Path) -> list[Evaluation]:
    return [
        json.loads(line)
        for line in (folder / "evaluations.jsonl").read_text(encoding="utf-8").splitlines()
    ]


if __name__ == "__main__":
    main()
