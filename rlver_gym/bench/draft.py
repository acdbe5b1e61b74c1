"""A suite's file to begin from: of what was just run, with where it stands as thresholds."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.resources import files
from math import floor
from typing import Any

from rlver_gym.bench.score import Score
from rlver_gym.bench.suite import Suite
from rlver_gym.environment.alarms import AnomalyReport


def draft_suite(suite: Suite, ranked: Sequence[Score], watched: AnomalyReport) -> str:
    """The file, with a comment on every field."""
    plain = suite.model_dump(mode="json", exclude_defaults=True) | {"env": suite.env}
    plain |= {"seeds": suite.seeds, "user_seeds": suite.user_seeds, "user": suite.user}
    plain |= {"thresholds": [*_list_thresholds(ranked, watched)]}
    lines = [f"{name}:{_format(value)}" for name, value in plain.items()]
    comments = (files("rlver_gym.bench") / "suite.txt").read_text(encoding="utf-8")
    return comments + "\n".join(lines) + "\n"


def _list_thresholds(ranked: Sequence[Score], watched: AnomalyReport) -> Iterator[dict[str, Any]]:
    """That means stay above where their intervals begin, and that counts do not rise."""
    for score in ranked:
        bound = {"agent": score.agent, "measure": "mean"}
        bound |= {"at_least": floor((score.read or score.at_worst).low)}
        yield bound | ({"by_reference": True} if score.read else {})
    flagged = Counter(one.agent for one in watched.alarms if not one.expected)
    yield {"measure": "failed", "at_most": max(one.failed for one in ranked)}
    yield {"measure": "flagged", "at_most": max(flagged.values(), default=0)}


def _format(value: Any) -> str:
    """As JSON, which is YAML; a list has a line for each of its values."""
    if isinstance(value, list):
        return "".join(f"\n  - {json.dumps(one, ensure_ascii=False)}" for one in value)
    return f" {json.dumps(value, ensure_ascii=False)}"
