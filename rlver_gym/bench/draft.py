"""A suite's file to begin from: of what was just run, with where it stands as thresholds."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from math import floor
from pathlib import Path
from string import Template
from typing import Any

from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.score import Score
from rlver_gym.environment.alarms import AnomalyReport


def draft_suite(
    plan: BenchPlan,
    file: Path,
    reference: Sequence[str],
    ranked: Sequence[Score],
    watched: AnomalyReport,
) -> str:
    """`reference`: who has read the dialogues again; nobody, or one."""
    flagged = Counter(one.agent for one in watched.alarms if not one.expected)
    budget = plan.chat.budget.model_dump(exclude_none=True)
    fields = {name: _quote(getattr(plan, name)) for name in "env seeds user_seeds user".split()}
    some = {name: getattr(plan, name) for name in ("split", "personas", "persona_ids")}
    options = {name: plan.to_dict()[name] for name in ("user_options", "agent_options")}
    thresholds = [*map(_bind_mean, ranked)]
    for measure, most in (
        ("failed", max(one.failed for one in ranked)),
        ("flagged", max(flagged.values(), default=0)),
    ):
        thresholds.append({"measure": measure, "at_most": most})
    return Template((files("rlver_gym.bench") / "suite.txt").read_text("utf-8")).substitute(
        fields,
        file=file,
        agents="".join(f"\n  - {_quote(agent)}" for agent in plan.agents),
        people=_list_fields(some) or "# split: test",
        options=_list_fields(options) or "# user_options, agent_options: such as {temperature: 0}",
        reference=_list_fields({"reference": "".join(reference)}) or "# reference: openai:MODEL",
        budget=_list_fields({"budget": budget}) or "# budget: {calls: 500}",
        thresholds="\n".join(f"  - {_quote(one)}" for one in thresholds),
    )


def _bind_mean(score: Score) -> dict[str, Any]:
    """That the mean stays above where its interval now begins."""
    final = score.read or score.at_worst
    bound = {"agent": score.agent, "measure": "mean", "at_least": floor(final.low)}
    return bound | ({"by_reference": True} if score.read else {})


def _list_fields(fields: Mapping[str, Any]) -> str:
    return "\n".join(f"{name}: {_quote(value)}" for name, value in fields.items() if value)


def _quote(value: Any) -> str:
    """As JSON, which is YAML."""
    return json.dumps(value, ensure_ascii=False)
