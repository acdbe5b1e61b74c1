"""The checks of fidelity: how a simulated user's judgements agree with recorded ones.

Numbers only; numpy.
"""

import re
import zlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rlver_gym.audit.replay import ReplayedDialogue, ReplayedTurn, Swap
from rlver_gym.io.correlation import correlation, correlation_within, spearman
from rlver_gym.users.embedded.features import extract_surface_features

RESAMPLES = 300
_TEXT_COLUMNS = 256
_TEXT_RIDGE = 30.0


class Check(NamedTuple):
    """One figure with its 95 % interval (bootstrap over personas, or over splits of agents where it
    says so).
    """

    name: str
    value: float
    low: float
    high: float
    what: str


class Summary(NamedTuple):
    """Agreement in a few figures, without intervals; correlations are Pearson's r, from -1 to 1."""

    turns: int
    within_r: float
    """Of changes, each person's mean taken out: agreement about replies to one person."""
    within_agent_r: float
    """Of changes, each agent's mean taken out."""
    turn1_r: float
    """Of changes at the first turn, each person's mean taken out."""
    agents_rho: float
    """Spearman correlation of agents' mean final emotions."""
    sign: float
    """Share of turns that both find good, or both do not."""
    gap: float | None
    """The agent `expert` above the agent `adaptive`, in points of mean final emotion; None when one
    is missing.
    """
    agents: dict[str, tuple[float, float]]
    """Mean final emotion of each agent: replayed, recorded."""


def summarize(replayed: Sequence[ReplayedDialogue]) -> Summary:
    """The figures that compare one user with another at a glance."""
    turns = [(one, dialogue.recording.agent) for dialogue in replayed for one in dialogue.turns]
    own, recorded, persona = _columns([one for one, _ in turns])
    first = np.array([one.rated.turn == 0 for one, _ in turns])
    agent = np.array([name for _, name in turns])
    agents = agent_means(replayed)
    finals = np.array(list(agents.values()))
    gap = (
        agents["expert"][0] - agents["adaptive"][0]
        if {"expert", "adaptive"} <= agents.keys()
        else None
    )
    return Summary(
        turns=len(turns),
        within_r=round(correlation_within(own, recorded, persona), 3),
        within_agent_r=round(correlation_within(own, recorded, agent), 3),
        turn1_r=round(correlation_within(own[first], recorded[first], persona[first]), 3),
        agents_rho=round(spearman(finals[:, 0], finals[:, 1]), 3),
        sign=round(float(((own > 0) == (recorded > 0)).mean()), 3),
        gap=gap if gap is None else round(gap, 1),
        agents={name: (round(a, 1), round(b, 1)) for name, (a, b) in agents.items()},
    )


def auc(swaps: Sequence[Swap]) -> float:
    """How often the utterance meant for this person brings more than the one meant for somebody
    else; equal counts half.
    """
    own, others = np.array([one.own for one in swaps]), np.array([one.others for one in swaps])
    return float(((own > others) + 0.5 * (own == others)).mean())


def turn_checks(replayed: Sequence[ReplayedDialogue]) -> list[Check]:
    """Single turns: turn 1 within persona, and all turns after state and user message."""
    turns = [one for dialogue in replayed for one in dialogue.turns]
    first = [one for one in turns if one.rated.turn == 0]
    own, recorded, persona = _columns(first)
    checks = [
        _bootstrap_check(
            "turn-1 r within persona",
            lambda rows: correlation_within(own[rows], recorded[rows], persona[rows]),
            persona,
            "the cleanest check: all agents answer the same first message",
        )
    ]
    own, recorded, persona = _columns(turns)
    controls = _controls(turns)
    own, recorded = _residual(controls, own), _residual(controls, recorded)
    what = "what the reply adds to the judge's state and the user's message"
    return [
        *checks,
        _bootstrap_check(
            "partial r", lambda rows: correlation(own[rows], recorded[rows]), persona, what
        ),
    ]


