"""From judged utterances to a weights file.

The one recipe of the shipped weights and of anybody's own.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlver_gym.data.design import Design, build_design
from rlver_gym.data.dynamics import fit_preset
from rlver_gym.data.fit import RIDGE, fit, fit_relevance
from rlver_gym.data.recordings import RatedUtterance
from rlver_gym.io.errors import RecordingError
from rlver_gym.users.embedded.appraise import reasons_for
from rlver_gym.users.embedded.weights import MAX_PRESETS, Weights

RECIPE = "2026-11-21"
"""When the features and this recipe were last changed. Recipe and data determine the file, byte
for byte.
"""
MANY_AGENTS = 3
"""A simulator that judged fewer agents is left out when there are others: what is it, and what is
the agent?
"""
FEW = 40
_EVERY = 3
"""`rescale_presets` looks at every third utterance: enough for a mean."""


def fit_weights(
    judged: Sequence[RatedUtterance],
    *,
    ridge: float = RIDGE,
    data: Mapping[str, Any] | None = None,
    table: Design | None = None,
) -> Weights:
    """Weights fitted to all that was judged; RecordingError when it is too little or mixed.

    `data` is recorded in the provenance: what was read, by hash. `table`: the design of these rows,
    if it is known already.
    """
    languages = sorted({one.persona.language for one in judged})
    if len(languages) > 1:
        raise RecordingError(
            f"the dialogues are in {' and '.join(languages)}: calibrate one language at a time."
        )
    kept = select_rows(judged)
    judged, table = (
        [judged[row] for row in kept],
        table.rows(kept) if table else build_design([judged[row] for row in kept]),
    )
    found = fit(table, ridge)
    simulators = sorted({one.simulator for one in judged})
    presets = {
        name: fit_preset(
            _about(name, judged),
            table,
            found.worth_B,
            np.array([one.simulator == name for one in judged]),
        )
        for name in simulators
    }
    counts = Counter(one.simulator for one in judged)
    weights = Weights(
        language=languages[0],  # pyright: ignore[reportArgumentType]
        provenance={
            "recipe": RECIPE,
            "ridge": ridge,
            "judged utterances": len(judged),
            "agents": sorted({one.agent for one in judged}),
            "people": sorted({shorten_id(one.persona.id) for one in judged}),
            **(data or {}),
        },
        default=max(simulators, key=lambda name: (counts[name], name)),
        presets=presets,
        relevance=fit_relevance(table),
        features=found.features,
    )
    return rescale_presets(rescale_presets(weights, judged), judged)


def rescale_presets(weights: Weights, judged: Sequence[RatedUtterance]) -> Weights:
    """The weights with bases moved so that gated, clipped changes have the recorded mean."""
    presets = {}
    for name, one in weights.presets.items():
        rows = [row for row in judged if row.simulator == name][::_EVERY]
        felt = [reasons_for(weights, one, row.persona, 40, row.dialogue) for row in rows]
        pull = one.pull * sum(row.emotion - 40 for row in rows) / 20 / len(rows)
        missing = (
            one.mean
            - pull
            - sum(reason.points for reasons in felt for reason in reasons) / len(rows)
        )
        presets[name] = one.model_copy(update={"base": round(one.base + missing, 3)})
    return weights.model_copy(update={"presets": presets})


def shorten_id(persona_id: str) -> str:
    """How the provenance names a person."""
    return persona_id[:8]


def select_rows(judged: Sequence[RatedUtterance]) -> list[int]:
    """The rows that can be fitted: simulators with several agents if there are any; RecordingError
    when that is too little.
    """
    agents: dict[str, set[str]] = {}
    for one in judged:
        agents.setdefault(one.simulator, set()).add(one.agent)
    if len(agents) > MAX_PRESETS:
        raise RecordingError(
            f"{len(agents):,} raters are too many: each would be a preset. Give raters of one kind"
            " one name."
        )
    many = {name for name, known in agents.items() if len(known) >= MANY_AGENTS}
    kept = [row for row, one in enumerate(judged) if not many or one.simulator in many]
    if len(kept) < FEW or np.var([judged[row].change for row in kept]) == 0:
        raise RecordingError(
            f"{len(kept)} judged utterances are too few, or all the same: give at least {FEW} that"
            " differ."
        )
    return kept


def _about(name: str, judged: Sequence[RatedUtterance]) -> str:
    rows = [one for one in judged if one.simulator == name]
    return f"{name}: {len(rows)} utterances of {len({one.agent for one in rows})} agents"
