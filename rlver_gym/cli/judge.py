"""`rlver-gym judge`: the five core capabilities of recorded dialogues, in a model's opinion."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rlver_gym.bench.judge.ask import HEEDED, Judge, JudgedDialogue, JudgeInput
from rlver_gym.bench.judge.coordinate import draw_coordinate
from rlver_gym.bench.judge.summary import (
    AgentMarks,
    correlate_agent_rankings,
    measure_agreement,
    summarise_marks,
    write_judgements,
)
from rlver_gym.bench.rescore import Recorded
from rlver_gym.cli.options import (
    AsJson,
    RunEnv,
    RunOrRecordings,
    RunPersonas,
    exit_if_any_skipped,
    print_json,
)
from rlver_gym.cli.report import ask_all, recorded_dialogues
from rlver_gym.cli.servers import parse_user_options, require_chat_model
from rlver_gym.core.capabilities import AXES, DIMENSIONS
from rlver_gym.llm_client.connect import connect, spending
from rlver_gym.users.llm import LLMOptions, sort_options
from rlver_gym.util.atomic import convert_write_errors, write_atomically
from rlver_gym.util.errors import CardError, RunError
from rlver_gym.util.files import path_inside
from rlver_gym.util.terminal import SafeConsole, format_count

JUDGE_CACHE = "judge_cache.sqlite"


def judge(
    run: RunOrRecordings,
    model: Annotated[str, typer.Option("--judge", help="Who judges: openai:MODEL.")],
    judge_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="An option of the judge or its server, as the user openai:MODEL takes: base_url,"
            " temperature, max_tokens, thinking=false, structured=false, …; repeat it for more.",
        ),
    ] = None,
    samples: Annotated[int, typer.Option(min=1, max=25, help="Judgements of each dialogue.")] = 1,
    seed: Annotated[
        int, typer.Option(help="Decides the order of dialogues, and of capabilities in a request.")
    ] = 0,
    personas: RunPersonas = None,
    env: RunEnv = None,
    out: Annotated[
        Path | None, typer.Option(help="Where judgements.jsonl goes. Default: the judged folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Have a language model judge recorded dialogues on five capabilities, from 1 to 5: a model's
    opinion, and no part of the score.

    Empathic depth, core insight, solution crafting, style adaptability and dialogue guidance, as
    the RLVER paper names them, each with the words that decided. The judge is shown what was said
    and nothing else. With --samples, also how far repeated judgements agree.

    Dialogues that the judge fails at are left out and named, and the exit code is 4. Answers are
    kept in judge_cache.sqlite: the same command goes on where it stopped, and asks again where the
    judge had failed.

    Example: rlver-gym judge runs/a --judge openai:gpt-4o --samples 3
    """
    name = require_chat_model("--judge", model)
    folder, dialogues = out or run, recorded_dialogues(run, personas, env)
    asked = parse_user_options(judge_option, "--judge-option")
    if other := sorted(asked.keys() & (LLMOptions.model_fields.keys() - HEEDED)):
        raise CardError(
            f"--judge-option {other[0]} is for users. See --help for what a judge takes."
        )
    with convert_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    cache = path_inside(folder, JUDGE_CACHE)
    asked = {"response_cache": cache, **asked, "samples": samples}
    options, settings = sort_options(name, asked)
    who = Judge(connect(settings), name, options, seed)
    judged = ask_judge(who, dialogues, settings.concurrency)
    path, marks = write_judgements(folder, who, judged), summarise_marks(judged, name)
    picture = path_inside(folder, "coordinate.svg")
    write_atomically(picture, draw_coordinate(marks), RunError)
    failures = {dialogue.heard.key: dialogue.failure for dialogue in judged if dialogue.failure}
    output: dict[str, Any] = {
        "what": "a model's opinion, no part of the score",
        "judge": name,
        "prompt_version": who.version,
        "samples": samples,
        "seed": seed,
        "agents": marks,
        "agreement": measure_agreement(judged),
        "kendall_tau": correlate_agent_rankings(marks),
        "failures": [{"dialogue": key, "why": why} for key, why in failures.items()],
        "judgements": path,
        "coordinate": picture,
        "spent": spending(settings).summary(),
    }
    if as_json:
        print_json(output)
    else:
        title = f"{run}: the opinion of {name}, 1 to 5"
        rows = _build_score_rows(marks, output["agreement"])
        SafeConsole().print_table(rows, title, _describe_judge_reliability(marks, output))
    exit_if_any_skipped(failures.items())


def ask_judge(who: Judge, dialogues: Sequence[Recorded], concurrency: int) -> list[JudgedDialogue]:
    heard = list(_number_dialogues(dialogues))
    return ask_all(who.judge(heard, concurrency), "judging", len(heard))


def _number_dialogues(dialogues: Sequence[Recorded]) -> Iterator[JudgeInput]:
    """Those with the same agent, persona and seed, as recordings have, are counted."""
    seen: Counter[str] = Counter()
    for dialogue in dialogues:
        seen[dialogue.key] += 1
        key = dialogue.key + (f"#{seen[dialogue.key]}" if seen[dialogue.key] > 1 else "")
        who, said = dialogue.scene.persona.id, tuple(dialogue.dialogue.messages())
        yield JudgeInput(key, dialogue.agent, who, dialogue.final, said)


def _build_score_rows(
    marks: Sequence[AgentMarks], agreement: Mapping[str, Any]
) -> Iterator[tuple[str, ...]]:
    yield "agent", "n", *(name.replace("_", "\n") for name in DIMENSIONS)
    for agent in marks:
        given = agent.capabilities.values()
        cells = (f"{mark.mean:.1f}\n{mark.low:.1f}, {mark.high:.1f}" for mark in given)
        yield agent.agent, str(agent.dialogues), *cells
    if agreement:
        pairs = agreement.values()
        yield "repeated: SD", "", *(f"{pair['sd']:.2f}" for pair in pairs)
        yield "within 1 point", "", *(f"{pair['within_one']:.0f} %" for pair in pairs)


def _describe_judge_reliability(
    marks: Sequence[AgentMarks], agreement: Mapping[str, Any]
) -> Iterator[str]:
    for agent in marks:
        if agent.is_self:
            own = "its own model: models tend to like their own words."
            yield f"{agent.agent} is judged by {own}"
        if agent.addressed:
            dialogues = format_count(agent.addressed, "dialogue")
            yield f"{agent.agent} spoke to the judge in {dialogues}: those replies were withheld."
    if taus := [
        f"{name.replace('_', ' ')} {tau:.2f}" for name, tau in agreement["kendall_tau"].items()
    ]:
        yield f"Kendall tau with the order by final emotion: {', '.join(taus)}."
    kept = sum(agent.quotations for agent in marks)
    dropped = sum(agent.dropped for agent in marks)
    yield f"Quotations that stand in no dialogue, dropped: {dropped} of {kept + dropped}."
    for agent in marks:
        across, up = (agent.coordinate[name].mean for name in AXES)
        yield (
            f"{agent.agent} stands at {across:+.1f} of structured (-1) to creative (+1),"
            f" {up:+.1f} of solution- (-1) to empathy-oriented (+1)."
        )
    yield f"The coordinate as a picture: {agreement['coordinate']}"
    yield f"A model's opinion, no part of the score: {agreement['judgements']}"
    yield f"Spent: {agreement['spent']}."
