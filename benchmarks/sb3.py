"""PPO against recurrent PPO on the strategy view: a training of each with every seed, as
examples/sb3_strategies.py does it, then all of them on the same test personas.

python benchmarks/sb3.py [--seeds 3] [--steps 61440] [--figure research/training.svg]
(needs: pip install '.[sb3]')
"""

# pyright: reportMissingImports=false
import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from rlver_gym.bench.score import compute_paired_difference, compute_persona_finals, score_agents
from rlver_gym.bench.table import build_score_rows
from rlver_gym.core.cards import env_card
from rlver_gym.environment.episode import Episode
from rlver_gym.util.interval import format_interval
from rlver_gym.util.svg import draw_line_chart
from rlver_gym.util.terminal import SafeConsole

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from sb3_strategies import (
    DIALOGUES_AT_ONCE,
    RECIPE,
    make_policy,
    run_baselines,
    run_episodes,
    train,
)

ALGOS = ("ppo", "recurrent-ppo")
TEST_SEEDS = 3
START = env_card("RLVER-Empathy-v0").start
Curve = list[tuple[float, float]]


def main() -> None:
    """Train, and print the comparison.

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
    args = parser.parse_args()
    curves: dict[str, list[Curve]] = {algo: [] for algo in ALGOS}
    by_seed: list[list[Episode]] = []
    for seed in range(args.seeds):
        by_seed.append([])
        for algo in ALGOS:
            episodes, curve = train_and_test(algo, args.steps, seed)
            by_seed[-1] += episodes
            curves[algo].append(curve)
    together = [*run_baselines(TEST_SEEDS), *(one for group in by_seed for one in group)]
    ranked = score_agents(together)
    fixed = next(score.agent for score in ranked if score.agent not in (*ALGOS, "random"))
    if args.figure:
        levels = {
            f"{score.agent}, test": score.final.mean
            for score in ranked
            if score.agent in (*ALGOS, fixed, "random")
        }
        means = {f"{algo}, training": np.mean(curves[algo], axis=0).tolist() for algo in ALGOS}
        args.figure.write_text(draw_line_chart(means, levels))
    title = f"RLVER-Strategy-v0, test personas, {args.seeds} trainings of each"
    SafeConsole().print_table(build_score_rows(ranked), title)
    for ours, theirs, episodes, name in [
        *(("ppo", other, together, "all") for other in ("random", fixed)),
        *(("recurrent-ppo", "ppo", group, f"seed {seed}") for seed, group in enumerate(by_seed)),
        ("recurrent-ppo", "ppo", together, "all"),
    ]:
        gain = compute_paired_difference(
            *(compute_persona_finals(episodes, agent) for agent in (ours, theirs))
        )
        interval = format_interval(gain, signed=True)
        print(f"{ours} minus {theirs}, {name}: {gain.mean:+.1f} [{interval}]")


def train_and_test(algo: str, steps: int, seed: int) -> tuple[list[Episode], Curve]:
    """Its test dialogues; and over the turns of training, the mean final emotion of the last
    hundred training dialogues.
    """
    curve: Curve = []

    def note(known: dict[str, Any], _: Any) -> bool:
        model = known["self"]
        if model.num_timesteps % (RECIPE["n_steps"] * DIALOGUES_AT_ONCE) == 0:
            returns = [ended["r"] for ended in model.ep_info_buffer]
            curve.append((model.num_timesteps, START + float(np.mean(returns))))
        return True

    model, env = train(algo, steps, seed, note)
    return run_episodes(algo, lambda _: make_policy(model, env), TEST_SEEDS), curve


if __name__ == "__main__":
    main()
