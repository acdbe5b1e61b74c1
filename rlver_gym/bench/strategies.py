"""Which support strategies the turns of a benchmark use, and how the emotion moves in them."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rlver_gym.bench.score import drop_failed
from rlver_gym.bench.table import Table
from rlver_gym.core.languages import CHINESE
from rlver_gym.environment.alarms import find_sure_acts
from rlver_gym.environment.episode import Episode
from rlver_gym.users.embedded.english import LABEL, LABELS
from rlver_gym.users.embedded.hear import hear, read_line
from rlver_gym.util.groups import group, mean_by
from rlver_gym.util.interval import (
    RESAMPLES,
    UNKNOWN,
    Interval,
    bootstrap,
    format_estimate,
    format_mean,
)


class _ClassifierAgreement(NamedTuple):
    """Agreement of a label with a reader's, on 300 turns of test supporters."""

    precision: float
    recall: float


STRATEGIES = {
    "question": _ClassifierAgreement(0.95, 0.96),
    "restatement": _ClassifierAgreement(0.79, 0.64),
    "reflection": _ClassifierAgreement(0.62, 0.44),
    "affirmation": _ClassifierAgreement(0.81, 0.56),
    "suggestion": _ClassifierAgreement(0.59, 0.37),
}
"""Those of ESC (arXiv:2106.01144) that are labelled precisely enough (`research/strategies`)."""
_PRECISIONS, _RECALLS = zip(*STRATEGIES.values(), strict=True)
_NOTES = (
    f"Labels are made from the words of English turns (precision {min(_PRECISIONS)} to"
    f" {max(_PRECISIONS)}, recall {min(_RECALLS)} to {max(_RECALLS)} on 300 turns that a language"
    " model labelled): shares are too low where recall is.",
    "Stickiness: how probably a strategy is used again in the next turn, the mean over strategies."
    " Turns with a strategy differ from those without in more than the strategy.",
)
_AFFIRMING = frozenset("validate side praise reassure encourage permit".split())
_SUGGESTING = frozenset(("advice", "advise"))
"""Acts of the classifier and remarks of the recogniser."""
_PROBABLE, _ACT_REFLECTS, _REMARK_REFLECTS = 0.5, 0.4, 0.3
"""Chosen on 105 turns of train supporters, like the rules."""
FEWEST = 8
"""Personas that a difference needs, and turns that make a strategy count for stickiness."""


def label_turn(utterance: str, lines: Sequence[str]) -> frozenset[str] | None:
    """Which of `STRATEGIES` it uses, after these lines of the person; None if it is Chinese."""
    if 2 * len(CHINESE.findall(utterance)) > len(utterance):
        return None
    heard = hear(utterance)
    sure = find_sure_acts(heard)
    remarks = {LABELS[at] for at in heard.labels.argmax(1).tolist()} if sure else set()
    acts = {act for row in sure for act, probability in row.items() if probability >= _PROBABLE}
    is_reflecting = any(row["reflect_feeling"] >= _ACT_REFLECTS for row in sure) or bool(
        (heard.labels[:, LABEL["reflect"]] >= _REMARK_REFLECTS).any()
    )
    labels = {
        "question": "?" in utterance,
        "restatement": "retell" in remarks
        or any(not heard.runs.isdisjoint(read_line(line).runs) for line in lines),
        "reflection": is_reflecting,
        "affirmation": bool((acts | remarks) & _AFFIRMING),
        "suggestion": bool((acts | remarks) & _SUGGESTING),
    }
    return frozenset(name for name, is_used in labels.items() if is_used)


class LabelledTurn(NamedTuple):
    """An agent's turn: which strategies it uses, and how the emotion moved."""

    persona: str
    need: str
    used: frozenset[str]
    change: int
    before: frozenset[str] | None


class StrategyUse(NamedTuple):
    """How an agent uses a strategy; intervals over personas."""

    share: Interval
    """Percent of turns."""
    needs: dict[str, float]
    """The same by hidden need."""
    change_with: Interval
    """Mean change of the emotion in turns with it."""
    change_without: Interval
    difference: Interval
    """With minus without, over personas that have turns of both kinds; of `FEWEST` or more."""


class AgentStrategies(NamedTuple):
    """How many strategies a turn an agent uses, how they return, and each by its name."""

    agent: str
    turns: int
    per_turn: Interval
    stickiness: Interval
    uses: dict[str, StrategyUse]


