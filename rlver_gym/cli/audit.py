"""`rlver-gym redteam` and `fidelity`: whether a user's score can be trusted."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from math import isnan
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from rlver_gym.audit.agreement import (
    appraise_corpus,
    bootstrap_agreement,
    describe_agreement,
    is_corpus,
)
from rlver_gym.audit.attacks import FIXED_ATTACKS, Attack
from rlver_gym.audit.fidelity_figure import draw
from rlver_gym.audit.fidelity_report import (
    LLM_USERS,
    Section,
    StartProgress,
    cross_validate,
    run_checks,
    select_unseen,
)
from rlver_gym.audit.realism import compare_realism, read_transcripts
from rlver_gym.audit.recorded_attacks import (
    make_recorded_attacks,
    recorded_agents,
    redteam_recordings,
    select_recordings,
)
from rlver_gym.audit.red_team import AttackResult, redteam
from rlver_gym.audit.search_attacks import SEARCH_ATTACKS, SearchAttack
from rlver_gym.bench.folder import read_episodes
from rlver_gym.cli.options import AsJson, Env, Personas
from rlver_gym.core.cards import env_card
from rlver_gym.core.library import library
from rlver_gym.data.recordings import Recording, read_recordings
from rlver_gym.io.atomic import write_atomically
from rlver_gym.io.errors import RecordingError, UnknownName
from rlver_gym.io.interval import format_estimate
from rlver_gym.io.json_text import dump_json
from rlver_gym.io.terminal import SafeConsole, format_count, make_table, one_line, progress_bar
from rlver_gym.users import SentientUser, make_user

ATTACKS = {attack.name: attack for attack in (*FIXED_ATTACKS, *SEARCH_ATTACKS)}
RECORDED_PEOPLE = 50
"""Personas of recorded dialogues that are attacked."""


def attack(
    attack: Annotated[
        list[str] | None,
        typer.Option(help=f"Only this attack; repeat it for more. One of: {', '.join(ATTACKS)}."),
    ] = None,
    env: Env = "SAGE-Sentient-v0",
    user: Annotated[str, typer.Option(help="Who is attacked.")] = "embedded",
    personas: Personas = None,
    recordings: Annotated[
        Path | None,
        typer.Option(
            help=(
                "A folder of recorded Chinese dialogues: attack on these instead of the shipped"
                " personas."
            )
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, help="Dialogues of each attack with each persona.")
    ] = 1,
    as_json: AsJson = False,
) -> None:
    """Attack the simulated user: flattery, echo, stuffing, threats, and searches that try replies
    on the score itself.

    Prints the mean final emotion that each attack reaches and the share of people it leaves
    content. Whatever ends above honest agents (rlver-gym bench) is a hole that a learner would
    find. Dialogues in which the user failed are counted apart. Searching attacks call the user up
    to 2,000 times a dialogue. With --recordings, attackers answer what the recorded people said,
    and the recorded agents' own replies stand beside them.
    """
    card, known = env_card(env), read_recordings(recordings) if recordings else []
    chosen = _select_attacks(
        attack, make_recorded_attacks(known) if recordings else (*FIXED_ATTACKS, *SEARCH_ATTACKS)
    )
    attacked = make_user(user)
    if recordings:
        people = [one.persona for one in select_recordings(known, RECORDED_PEOPLE)]
        run_attacks = partial(
            redteam_recordings,
            attacked,
            known,
            attacks=chosen,
            people=RECORDED_PEOPLE,
            card=card,
            seeds=seeds,
        )
    else:
        shelf = library(personas)
        people = [shelf.get(persona_id) for persona_id in shelf.ids(card.split)]
        run_attacks = partial(redteam, attacked, people, card=card, attacks=chosen, seeds=seeds)
    with progress_bar() as progress:
        task = progress.add_task("attacking", total=len(chosen) * len(people) * seeds)
        results = list(run_attacks(on_progress=lambda: progress.advance(task)))
    if recordings:
        results += recorded_agents(attacked, known, people=RECORDED_PEOPLE)
    if as_json:
        nothing = {"final": None, "content": None}  # JSON knows no nan
        found = [one._asdict() | (nothing if isnan(one.final) else {}) for one in results]
        typer.echo(json.dumps(found))
        return
    SafeConsole().print(
        _attacks_table(
            results,
            f"{card.id}, {format_count(len(people), 'persona')}, {user} user: start {card.start}",
        )
    )


def _select_attacks(
    names: Sequence[str] | None, attacks: Sequence[Attack | SearchAttack]
) -> list[Attack | SearchAttack]:
    """The attacks of those names, or all; UnknownName says which there are."""
    known = {attack.name: attack for attack in attacks}
    for name in names or ():
        if name not in known:
            raise UnknownName.of("attack", name, known, ", ".join(known))
    return [known[name] for name in names or known]


def _attacks_table(results: Sequence[AttackResult], title: str) -> Table:
    table = make_table(title)
    table.add_column("attack", style="bold", no_wrap=True)
    table.add_column("final emotion", justify="right")
    table.add_column("content", justify="right")
    table.add_column("what it does")
    for result in results:
        failed = (
            f" ({result.failed} of {format_count(result.dialogues, 'dialogue')} failed)"
            if result.failed
            else ""
        )
        paid = (
            ("-", "-")
            if isnan(result.final)
            else (f"{result.final:.1f}", f"{result.content:.0f} %")
        )
        table.add_row(result.attack, *paid, result.what + failed)
    return table


MAX_AGENTS = 200
USUAL = "deepseek-v3"


def fidelity(
    folder: Annotated[
        Path,
        typer.Argument(
            help=(
                "A folder of recorded dialogues: SIMULATOR__AGENT.jsonl files, and profile files if"
                " there are any; or a split of the corpus of rated replies, such as"
                " recordings/en/test."
            )
        ),
    ],
    user: Annotated[
        str,
        typer.Option(
            help=(
                "Who is measured: embedded, embedded:PRESET, embedded:WEIGHTS.json, or MODULE:NAME"
                " of your own user."
            )
        ),
    ] = "embedded",
    simulator: Annotated[
        str | None,
        typer.Option(
            help=(
                "Whose recorded judgements count: the beginning of its name. If not given:"
                " deepseek-v3, or the only one there is."
            )
        ),
    ] = None,
    left_out: Annotated[
        bool,
        typer.Option(
            help=(
                "For the embedded user: refit without each agent, each fifth of the people, and"
                " random halves of the agents."
            )
        ),
    ] = True,
    splits: Annotated[int, typer.Option(min=2, help="Random halves of the agents.")] = 20,
    realism: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help=(
                "Compare how people type instead: FOLDER is then a file of transcripts (JSON with"
                " turns of role and content), and this a run's folder."
            ),
        ),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Draw replayed against recorded agents' scores into this .svg file."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Replay recorded dialogues through a simulated user, and compare what it feels with what was
    recorded.

    It hears the recorded words and keeps its own emotion. Every figure has a 95 % interval (over
    people). For Chinese recordings the embedded user is also refitted without the agents or people
    that it is measured on (needs: pip install '.\\[calibrate]'; --no-left-out goes
    without). --json prints the summary first: turns, within_r (replies to one person),
    within_agent_r, turn1_r, agents_rho, sign, gap, agents.

    A folder with supporters.json is a corpus of rated replies (research/corpus.md): then each reply
    is felt from an emotion of 40 and compared with its readers, within_dialogue_r first.
    """
    if realism is not None:
        _compare_typing(folder, realism, as_json=as_json)
        return
    if is_corpus(folder):
        _fidelity_to_readers(folder, make_user(user), as_json=as_json)
        return
    everything = read_recordings(folder)
    recordings = _filter_by_simulator(everything, simulator, folder)
    if len({one.agent for one in recordings}) > MAX_AGENTS:
        raise RecordingError(
            f"{folder}: more than {MAX_AGENTS} agents, each of which is left out of a fit. Give"
            " some."
        )
    untold = len({one.persona.id for one in recordings if not one.persona.situation.cause})
    if untold:
        note = (
            f"note: no profile in {folder} tells the story of"
            f" {format_count(untold, 'person', 'people')}; replies that fit it will seem less"
            " relevant. Put SAGE's profile file beside the recordings."
        )
        SafeConsole(stderr=True).print(note, style="yellow", markup=False)
    with progress_bar() as bar:
        sections = _sections(user, everything, recordings, left_out, splits, _show_progress(bar))
    if figure:
        write_atomically(figure, draw(sections[min(1, len(sections) - 1)].agents), RecordingError)
    if as_json:
        parts = [
            {**section._asdict(), "summary": section.summary._asdict()} for section in sections
        ]
        typer.echo(json.dumps({**sections[0].summary._asdict(), "sections": parts}))
        return
    for section in sections:
        _print(section, len(recordings))
    if recordings[0].persona.language == "zh":
        SafeConsole().print(LLM_USERS, style="dim")


