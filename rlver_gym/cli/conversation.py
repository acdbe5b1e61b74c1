"""`rlver-gym conversation`: how well the person of a run converses, whoever the user was."""

from collections import defaultdict
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import track
from rich.table import Table
from rich.text import Text

from rlver_gym.bench.folder import read_episodes
from rlver_gym.conversation.measure import NOTHING, Conversation, InCommon, in_common, measure_dialogue, most_repeated
from rlver_gym.core.dialogue import Dialogue
from rlver_gym.core.library import PersonaLibrary, library
from rlver_gym.core.persona import Persona
from rlver_gym.environment.episode import Episode
from rlver_gym.io.errors import RunError
from rlver_gym.io.json_text import dump_json
from rlver_gym.io.terminal import SafeConsole
from rlver_gym.io.text import one_line


def conversation(
    run: Annotated[Path, typer.Argument(help="A run folder, your own or anybody's.")],
    personas: Annotated[
        str | None, typer.Option(help="The folder of the run's persona cards, when they are not the shipped ones.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure how well the simulated person converses: questions answered, declined and missed, mistakes corrected, repetition, names without an introduction.

    Everything is counted from the text of the dialogues against the persona's card, so runs with the embedded user and with LLM users can be compared.
    It is a count by rules: it finds what they find.
    """
    errors, shelf = SafeConsole(stderr=True), library(personas)
    counted: dict[str, Conversation] = defaultdict(lambda: NOTHING)
    by_persona: dict[tuple[str, int], dict[str, list[str]]] = defaultdict(dict)
    by_agent: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(dict)
    dialogues: list[Dialogue] = []
    episodes = list(read_episodes(run))
    for episode in track(episodes, description="reading", console=errors, transient=True):
        dialogue = Dialogue(episode.opening, episode.turns)
        dialogues.append(dialogue)
        counted[episode.agent] += measure_dialogue(_persona(shelf, episode), dialogue)
        lines = [turn.reply for turn in episode.turns if turn.outcome is None]
        name = f"{episode.agent} with {episode.persona}, seed {episode.seed}"
        by_persona[episode.persona, episode.seed][name] = by_agent[episode.persona, episode.agent][name] = lines
    across_agents, across_seeds = in_common(by_persona.values()), in_common(by_agent.values())
    if as_json:
        agents = {name: {**one._asdict(), "missed": one.missed} for name, one in counted.items()}
        common = {"agents": across_agents, "seeds": across_seeds}
        shares = {name: one._asdict() if one else None for name, one in common.items()}
        typer.echo(dump_json({"run": str(run), "agents": agents, "in_common": shares}))
        return
    console = SafeConsole()
    console.print(_table(counted, str(run)))
    for what, one in (("same person and seed, other agent", across_agents), ("same agent, other seed", across_seeds)):
        console.print(Text(f"sentences in common, {what}: {_shares(one)}"), soft_wrap=True)
    for sentence, count in most_repeated(dialogues):
        console.print(Text(f"in {count} of {len(dialogues)} dialogues: {one_line(sentence)}"), soft_wrap=True)


def _persona(shelf: PersonaLibrary, episode: Episode) -> Persona:
    persona = shelf.get(episode.persona)
    if persona.hash != episode.persona_hash:
        raise RunError(
            f"the card of {episode.persona} is not the one that the run was held with. Give its cards with --personas FOLDER, or hold the run anew."
        )
    return persona


def _shares(one: InCommon | None) -> str:
    if one is None:
        return "–"
    return f"{one.mean:.0%} on the mean over pairs, at most {one.most:.0%} ({one_line(' and '.join(one.pair))})"


def _table(counted: dict[str, Conversation], title: str) -> Table:
    table = Table(
        title=Text(one_line(title)),
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column("agent", style="bold", overflow="ellipsis", no_wrap=True, min_width=10)
    for heading in ("asked", "answered", "declined", "missed", "mistakes", "corrected", "repeated", "strangers"):
        table.add_column(heading, justify="right", no_wrap=True)
    for agent, one in counted.items():
        asked = one.questions or 1
        shares = [f"{part / asked:.0%}" if one.questions else "–" for part in (one.answered, one.declined, one.missed)]
        corrected = f"{one.corrected / one.mistakes:.0%}" if one.mistakes else "–"
        row = [
            one_line(agent),
            str(one.questions),
            *shares,
            str(one.mistakes),
            corrected,
            str(one.repeated),
            str(one.strangers),
        ]
        table.add_row(*map(Text, row))
    return table
