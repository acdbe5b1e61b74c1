"""`rlver-gym fidelity`: how well a simulated user agrees with recorded ones."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.table import Table
from rich.text import Text

from rlver_gym.audit.fidelity_figure import draw
from rlver_gym.audit.fidelity_report import LLM_USERS, Section, Step, left_out_sections, measured, unseen
from rlver_gym.cli.progress import progress_bar
from rlver_gym.data.recordings import Recording, read_recordings
from rlver_gym.io.atomic import write_whole
from rlver_gym.io.errors import RecordingError
from rlver_gym.io.terminal import SafeConsole
from rlver_gym.io.text import one_line
from rlver_gym.users import SentientUser, make_user

MAX_AGENTS = 200
USUAL = "deepseek-v3"


def fidelity(
    folder: Annotated[
        Path,
        typer.Argument(
            help="A folder of recorded dialogues: SIMULATOR__AGENT.jsonl files, and profile files if there are any."
        ),
    ],
    user: Annotated[
        str,
        typer.Option(
            help="Who is measured: embedded, embedded:PRESET, embedded:WEIGHTS.json, or MODULE:NAME of your own user."
        ),
    ] = "embedded",
    simulator: Annotated[
        str | None,
        typer.Option(
            help="Whose recorded judgements count: the beginning of its name. If not given: deepseek-v3, or the only one there is."
        ),
    ] = None,
    left_out: Annotated[
        bool,
        typer.Option(
            help="For the embedded user: refit without each agent, each fifth of the people, and random halves of the agents."
        ),
    ] = True,
    splits: Annotated[int, typer.Option(min=2, help="Random halves of the agents.")] = 20,
    figure: Annotated[
        Path | None, typer.Option(help="Draw replayed against recorded agents' scores into this .svg file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Replay recorded dialogues through a simulated user, and compare what it feels with what was recorded.

    It hears the recorded words and keeps its own emotion. Every figure has a 95 % interval (over people). For Chinese recordings the embedded user is
    also refitted without the agents or people that it is measured on (needs: pip install 'rlver-gym\\[calibrate]'; --no-left-out goes without).
    --json prints the summary first: turns, within_r (replies to one person), within_agent_r, turn1_r, agents_rho, sign, gap, agents.
    """
    everything = read_recordings(folder)
    recordings = _of_simulator(everything, simulator, folder)
    if len({one.agent for one in recordings}) > MAX_AGENTS:
        raise RecordingError(f"{folder}: more than {MAX_AGENTS} agents, each of which is left out of a fit. Give some.")
    untold = len({one.persona.id for one in recordings if not one.persona.situation.cause})
    if untold:
        note = f"note: no profile in {folder} tells the story of {untold} people; replies that fit it will seem less relevant. Put SAGE's profile file beside the recordings."
        SafeConsole(stderr=True).print(note, style="yellow", markup=False)
    with progress_bar() as bar:
        sections = _sections(user, everything, recordings, left_out, splits, _step(bar))
    if figure:
        write_whole(figure, draw(sections[min(1, len(sections) - 1)].agents), RecordingError)
    if as_json:
        parts = [{**section._asdict(), "summary": section.summary._asdict()} for section in sections]
        typer.echo(json.dumps({**sections[0].summary._asdict(), "sections": parts}))
        return
    for section in sections:
        _print(section, len(recordings))
    if recordings[0].persona.language == "zh":
        SafeConsole().print(LLM_USERS, style="dim")


def _of_simulator(recordings: list[Recording], beginning: str | None, folder: Path) -> list[Recording]:
    """Those whose judge's name begins so; without one, those of the simulator that most figures are told of, or of the only one."""
    names = sorted({one.simulator for one in recordings})
    if beginning is None:
        beginning = names[0] if len(names) == 1 else USUAL
    found = [one for one in recordings if one.simulator.startswith(beginning)]
    if not found:
        raise RecordingError(
            f"{folder}: no recording of a simulator {beginning!r}. Give --simulator one of: {one_line(', '.join(names), max_chars=1000)}."
        )
    return found


def _step(bar) -> Step:
    def step(what: str, count: int) -> Callable[[], None]:
        task = bar.add_task(what, total=count)
        return lambda: bar.advance(task)

    return step


def _sections(
    user: str, everything: list[Recording], recordings: list[Recording], left_out: bool, splits: int, step: Step
) -> list[Section]:
    who: SentientUser = make_user(user)
    sections = [measured(f"{user} as it is", lambda _: who, recordings, step)]
    if user != "embedded" or recordings[0].persona.language != "zh":
        return sections
    new = unseen(recordings)
    if new and len(new) < len(recordings):
        sections.append(
            measured("embedded as it is, on agents and people it was not fitted on", lambda _: who, new, step)
        )
    several = len({one.agent for one in recordings}) >= 2 and len({one.persona.id for one in recordings}) >= 5
    return sections + (left_out_sections(everything, recordings, splits, step) if left_out and several else [])


def _print(section: Section, dialogues: int) -> None:
    console = SafeConsole()
    table = _table(f"{section.title} ({dialogues} dialogues)", ("check", "value", "95 % interval", "what it says"))
    for check in section.checks:
        digits = 1 if "%" in check.name else 3
        interval = f"{check.low:.{digits}f} to {check.high:.{digits}f}" if check.low != check.high else ""
        table.add_row(check.name, f"{check.value:.{digits}f}", interval, check.what)
    console.print(table, "")
    agents = _table("mean final emotion", ("agent", "replayed", "recorded"))
    for name, (own, recorded) in sorted(section.agents.items(), key=lambda one: -one[1][1]):
        agents.add_row(Text(name), f"{own:.1f}", f"{recorded:.1f}")
    console.print(agents, "")
    groups = _table("by need and disposition", ("group", "dialogues", "replayed", "recorded", "r"))
    for name, count, own, recorded, r in (*section.needs, *section.dispositions):
        groups.add_row(str(name), str(count), f"{own:.1f}", f"{recorded:.1f}", f"{r:.2f}")
    console.print(groups, "")
    if section.failures:
        note = f"The user failed at {len(section.failures)} dialogues, which are left out where it did. The first, {section.failures[0]}"
        console.print(note, "", style="yellow", markup=False)


def _table(title: str, columns: tuple[str, ...]) -> Table:
    table = Table(
        title=Text(title, style="table.title"), title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    kinds: dict[bool, Literal["right", "left"]] = {True: "right", False: "left"}
    for number, column in enumerate(columns):
        table.add_column(
            column, justify=kinds[number > 0 and column != "what it says"], no_wrap=column != "what it says"
        )
    return table