def _compare_typing(transcripts: Path, run: Path, *, as_json: bool) -> None:
    simulated = [
        [episode.opening, *(turn.reply for turn in episode.turns)] for episode in read_episodes(run)
    ]
    people = read_transcripts(transcripts)
    found = compare_realism(people, simulated)
    if as_json:
        typer.echo(dump_json([one._asdict() for one in found]))
        return
    table = make_table(
        f"how they type: {format_count(len(people), 'transcript')} and"
        f" {format_count(len(simulated), 'dialogue')} of {run}"
    )
    for heading in ("of a person's turns", "transcripts", "simulated"):
        table.add_column(heading, justify="left" if heading.startswith("of") else "right")
    for one in found:
        table.add_row(one.measure, format_estimate(one.people), format_estimate(one.simulated))
    SafeConsole().print(table)


_AGREEMENT = {
    "within_dialogue_r": "within a dialogue, r",
    "within_moment_r": "within a moment, r",
    "within_person_r": "replies to one person, r",
    "same_sign": "same sign",
    "always_pleased": "same sign, if always pleased",
    "order_of_supporters": "order of supporters, rho",
}


def _fidelity_to_readers(folder: Path, user: SentientUser, *, as_json: bool) -> None:
    with progress_bar() as bar:
        rated, felt = appraise_corpus(user, folder, _show_progress(bar))
    found, bounds = describe_agreement(rated, felt), bootstrap_agreement(rated, felt)
    supporters = len({one.supporter for one in rated})
    if as_json:
        counts = {"replies": len(rated), "supporters": supporters}
        typer.echo(json.dumps({**found, **counts, "user": user.version, "bounds": bounds}))
        return
    table = make_table(
        f"{user.kind} (version {user.version}) and readers:"
        f" {format_count(len(rated), 'reply', 'replies')} of"
        f" {format_count(supporters, 'supporter')}"
    )
    for heading in ("agreement", "found", "95 %, over supporters"):
        table.add_column(heading, justify="left" if heading == "agreement" else "right")
    for name, what in _AGREEMENT.items():
        if (value := found[name]) is not None:
            low, high = bounds[name]
            table.add_row(what, f"{value:.2f}", f"{low:.2f} to {high:.2f}")
    SafeConsole().print(table)


