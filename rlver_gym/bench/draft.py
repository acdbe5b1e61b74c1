"""A suite's file to begin from: of what was just run, with where it stands as thresholds."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from math import floor
from textwrap import fill
from typing import Any

from rlver_gym.bench.score import Score
from rlver_gym.bench.suite import Suite, Threshold
from rlver_gym.environment.alarms import AnomalyReport

_EXITS = (
    "Exit code 0: no threshold fails; one may be undecided, where its bound lies within the"
    " interval or the noise (`lower` in place of `mean` fails there). 5: one fails. 4: dialogues"
    " failed, and no threshold on `failed` says how many may. 3: a server was out. 2: not possible"
    " as asked. Paths are as seen from where the command is started."
)


def describe_fields() -> dict[str, str]:
    below = {f"thresholds.{name}": field for name, field in Threshold.model_fields.items()}
    fields = {**Suite.model_fields, **below}
    return {name: " ".join((field.description or "").split()) for name, field in fields.items()}


def draft_suite(suite: Suite, command: str, ranked: Sequence[Score], watched: AnomalyReport) -> str:
    """The file, with a comment on every field; `command` runs it."""
    plain = suite.model_dump(mode="json", exclude_defaults=True) | {"env": suite.env}
    plain |= {"seeds": suite.seeds, "user_seeds": suite.user_seeds, "user": suite.user}
    thresholds = [*_list_thresholds(ranked, watched)]
    plain |= {"thresholds": thresholds}
    told = [f"A suite of rlver-gym: one file, one gate. Run it with: {command}", _EXITS]
    told += [f"{name}: {text}" for name, text in describe_fields().items()]
    comments = [
        fill(line, 100, initial_indent="# ", subsequent_indent="#   ", break_on_hyphens=False)
        for line in told
    ]
    lines = [f"{name}:{_format(value)}" for name, value in plain.items()]
    if thresholds[-1]["at_most"]:
        lines[-1] += "  # flagged now: look why, mend it, write 0"
    return "\n".join([*comments, "", *lines, ""])


def _list_thresholds(ranked: Sequence[Score], watched: AnomalyReport) -> Iterator[dict[str, Any]]:
    """Bounds at which a run like this one holds."""
    by = {True: {"by_reference": True}, False: {}}
    for score in ranked:
        low = floor((score.read or score.at_worst).low)
        mean = {"agent": score.agent, "measure": "mean", "at_least": low}
        yield mean | by[score.read is not None]
    best = next(score for score in ranked if not score.to_best)
    second = next((score for score in ranked if score.to_best), best)
    is_read = second.read is not None
    # what failed counts for whom others are compared with in the table, and not in the gate
    if second.to_best and not best.failed and is_read == (best.read is not None):
        bound = {"agent": second.agent, "measure": "difference", "to": best.agent}
        yield bound | {"at_least": floor(second.to_best.low)} | by[is_read]
    flagged = Counter(alarm.agent for alarm in watched.alarms if not alarm.expected)
    yield {"measure": "failed", "at_most": max(score.failed for score in ranked)}
    yield {"measure": "flagged", "at_most": max(flagged.values(), default=0)}


def _format(value: Any) -> str:
    """As JSON, which is YAML; a list has a line for each of its values."""
    if isinstance(value, list):
        return "".join(f"\n  - {json.dumps(item, ensure_ascii=False)}" for item in value)
    return f" {json.dumps(value, ensure_ascii=False)}"