def analyse_strategies(episodes: Sequence[Episode]) -> list[AgentStrategies]:
    """One an agent, in their order, of dialogues that did not fail and turns in English."""
    by_agent = group(
        (episode.agent, turn)
        for episode in drop_failed(episodes)
        for turn in _label_episode(episode)
    )
    return [
        AgentStrategies(
            agent,
            len(turns),
            _bootstrap_over_personas(turns, [len(turn.used) for turn in turns]),
            estimate_stickiness(turns),
            {strategy: _describe_use(strategy, turns) for strategy in STRATEGIES},
        )
        for agent, turns in by_agent.items()
    ]


def _label_episode(episode: Episode) -> Iterator[LabelledTurn]:
    lines, before = [episode.opening], None
    for turn in episode.turns:
        used = label_turn(turn.utterance, lines)
        if used is not None:
            yield LabelledTurn(episode.persona, episode.need, used, turn.appraisal.change, before)
        lines.append(turn.reply)
        before = used


def _describe_use(strategy: str, turns: Sequence[LabelledTurn]) -> StrategyUse:
    turns = sorted(turns, key=lambda turn: turn.persona)
    percents = [100.0 * (strategy in turn.used) for turn in turns]
    used = mean_by((turn.persona, turn.change) for turn in turns if strategy in turn.used)
    unused = mean_by((turn.persona, turn.change) for turn in turns if strategy not in turn.used)
    differences = [used[persona] - unused[persona] for persona in used if persona in unused]
    return StrategyUse(
        _bootstrap_over_personas(turns, percents),
        mean_by(sorted(zip((turn.need for turn in turns), percents, strict=True))),
        bootstrap(used.values()),
        bootstrap(unused.values()),
        bootstrap(differences if len(differences) >= FEWEST else []),
    )


def tabulate_strategies(analysed: Sequence[AgentStrategies]) -> list[Table]:
    """Of each agent: strategies a turn and how often they return; then each one's change."""
    heading = ["agent", "turns", "strategies a turn [95 %]", "stickiness [95 %]"]
    variety = [
        [agent.agent, f"{agent.turns:,}"]
        + [format_estimate(value, digits=2) for value in (agent.per_turn, agent.stickiness)]
        for agent in analysed
    ]
    heading_of_uses = ["agent", "strategy", "% of turns", "change", "without", "difference [95 %]"]
    uses = [
        [
            agent.agent,
            strategy,
            format_mean(use.share),
            *(format_mean(value, signed=True) for value in (use.change_with, use.change_without)),
            format_estimate(use.difference, signed=True),
        ]
        for agent in analysed
        for strategy, use in agent.uses.items()
        if use.share.mean
    ]
    tables = [
        Table("support strategies", [heading, *variety]),
        Table("change of the emotion", [heading_of_uses, *uses], _NOTES),
    ]
    return tables if analysed else []


def estimate_stickiness(turns: Sequence[LabelledTurn]) -> Interval:
    """P(a strategy in turn t, given in turn t - 1), mean over frequent ones (2604.11742)."""
    people = sorted({turn.persona for turn in turns})
    used_PS, again_PS = np.zeros((2, len(people), len(STRATEGIES)))
    for turn in turns:
        for column, strategy in enumerate(STRATEGIES):
            if strategy in (turn.before or ()):
                used_PS[people.index(turn.persona), column] += 1
                again_PS[people.index(turn.persona), column] += strategy in turn.used
    is_common_S = used_PS.sum(axis=0) >= FEWEST
    if not is_common_S.any():
        return UNKNOWN
    even_P = np.full(len(people), 1 / len(people))
    drawn_NP = np.random.default_rng(0).multinomial(len(people), even_P, RESAMPLES)
    weight_NP = np.vstack([np.ones(len(people), int), drawn_NP])
    used_NS, again_NS = (weight_NP @ shares[:, is_common_S] for shares in (used_PS, again_PS))
    rate_NS = np.ma.masked_array(again_NS, used_NS == 0) / np.maximum(used_NS, 1)
    rate, *drawn = rate_NS.mean(axis=1).filled(np.nan)
    low, high = np.nanpercentile(drawn, [2.5, 97.5])
    return Interval(float(rate), float(low), float(high))


def _bootstrap_over_personas(turns: Sequence[LabelledTurn], values: Sequence[float]) -> Interval:
    by_persona = sorted(zip((turn.persona for turn in turns), values, strict=True))
    return bootstrap(mean_by(by_persona).values())
