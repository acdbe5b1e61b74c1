"""The design matrix of calibration: one row a judged utterance, one column a feature (or a feature
for one need). Numpy only.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rlver_gym.core.persona import HiddenNeed
from rlver_gym.data.recordings import RatedUtterance
from rlver_gym.io.errors import RecordingError
from rlver_gym.users.embedded.features import (
    build_context,
    compute_features,
    compute_nearness,
    extract_surface_features,
)
from rlver_gym.users.embedded.weights import NEARNESS

FOR_ANYONE = frozenset(
    {
        "length",
        "far_over",
        "under",
        "many_questions",
        "first_person",
        "overlap",
        "repetition",
        "exclamations",
    }
)
"""Features whose worth does not depend on the need: form, and the relation to what was said."""
MAX_CELLS = 40_000_000
"""Of all columns, those of people included: a few copies of them take gigabytes."""
NEED_SCALE = 0.4
"""Columns for one need are so much shorter than those for anyone: the same penalty then draws them
harder to 0.
"""


class Design(NamedTuple):
    """B judged utterances, K columns."""

    columns: tuple[tuple[str, HiddenNeed | None], ...]
    """Of each column the feature, and the need it is for (None: anyone)."""
    x_BK: np.ndarray
    change_B: np.ndarray
    """Recorded changes, in points."""
    state_BS: np.ndarray
    """The judge's state before: emotion, its square, last change, turn, whether it is the first."""
    persona_B: np.ndarray
    """Number of the persona."""
    simulator_B: np.ndarray
    """Number of the simulator."""
    disposition_B: np.ndarray
    near_BN: np.ndarray
    """`features.nearness` of each utterance."""
    strange_BN: np.ndarray
    """The same of an utterance of the same agent at the same turn to somebody else, in its place;
    NaN where there is none.
    """

    def rows(self, kept: Sequence[int]) -> "Design":
        """Some of the rows. Columns stay, also those that become empty."""
        at = np.array(kept, int)
        return Design(self.columns, *(table[at] for table in self[1:]))


def names_of(found: Sequence[dict[str, float]]) -> tuple[str, ...]:
    """All features that occur, sorted."""
    return tuple(sorted({name for one in found for name in one}))


def build_design(judged: Sequence[RatedUtterance]) -> Design:
    """Rows in the order given."""
    surface = [
        extract_surface_features(one.dialogue.utterance or "", one.persona.language)
        for one in judged
    ]
    contexts = [build_context(one.persona, one.dialogue) for one in judged]
    found = [compute_features(*pair) for pair in zip(surface, contexts, strict=True)]
    strangers = pair_strangers(judged)
    columns = _columns(names_of(found))
    place = {column: number for number, column in enumerate(columns)}
    people = len({one.persona.id for one in judged})
    if len(judged) * (len(columns) + people) > MAX_CELLS:
        raise RecordingError(
            f"{len(judged):,} judged utterances with {people:,} people are too much to fit at once."
            " Give a part of them."
        )
    x_BK = np.zeros((len(judged), len(columns)))
    for row, (one, values) in enumerate(zip(judged, found, strict=True)):
        for name, value in values.items():
            x_BK[row, place[name, None]] = value
            if name not in FOR_ANYONE:
                x_BK[row, place[name, one.persona.need]] = NEED_SCALE * value
    return Design(
        columns=columns,
        x_BK=x_BK,
        change_B=np.array([one.change for one in judged], float),
        state_BS=np.array([_state(one) for one in judged]),
        persona_B=_encode_ids([one.persona.id for one in judged]),
        simulator_B=_encode_ids([one.simulator for one in judged]),
        disposition_B=np.array([one.persona.person.disposition for one in judged]),
        near_BN=np.array([compute_nearness(*pair) for pair in zip(surface, contexts, strict=True)]),
        strange_BN=np.array(
            [
                (
                    compute_nearness(surface[other], context)
                    if other is not None
                    else [np.nan] * len(NEARNESS)
                )
                for other, context in zip(strangers, contexts, strict=True)
            ]
        ),
    )


def pair_strangers(judged: Sequence[RatedUtterance]) -> list[int | None]:
    """For each row another: what the same agent said at the same turn to the next person in the
    order of ids. None where there is nobody.
    """
    groups: dict[tuple[str, str, int], list[int]] = {}
    for row, one in enumerate(judged):
        groups.setdefault((one.simulator, one.agent, one.turn), []).append(row)
    found: list[int | None] = [None] * len(judged)
    for rows in groups.values():
        rows.sort(key=lambda row: judged[row].persona.id)
        ids = [judged[row].persona.id for row in rows]
        for row, own in zip(rows, ids, strict=True):
            behind = bisect_right(ids, own)
            if behind < len(ids) or ids[0] != own:
                found[row] = rows[behind % len(ids)]
    return found


def _columns(names: tuple[str, ...]) -> tuple[tuple[str, HiddenNeed | None], ...]:
    anyone = [(name, None) for name in names]
    return (
        *anyone,
        *((name, need) for name in names if name not in FOR_ANYONE for need in HiddenNeed),
    )


def _state(one: RatedUtterance) -> tuple[float, ...]:
    level = one.emotion / 100
    return level, level**2, one.previous / 10, min(one.turn, 8) / 8, float(one.turn == 0)


def _encode_ids(names: Sequence[str]) -> np.ndarray:
    order = {name: number for number, name in enumerate(sorted(set(names)))}
    return np.array([order[name] for name in names])
