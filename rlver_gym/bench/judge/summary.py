"""What judgements come to, by agent and in all, and the file that keeps them."""

import json
from collections.abc import Iterable, Sequence
from itertools import combinations
from math import isnan, sqrt
from pathlib import Path
from statistics import fmean, variance
from typing import Any, NamedTuple

from rlver_gym.bench.judge.ask import Judge, JudgedDialogue, find_judge_addressing_messages
from rlver_gym.core.capabilities import AXES, DIMENSIONS, JUDGEMENTS
from rlver_gym.llm_client.settings import ADDRESS
from rlver_gym.util.atomic import write_atomically
from rlver_gym.util.correlation import kendall_tau
from rlver_gym.util.errors import RunError
from rlver_gym.util.groups import group, mean_by
from rlver_gym.util.interval import Interval, bootstrap
from rlver_gym.util.json_text import to_plain


class AgentMarks(NamedTuple):
    """What the judge thinks of one agent."""

    agent: str
    dialogues: int
    final: float
    """Mean final emotion of the same dialogues, which the judge does not know."""
    is_self: bool
    addressed: int
    quotations: int
    dropped: int
    """Quotations beside these, which stand nowhere in their dialogue."""
    capabilities: dict[str, Interval]
    """By dimension, over personas."""
    coordinate: dict[str, Interval]
    """By axis, from -1 (structured, solution-oriented) to 1 (creative, empathy-oriented)."""


def summarise_marks(judged: Sequence[JudgedDialogue], model: str) -> list[AgentMarks]:
    """The best on the whole first. RunError when not one dialogue has been judged."""
    if not judged:
        raise RunError("no dialogue there counts. See what rlver-gym report says of the run.")
    in_order = sorted(judged, key=lambda dialogue: dialogue.heard.key)
    groups = group(
        (dialogue.heard.agent, dialogue) for dialogue in in_order if not dialogue.failure
    )
    if not groups:
        raise RunError(f"the judge failed at every dialogue: {judged[0].failure}")
    marks = [_score_agent(agent, each, model) for agent, each in groups.items()]
    return sorted(marks, key=lambda agent: -sum(each.mean for each in agent.capabilities.values()))


def _score_agent(agent: str, judged: Sequence[JudgedDialogue], model: str) -> AgentMarks:
    judgements = [each for dialogue in judged for each in dialogue.judgements]
    return AgentMarks(
        agent,
        len(judged),
        fmean(dialogue.heard.final for dialogue in judged),
        _format_model_name(agent) == _format_model_name(model),
        sum(bool(find_judge_addressing_messages(dialogue.heard.messages)) for dialogue in judged),
        sum(len(many) for judgement in judgements for many in judgement.quotations.values()),
        sum(judgement.num_dropped for judgement in judgements),
        {name: bootstrap(_compute_persona_means(judged, name)) for name in DIMENSIONS},
        {
            name: bootstrap((mean - 3) / 2 for mean in _compute_persona_means(judged, name))
            for name in AXES
        },
    )


def _format_model_name(name: str) -> str:
    bare = (
        name.partition(" by ")[0].partition(ADDRESS)[0].removeprefix("openai:").removeprefix("hf:")
    )
    return bare.rstrip("/").rpartition("/")[2].casefold()


def _compute_persona_means(judged: Sequence[JudgedDialogue], name: str) -> Iterable[float]:
    return mean_by(
        (dialogue.heard.persona, fmean(judgement.scores[name] for judgement in dialogue.judgements))
        for dialogue in judged
    ).values()


def measure_agreement(judged: Sequence[JudgedDialogue]) -> dict[str, dict[str, float]]:
    """How far judgements of a dialogue agree, by dimension: pooled `sd`, `within_one` in %."""
    by_capability = {}
    for name in DIMENSIONS:
        scores = [[each.scores[name] for each in dialogue.judgements] for dialogue in judged]
        repeated = [marks for marks in scores if len(marks) > 1]
        near = [abs(a - b) <= 1 for marks in repeated for a, b in combinations(marks, 2)]
        if near:
            sd = sqrt(fmean(map(variance, repeated)))
            by_capability[name] = {"sd": sd, "within_one": 100 * fmean(near)}
    return by_capability


def correlate_agent_rankings(marks: Sequence[AgentMarks]) -> dict[str, float]:
    """Kendall's tau of the agents' orders by final emotion and by each dimension."""
    finals, taus = [agent.final for agent in marks], {}
    for name in DIMENSIONS if len(marks) > 2 else ():
        tau = kendall_tau(finals, [agent.capabilities[name].mean for agent in marks])
        taus |= {} if isnan(tau) else {name: tau}
    return taus


def write_judgements(folder: Path, judge: Judge, judged: Sequence[JudgedDialogue]) -> Path:
    """Write a line for each judgement or failure, in place of an earlier judge's, unless this one
    failed at every dialogue.
    """
    path = folder / JUDGEMENTS
    if path.exists() and all(one.failure for one in judged):
        return path
    who: dict[str, Any] = {
        "model": judge.model,
        "prompt_version": judge.version,
        "seed": judge.seed,
    }
    if body := judge.options.to_body():
        who["options"] = body
    lines = []
    for heard, judgements, failure in sorted(judged, key=lambda dialogue: dialogue.heard.key):
        what = {**who, "dialogue": heard.key, "agent": heard.agent, "persona": heard.persona}
        lines += [{**what, "failure": failure}] if failure else []
        for sample, judgement in enumerate(judgements):
            said = {"scores": judgement.scores, "quotations": to_plain(judgement.quotations)}
            lines.append({**what, "sample": sample, **said, "dropped": judgement.num_dropped})
    write_atomically(path, "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines))
    return path
