"""Which support strategies the turns of a benchmark use, and how the emotion moves in them."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from rlver_gym.bench.score import drop_failed
from rlver_gym.core.inquiries import Remark
from rlver_gym.environment.episode import Episode
from rlver_gym.io.interval import Interval, bootstrap
from rlver_gym.text.english.hear import hear, read_line
from rlver_gym.text.english.recognise import SentenceInput, classify


class Measured(NamedTuple):
    """How well a label of a turn agrees with a reader's, on 300 turns of test supporters."""

    precision: float
    recall: float


STRATEGIES = {
    "question": Measured(0.95, 0.96),
    "restatement": Measured(0.79, 0.64),
    "reflection": Measured(0.62, 0.45),
    "affirmation": Measured(0.81, 0.55),
    "suggestion": Measured(0.61, 0.40),
}
"""Those of ESC (arXiv:2106.01144) whose label has a precision of 0.6 or more; self-disclosure and
information have not (`research/strategies`). Others are none of them.
"""
_AFFIRMING = frozenset(
    (
        Remark.VALIDATE,
        Remark.SIDE,
        Remark.PRAISE,
        Remark.REASSURE,
        Remark.ENCOURAGE,
        Remark.PERMIT,
    )
)
_PROBABLE = 0.5
_ACT_REFLECTS, _REMARK_REFLECTS = 0.4, 0.3
"""Probabilities chosen on 105 turns of train supporters, like the rules."""
_HAN = re.compile(r"[\u4e00-\u9fff]")


def label_turn(utterance: str, lines: Sequence[str]) -> frozenset[str] | None:
    """Which of `STRATEGIES` an utterance uses, after these lines of the person; None for one that
    is not English.
    """
    if 2 * len(_HAN.findall(utterance)) > len(utterance):
        return None
    heard = hear(utterance)
    pieces = [SentenceInput(one.words, "?" in one.text[-4:]) for one in heard.pieces if one.words]
    classified = classify(pieces) if pieces else []
    remarks = {one.label for one in classified}
    reflects = max((dict(one.ranked).get(Remark.REFLECT, 0.0) for one in classified), default=0.0)
    acts = {act: probability for act, (probability, _) in heard.acts.items()}

    def does(*names: str, least: float = _PROBABLE) -> bool:
        return any(acts.get(name, 0.0) >= least for name in names)

    found = {
        "question": "?" in utterance,
        "restatement": Remark.RETELL in remarks
        or any(heard.line.runs & read_line(line).runs for line in lines),
        "reflection": does("reflect_feeling", least=_ACT_REFLECTS) or reflects >= _REMARK_REFLECTS,
        "affirmation": does("validate", "side", "praise") or not remarks.isdisjoint(_AFFIRMING),
        "suggestion": does("advice") or Remark.ADVISE in remarks,
    }
    return frozenset(name for name, is_used in found.items() if is_used)


class LabelledTurn(NamedTuple):
    """An agent's turn, what it uses, and how the emotion moved."""

    persona: str
    need: str
    used: frozenset[str]
    change: int
    before: frozenset[str] | None
    """What the agent's turn before it used; None at first."""


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
    """With minus without, over the personas that have turns of both kinds."""


class AgentStrategies(NamedTuple):
    """The strategies of one agent."""

    agent: str
    turns: int
    per_turn: Interval
    """Strategies a turn."""
    stickiness: Interval
    uses: dict[str, StrategyUse]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; None where there is nothing to estimate from."""
        return _plain(self)


def analyse_strategies(episodes: Sequence[Episode]) -> list[AgentStrategies]:
    """One an agent, in their order, of dialogues that did not fail and turns in English."""
    by_agent: dict[str, list[LabelledTurn]] = {}
    for episode in drop_failed(episodes):
        by_agent.setdefault(episode.agent, []).extend(label_episode(episode))
    return [_analyse(agent, turns) for agent, turns in by_agent.items() if turns]


def label_episode(episode: Episode) -> Iterator[LabelledTurn]:
    """The turns of a dialogue that are English."""
    lines, before = [episode.opening], None
    for turn in episode.turns:
        used = label_turn(turn.utterance, lines)
        if used is not None:
            yield LabelledTurn(episode.persona, episode.need, used, turn.appraisal.change, before)
        lines.append(turn.reply)
        before = used


def _analyse(agent: str, turns: Sequence[LabelledTurn]) -> AgentStrategies:
    return AgentStrategies(
        agent,
        len(turns),
        _over_personas([(turn.persona, len(turn.used)) for turn in turns]),
        estimate_stickiness(turns),
        {strategy: _describe_use(strategy, turns) for strategy in STRATEGIES},
    )


def _describe_use(strategy: str, turns: Sequence[LabelledTurn]) -> StrategyUse:
    percent = [(turn.persona, turn.need, 100.0 * (strategy in turn.used)) for turn in turns]
    changes = [
        _means([(one.persona, one.change) for one in turns if (strategy in one.used) == is_used])
        for is_used in (True, False)
    ]
    used, unused = changes
    return StrategyUse(
        _over_personas([(persona, value) for persona, _, value in percent]),
        _means([(need, value) for _, need, value in percent]),
        *(bootstrap(np.array(list(means.values()))) for means in changes),
        bootstrap(np.array([used[one] - unused[one] for one in used if one in unused])),
    )


def estimate_stickiness(turns: Sequence[LabelledTurn]) -> Interval:
    """How probably a strategy is used again in the next turn: P(in turn t, given in turn t - 1),
    the mean over strategies that were used (arXiv:2604.11742, there of ten tactics).
    """
    people = list(dict.fromkeys(turn.persona for turn in turns))
    used_PS, again_PS = np.zeros((2, len(people), len(STRATEGIES)))
    for turn in turns:
        for number, strategy in enumerate(STRATEGIES):
            if turn.before and strategy in turn.before:
                used_PS[people.index(turn.persona), number] += 1
                again_PS[people.index(turn.persona), number] += strategy in turn.used
    if not used_PS.any():
        return Interval(float("nan"), float("nan"), float("nan"))
    draws = np.random.default_rng(0).multinomial(len(people), [1 / len(people)] * len(people), 4000)
    weight_NP = np.vstack([np.ones(len(people), int), draws])
    used_NS, again_NS = weight_NP @ used_PS, weight_NP @ again_PS
    rates = np.ma.masked_invalid(again_NS / np.where(used_NS, used_NS, np.nan)).mean(axis=1)
    low, high = np.percentile(rates[1:].compressed(), [2.5, 97.5])
    return Interval(float(rates[0]), float(low), float(high))


def _over_personas(values: Sequence[tuple[str, float]]) -> Interval:
    return bootstrap(np.array(list(_means(values).values())))


def _means(values: Sequence[tuple[str, float]]) -> dict[str, float]:
    groups: dict[str, list[float]] = {}
    for key, value in values:
        groups.setdefault(key, []).append(value)
    return {key: sum(group) / len(group) for key, group in sorted(groups.items())}


def _plain(value: Any) -> Any:
    if isinstance(value, Interval):
        return None if np.isnan(value.mean) else list(value)
    if isinstance(value, tuple):
        return _plain(value._asdict())  # pyright: ignore[reportAttributeAccessIssue]
    return {key: _plain(one) for key, one in value.items()} if isinstance(value, dict) else value