def dialogue_checks(replayed: Sequence[ReplayedDialogue]) -> list[Check]:
    """Whole dialogues: final emotion within persona, agents' means, success and failure."""
    own = np.array([one.final for one in replayed], float)
    recorded = np.array([one.recording.final for one in replayed], float)
    persona = np.array([one.recording.persona.id for one in replayed])
    agent = np.array([one.recording.agent for one in replayed])
    checks = [
        _bootstrap_check(
            "dialogue r within persona",
            lambda rows: correlation_within(own[rows], recorded[rows], persona[rows]),
            persona,
            "final emotions, personas' means taken out",
        )
    ]
    if len(set(agent)) >= 3:

        def means(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return _means(own[rows], agent[rows]), _means(recorded[rows], agent[rows])

        checks += [
            _bootstrap_check(
                "agent means, Pearson r",
                lambda rows: correlation(*means(rows)),
                persona,
                "leaderboard against leaderboard",
            ),
            _bootstrap_check(
                "agent means, Spearman r",
                lambda rows: spearman(*means(rows)),
                persona,
                "their order; agents few points apart cannot be told apart",
            ),
        ]
    for name, level in (("content", lambda v: v >= 100), ("left", lambda v: v < 10)):
        checks.append(
            _bootstrap_check(
                f"{name}, % (recorded {100 * level(recorded).mean():.0f})",
                lambda rows, level=level: 100 * level(own[rows]).mean(),
                persona,
                "share of dialogues that end so",
            )
        )
    return checks


def swap_check(swaps: Sequence[Swap]) -> Check:
    """Whether a reply meant for somebody else is worth less."""
    rows = np.arange(len(swaps))
    return _bootstrap_check(
        "swapped-reply AUC",
        lambda chosen: auc([swaps[row] for row in chosen]),
        rows // 8,
        "own reply against one to somebody else",
    )


def agent_means(replayed: Sequence[ReplayedDialogue]) -> dict[str, tuple[float, float]]:
    """Of each agent the mean final emotion: replayed, recorded."""
    agent = np.array([one.recording.agent for one in replayed])
    pairs = np.array([(one.final, one.recording.final) for one in replayed], float)
    return {str(name): tuple(pairs[agent == name].mean(axis=0)) for name in np.unique(agent)}  # pyright: ignore


def group_table(
    replayed: Sequence[ReplayedDialogue], key: Callable[[ReplayedDialogue], str]
) -> list[tuple[str, int, float, float, float]]:
    """By need or disposition: dialogues, mean replayed, mean recorded, r of final emotions."""
    groups: dict[str, list[ReplayedDialogue]] = {}
    for one in replayed:
        groups.setdefault(key(one), []).append(one)
    rows = []
    for name, members in sorted(groups.items()):
        own, recorded = (
            np.array(side, float)
            for side in zip(*((one.final, one.recording.final) for one in members), strict=True)
        )
        rows.append(
            (
                name,
                len(members),
                float(own.mean()),
                float(recorded.mean()),
                correlation(own, recorded),
            )
        )
    return rows


def _columns(turns: Sequence[ReplayedTurn]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    own = np.array([one.change for one in turns], float)
    return (
        own,
        np.array([one.rated.change for one in turns], float),
        np.array([one.rated.persona.id for one in turns]),
    )


def _means(values: np.ndarray, agent: np.ndarray) -> np.ndarray:
    return np.array([values[agent == name].mean() for name in np.unique(agent)])


def _bootstrap_check(
    name: str, figure: Callable[[np.ndarray], float], group: np.ndarray, what: str
) -> Check:
    """The figure on all rows, with the 2.5th and 97.5th percentile over resampled groups."""
    rng = np.random.default_rng(0)
    _, number = np.unique(group, return_inverse=True)
    members = [np.flatnonzero(number == one) for one in range(number.max() + 1)]
    found = [
        figure(
            np.concatenate([members[one] for one in rng.integers(0, len(members), len(members))])
        )
        for _ in range(RESAMPLES)
    ]
    low, high = np.percentile(found, (2.5, 97.5))
    return Check(name, figure(np.arange(len(group))), float(low), float(high), what)


def _controls(turns: Sequence[ReplayedTurn]) -> np.ndarray:
    """State before the turn, and the user's last message by length, acts and hashed pairs of
    characters or words.
    """
    rows = []
    for one in turns:
        rated = one.rated
        level = rated.emotion / 100
        line = rated.dialogue.user_lines[-1]
        listened = extract_surface_features(line, rated.persona.language)
        state = (
            1.0,
            level,
            level**2,
            rated.previous / 10,
            min(rated.turn, 8) / 8,
            float(rated.turn == 0),
        )
        text = np.zeros(_TEXT_COLUMNS)
        for piece in _pieces(line):
            text[zlib.crc32(piece.encode()) % _TEXT_COLUMNS] += 1
        rows.append(
            (
                *state,
                listened.length / 100,
                listened.questions,
                listened.exclamations,
                *np.sqrt(text),
            )
        )
    return np.array(rows)


def _pieces(line: str) -> list[str]:
    tokens = re.findall(r"[\u3400-\u9fff]|[a-z']+", line.lower())
    return ["".join(pair) for pair in pairwise(tokens)]


def _residual(controls: np.ndarray, values: np.ndarray) -> np.ndarray:
    """What a ridge regression on the controls leaves; the state is not shrunk."""
    penalty = np.full(controls.shape[1], _TEXT_RIDGE)
    penalty[:9] = 1e-3
    weights = np.linalg.solve(controls.T @ controls + np.diag(penalty), controls.T @ values)
    return values - controls @ weights