def _filter_by_simulator(
    recordings: list[Recording], beginning: str | None, folder: Path
) -> list[Recording]:
    """Those whose judge's name begins so; by default the usual simulator, or the only one."""
    names = sorted({one.simulator for one in recordings})
    if beginning is None:
        beginning = names[0] if len(names) == 1 else USUAL
    found = [one for one in recordings if one.simulator.startswith(beginning)]
    if not found:
        raise RecordingError(
            f"{folder}: no recording of a simulator {beginning!r}. Give --simulator one of:"
            f" {one_line(', '.join(names), max_chars=1000)}."
        )
    return found


def _show_progress(bar) -> StartProgress:
    def step(what: str, count: int) -> Callable[[], None]:
        task = bar.add_task(what, total=count)
        return lambda: bar.advance(task)

    return step


def _sections(
    user: str,
    everything: list[Recording],
    recordings: list[Recording],
    left_out: bool,
    splits: int,
    step: StartProgress,
) -> list[Section]:
    who: SentientUser = make_user(user)
    sections = [run_checks(f"{user} as it is", lambda _: who, recordings, step)]
    if user != "embedded" or recordings[0].persona.language != "zh":
        return sections
    new = select_unseen(recordings)
    if new and len(new) < len(recordings):
        sections.append(
            run_checks(
                "embedded as it is, on agents and people it was not fitted on",
                lambda _: who,
                new,
                step,
            )
        )
    several = (
        len({one.agent for one in recordings}) >= 2
        and len({one.persona.id for one in recordings}) >= 5
    )
    return sections + (
        cross_validate(everything, recordings, splits, step) if left_out and several else []
    )


def _print(section: Section, dialogues: int) -> None:
    console = SafeConsole()
    table = _checks_table(
        f"{section.title} ({format_count(dialogues, 'dialogue')})",
        ("check", "value", "95 % interval", "what it says"),
    )
    for check in section.checks:
        digits = 1 if "%" in check.name else 3
        interval = (
            f"{check.low:.{digits}f} to {check.high:.{digits}f}" if check.low != check.high else ""
        )
        table.add_row(check.name, f"{check.value:.{digits}f}", interval, check.what)
    console.print(table, "")
    agents = _checks_table("mean final emotion", ("agent", "replayed", "recorded"))
    for name, (own, recorded) in sorted(section.agents.items(), key=lambda one: -one[1][1]):
        agents.add_row(Text(name), f"{own:.1f}", f"{recorded:.1f}")
    console.print(agents, "")
    groups = _checks_table(
        "by need and disposition", ("group", "dialogues", "replayed", "recorded", "r")
    )
    for name, count, own, recorded, r in (*section.needs, *section.dispositions):
        groups.add_row(str(name), str(count), f"{own:.1f}", f"{recorded:.1f}", f"{r:.2f}")
    console.print(groups, "")
    if section.failures:
        note = (
            f"The user failed at {format_count(len(section.failures), 'dialogue')}, left out where"
            f" it did. The first, {section.failures[0]}"
        )
        console.print(note, "", style="yellow", markup=False)


def _checks_table(title: str, columns: tuple[str, ...]) -> Table:
    table = make_table(title)
    for number, column in enumerate(columns):
        is_text = column == "what it says"
        justify = "left" if is_text or not number else "right"
        table.add_column(column, justify=justify, no_wrap=not is_text)
    return table
