"""PPO against recurrent PPO on the strategy view: a training of each with every seed, then all of
them on the same test personas.

python benchmarks/sb3.py [--seeds 3] [--steps 61440] [--out runs/sb3]
    [--figure research/training.svg] (needs: pip install '.[sb3]')
What is finished in the folder is not trained again.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from rlver_gym.bench.folder import read_episodes
from rlver_gym.bench.score import compute_paired_difference, compute_persona_finals, score_agents
from rlver_gym.bench.table import build_leaderboard
from rlver_gym.util.interval import format_interval
from rlver_gym.util.svg import draw_line_chart

ALGOS = ("ppo", "recurrent-ppo")


def main() -> None:
    """Train what is missing, and print the comparison.

    A persona's score is the mean over trainings and test seeds; intervals are over personas.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=61_440)
    parser.add_argument(
        "--figure", type=Path, help="draw the mean learning curves into this .svg file"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/sb3"))
    args = parser.parse_args()
    folders = {
        (algo, seed): args.out / f"{algo}-{seed}" for seed in range(args.seeds) for algo in ALGOS
    }
    for (algo, seed), folder in folders.items():
        if not (folder / "model.zip").exists():
            words = [
                "sb3",
                "--algo",
                algo,
                "--seed",
                str(seed),
                "--steps",
                str(args.steps),
                "--out",
                str(folder),
            ]
            subprocess.run([sys.executable, "-m", "rlver_gym", *words], check=True)
    runs = {place: read_episodes(folder) for place, folder in folders.items()}
    together = [
        one for (algo, _), episodes in runs.items() for one in episodes if one.agent == algo
    ]
    together += [one for one in runs[ALGOS[0], 0] if one.agent not in ALGOS]
    ranked = score_agents(together)
    fixed = next(score.agent for score in ranked if score.agent not in (*ALGOS, "random"))
    if args.figure:
        levels = {
            f"{score.agent}, test": score.final.mean
            for score in ranked
            if score.agent in (*ALGOS, fixed, "random")
        }
        args.figure.write_text(
            draw_line_chart(
                {f"{algo}, training": _mean_curve(folders, algo) for algo in ALGOS}, levels
            )
        )
    console = Console()
    console.print(
        build_leaderboard(
            ranked, f"RLVER-Strategy-v0, test personas, {args.seeds} trainings of each"
        )
    )
    for other in ("random", fixed):
        gain = compute_paired_difference(
            compute_persona_finals(together, "ppo"), compute_persona_finals(together, other)
        )
        console.print(
            f"ppo minus {other}, all: {gain.mean:+.1f} [{format_interval(gain, signed=True)}]",
            markup=False,
        )
    for name, episodes in [
        *((f"seed {seed}", _of(runs, seed)) for seed in range(args.seeds)),
        ("all", together),
    ]:
        gain = compute_paired_difference(
            *(compute_persona_finals(episodes, algo) for algo in reversed(ALGOS))
        )
        console.print(
            f"recurrent-ppo minus ppo, {name}: {gain.mean:+.1f}"
            f" [{format_interval(gain, signed=True)}]",
            markup=False,
        )


def _of(runs: dict[tuple[str, int], list], seed: int) -> list:
    return [one for algo in ALGOS for one in runs[algo, seed]]


def _mean_curve(folders: dict[tuple[str, int], Path], algo: str) -> list[tuple[int, float]]:
    curves = [
        json.loads((folder / "results.json").read_text())["curve"]
        for (one, _), folder in folders.items()
        if one == algo
    ]
    return [
        (points[0][0], sum(emotion for _, emotion in points) / len(points))
        for points in zip(*curves, strict=True)
    ]


if __name__ == "__main__":
    main()
