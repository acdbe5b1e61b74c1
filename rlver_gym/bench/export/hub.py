"""A folder as the Hugging Face Hub and `datasets.load_dataset(folder)` read it: JSONL by split, and
a card that says what it is.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import isnan, nan
from statistics import fmean
from typing import Any

import yaml

from rlver_gym.agents import PRIVILEGED_AGENTS
from rlver_gym.bench.export.choose import Record
from rlver_gym.bench.export.files import CARD, MARK, jsonl
from rlver_gym.bench.export.rated import USER
from rlver_gym.bench.export.rows import Row
from rlver_gym.bench.score import drop_failed
from rlver_gym.core.persona import SPLITS
from rlver_gym.util.terminal import escape_markdown, one_line

_WHAT = {
    "dialogues": "a row a dialogue: `messages`",
    "replies": "a row a reply: `prompt` and `completion`",
    "pairs": (
        "a row for two replies at the same point: `prompt`, `chosen` (after which the person felt"
        " better) and `rejected`"
    ),
}
_METADATA = """\
`metadata` beside them tells agent, persona, hidden need, seed and split, and of each reply the change of emotion, the reward, the thought and the reasons.
"""


def hub_files(
    views: Mapping[str, Sequence[Row]], records: Sequence[Record], bare: bool = False
) -> dict[str, str]:
    """The files of the folder by their paths: one for each view and split of personas, and the
    card. Each view is a configuration, the first the default.

    Rows of personas whose split is not known go to "train", as `datasets` does with files that name
    none.
    """
    files: dict[str, str] = {}
    configs: list[dict[str, Any]] = []
    for view, rows in views.items():
        by_split: dict[str, list[Row]] = {}
        for row in rows:
            by_split.setdefault(row["metadata"].get("split", "train"), []).append(row)
        paths = {split: f"{view}/{split}.jsonl" for split in sorted(by_split, key=SPLITS.index)}
        files |= {path: jsonl(by_split[split], bare) for split, path in paths.items()}
        data_files = [{"split": split, "path": path} for split, path in paths.items()]
        configs.append(
            {
                "config_name": view,
                **({} if configs else {"default": True}),
                "data_files": data_files,
            }
        )
    return files | {CARD: _card(views, records, configs, "" if bare else _METADATA)}


def _card(
    views: Mapping[str, Sequence[Row]],
    records: Sequence[Record],
    configs: list[dict[str, Any]],
    metadata: str,
) -> str:
    head = {
        "pretty_name": one_line(
            "Dialogues with a sentient user"
            f" ({', '.join(dict.fromkeys(one.run for one in records))})"
        ),
        "language": ["en"],
        "task_categories": ["text-generation"],
        "tags": ["rlver-gym", "empathy", "conversational", "simulated-user"],
        "configs": configs,
    }
    users = dict.fromkeys(
        f"{one.episode.user} (version {one.episode.user_version})" for one in records
    )
    views_listed = "\n".join(
        f'- `load_dataset(folder, "{view}")`: {len(rows)} rows, {_WHAT[view]}'
        for view, rows in views.items()
    )
    return f"""---
{yaml.safe_dump(head, sort_keys=False, allow_unicode=True).strip()}
---
{MARK}

# Dialogues with a sentient user

Agents talking with simulated people, whose emotion (0 to 100) moves with every reply. Held and exported by rlver-gym; the user is {escape_markdown(", ".join(users))},
{_readers(records)}the environment {escape_markdown(", ".join(dict.fromkeys(one.episode.env for one in records)))}.

{views_listed}

{metadata}Splits are those of the personas: who trains on `train` may test on `test`.

| agent | dialogues | mean final emotion |
|---|---|---|
{_agents(records)}

The people are invented. {_describe_privileged(records)}The emotion is what a simulated user felt, not a measure of clinical care.
"""


def _agents(records: Sequence[Record]) -> str:
    counts = Counter(record.episode.agent for record in records)
    ended: dict[str, list[int]] = {name: [] for name in counts}
    for episode in drop_failed([record.episode for record in records]):
        ended[episode.agent].append(episode.final)
    means = {name: fmean(finals) if finals else nan for name, finals in ended.items()}
    return "\n".join(
        f"| {escape_markdown(name)} | {counts[name]} |"
        f" {'none ended' if isnan(means[name]) else f'{means[name]:.1f}'} |"
        for name in sorted(counts, key=lambda name: (isnan(means[name]), -means[name]))
    )


def _readers(records: Sequence[Record]) -> str:
    if all(record.episode.user != USER for record in records):
        return ""
    return (
        "(`readers`: replies written and rated by language models in roles; no human was asked), "
    )


def _describe_privileged(records: Sequence[Record]) -> str:
    told = [name for name in PRIVILEGED_AGENTS if any(one.episode.agent == name for one in records)]
    return (
        f"The agent {', '.join(told)} was told the hidden need and the person's card. "
        if told
        else ""
    )
