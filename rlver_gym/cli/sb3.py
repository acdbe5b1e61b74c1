"""`rlver-gym sb3`: a Stable-Baselines3 learner on the strategy view, trained on train personas and
tested on others.
"""

import json
import time
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from rlver_gym.bench.folder import EPISODES
from rlver_gym.bench.table import build_leaderboard
from rlver_gym.cli.options import AsJson
from rlver_gym.core.library import library
from rlver_gym.integrations.gyms.discrete_policies import (
    RANDOM,
    Algo,
    PolicyEvaluation,
    evaluate_policy,
    make_fixed_policies,
)
from rlver_gym.util.atomic import write_atomically
from rlver_gym.util.interval import format_interval
from rlver_gym.util.svg import draw_line_chart
from rlver_gym.util.terminal import SafeConsole, format_count, progress_bar

PACKAGES = ("rlver-gym", "stable-baselines3", "sb3-contrib", "torch", "gymnasium", "numpy")


def sb3(
    algo: Annotated[Algo, typer.Option(help="Who learns.")] = "ppo",
    steps: Annotated[
        int, typer.Option(min=1, help="Turns of training, rounded up to whole rounds of 1,024.")
    ] = 61_440,
    seed: Annotated[
        int, typer.Option(min=0, help="Of the network, the order of people, and the choices tried.")
    ] = 0,
    seeds: Annotated[
        int, typer.Option(min=1, help="Test dialogues of everybody with each persona.")
    ] = 3,
    out: Annotated[
        Path | None, typer.Option(help="Where everything goes. Default: runs/sb3-ALGO-SEED.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train PPO or recurrent PPO on RLVER-Strategy-v0, and test it on people it has never met.

    With the train personas, each with any hidden need, it learns which of twelve strategies to
    choose. Then it, random choice and each strategy alone talk to the same test personas with the
    same seeds. The table shows mean final emotions and paired differences to the best, with 95 %
    intervals over personas.

    Writes model.zip and vecnormalize.pkl (for SB3's own load), episodes.jsonl, results.json and
    curve.svg. Needs Stable-Baselines3, which the package's extra "sb3" installs.

    Example: rlver-gym sb3 --algo recurrent-ppo
    """
    learning = _import_sb3()
    people = library().ids("test")
    folder = out or Path("runs") / f"sb3-{algo}-{seed}"
    began, worked = time.monotonic(), time.process_time()
    with progress_bar() as bar:
        task = bar.add_task(f"training {algo}", total=steps)
        learned = learning.train(algo, steps, seed, lambda done: bar.update(task, completed=done))
        seconds, worked = time.monotonic() - began, time.process_time() - worked
        task = bar.add_task("testing", total=(1 + len(make_fixed_policies())) * len(people) * seeds)
        evaluation = evaluate_policy(
            algo, learned.make_policy, people, seeds, lambda done: bar.update(task, completed=done)
        )
    known = {"algo": algo, "steps": learned.model.num_timesteps, "seed": seed, "seeds": seeds}
    results = {
        **known,
        "seconds": {"by the clock": round(seconds), "of one core": round(worked)},
        "packages": {name: version(name) for name in PACKAGES},
        "recipe": learning.RECIPE,
        **evaluation.to_dict(),
        "curve": learned.curve,
    }
    write_atomically(folder / "results.json", json.dumps(results, indent=2) + "\n")
    write_atomically(
        folder / EPISODES, "".join(f"{episode.to_json()}\n" for episode in evaluation.episodes)
    )
    levels = {
        name: evaluation.mean_final(name) for name in (algo, evaluation.best_fixed_strategy, RANDOM)
    }
    curve = draw_line_chart(
        {"training people": learned.curve},
        {f"{name}, test people": level for name, level in levels.items()},
    )
    write_atomically(folder / "curve.svg", curve)
    learned.save(folder)
    if as_json:
        typer.echo(json.dumps(results))
        return
    time_taken = f"{seconds:.0f} s, {worked:.0f} s of one core"
    _print_evaluation(
        evaluation,
        seeds,
        f"{learned.model.num_timesteps:,} turns of training in {time_taken}; all of it in {folder}",
    )


def _import_sb3() -> Any:
    """The module that needs SB3, imported when it is needed, since that takes seconds."""
    return import_module("rlver_gym.integrations.gyms.sb3")


def _print_evaluation(evaluation: PolicyEvaluation, seeds: int, where: str) -> None:
    console = SafeConsole()
    personas = {episode.persona for episode in evaluation.episodes}
    people = format_count(len(personas), "test persona")
    console.print(
        build_leaderboard(
            evaluation.scores,
            f"RLVER-Strategy-v0: {people} x {format_count(seeds, 'seed')}, embedded user",
            console.width,
        )
    )
    for name in (RANDOM, evaluation.best_fixed_strategy):
        gain = evaluation.difference_to(name)
        interval = format_interval(gain, signed=True)
        console.print_line(f"{evaluation.learner} minus {name}: {gain.mean:+.1f} [{interval}]")
    console.print_line(where)
