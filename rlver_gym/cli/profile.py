"""`rlver-gym profile`: what to train on, before it costs hours."""

from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import Annotated

import typer

from rlver_gym.bench.folder import read_episodes
from rlver_gym.bench.openness import measure_openness
from rlver_gym.bench.profile import GROUPS, PersonProfile, profile_training_signal
from rlver_gym.cli.options import AsJson, print_json
from rlver_gym.core.cards import env_card
from rlver_gym.core.library import library
from rlver_gym.util.errors import RunError
from rlver_gym.util.terminal import SafeConsole, format_count


def profile_people(
    run: Annotated[Path, typer.Argument(help="A run folder with eight seeds or more.")],
    agent: Annotated[
        str | None, typer.Option(help="Whose dialogues; default: the only agent, or the most.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="People to show at each end.")] = 8,
    env: Annotated[
        str | None,
        typer.Option(
            help="Count acceptance as the embedded user of this environment takes the same replies."
        ),
    ] = None,
    personas: Annotated[
        str | None, typer.Option(help="The run's persona cards; default: the shipped ones.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Which people teach a learner something: spread within groups, groups without signal, regret.

    Run the policy that you want to train as an agent with --seeds 8 or more. A group-relative
    learner (GRPO) compares dialogues with one person: where all of a group end alike it learns
    nothing, and the time is lost. Regret is how far the best agent of the run is ahead with that
    person: without any there is nothing left to learn.

    Acceptance is the share of replies after which the emotion rose, expression the share of the
    person's replies that tell something of their story, feelings or need: over all agents of the
    run, each counting alike.
    """
    episodes = read_episodes(run)
    counts = Counter(episode.agent for episode in episodes)
    if not counts:
        raise RunError(f"{run}: holds no dialogue. Let the benchmark finish one.")
    name = agent or counts.most_common(1)[0][0]
    if name not in counts:
        raise RunError(f"{run}: has no agent {name!r}. It has {', '.join(sorted(counts))}.")
    found = profile_training_signal(episodes, name)
    card = env_card(env) if env else None
    openness = measure_openness(episodes, library(personas), card)
    if as_json:
        print_json({"agent": name, "people": found, **openness._asdict()})
        return
    silent = [f"silent of {size}" for size in GROUPS]
    heading = ["person", "dialogues", "mean", "spread", *silent, "regret", "highest"]
    rows = list(map(_format_profile_row, found))
    if len(rows) > 2 * top:
        rows[top:-top] = [["…"] * len(heading)]
    where = f" in {env}" if env else ""
    over_all = (
        f"Over all agents: acceptance {100 * openness.acceptance:.1f} %{where}, expression"
        f" {100 * openness.expression:.1f} %."
    )
    title = f"{name} in {run}: {format_count(len(found), 'person', 'people')}"
    SafeConsole().print_table([heading, *rows], title, [_summarise_profiles(found), over_all])


def _format_profile_row(one: PersonProfile) -> list[str]:
    silent = [one.silent[size] for size in GROUPS]
    return [
        one.persona,
        str(one.dialogues),
        f"{one.mean:.1f}",
        f"{one.spread:.1f}",
        *("–" if share is None else f"{100 * share:.0f} %" for share in silent),
        f"{one.regret:.1f}",
        str(one.highest),
    ]


def _summarise_profiles(found: list[PersonProfile]) -> str:
    said = [f"Mean spread {fmean(one.spread for one in found):.1f} points."]
    for size in GROUPS:
        shares = [one.silent[size] for one in found]
        known = [share for share in shares if share is not None]
        said.append(
            f"Groups of {size} without signal: {100 * fmean(known):.0f} %."
            if known
            else f"Groups of {size}: too few dialogues a person, run with --seeds {size} or more."
        )
    said.append(f"Mean regret {fmean(one.regret for one in found):.1f} points.")
    return " ".join(said)
