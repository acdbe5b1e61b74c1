"""A folder as the Hugging Face Hub and `datasets.load_dataset(folder)` read it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from string import Template
from typing import Any

import yaml

from rlver_gym.agents import PRIVILEGED_AGENTS
from rlver_gym.bench.export.files import CARD, MARK, format_jsonl
from rlver_gym.bench.export.rated_corpus import USER
from rlver_gym.bench.export.rows import Row
from rlver_gym.bench.export.select_dialogues import Record
from rlver_gym.bench.score import drop_failed
from rlver_gym.core.persona import SPLITS
from rlver_gym.environment.episode import Episode
from rlver_gym.util.groups import group, mean_by
from rlver_gym.util.terminal import escape_markdown, one_line

_WHAT = {
    "dialogues": "a row a dialogue: `messages`",
    "replies": "a row a reply: `prompt` and `completion`",
    "pairs": "a row for two replies at the same point: `prompt`, `chosen` (after which the person felt"
    " better) and `rejected`",
}
_METADATA = (
    "`metadata` beside them tells agent, persona, hidden need, seed and split, and of each reply the"
    " change of emotion, the reward, the thought and the reasons.\n"
)
_READERS = (
    "(`readers`: replies written and rated by language models in roles; no human was asked), "
)


def build_hub_files(
    views: Mapping[str, Sequence[Row]], records: Sequence[Record], bare: bool = False
) -> dict[str, str]:
    """The files of the folder by their paths: one for each view and split of personas, and the
    card. Each view is a configuration, the first the default.

    Rows of personas whose split is not known go to "train", as `datasets` does with files that name
    none.
    """
    texts: dict[str, str] = {}
    configs: list[dict[str, Any]] = []
    for view, rows in views.items():
        by_split = group((row["metadata"].get("split", "train"), row) for row in rows)
        paths = {split: f"{view}/{split}.jsonl" for split in sorted(by_split, key=SPLITS.index)}
        texts |= {path: format_jsonl(by_split[split], bare) for split, path in paths.items()}
        data_files = [{"split": split, "path": path} for split, path in paths.items()]
        default = {} if configs else {"default": True}
        configs.append({"config_name": view, **default, "data_files": data_files})
    return texts | {CARD: _render_dataset_card(views, records, configs, "" if bare else _METADATA)}


def _render_dataset_card(
    views: Mapping[str, Sequence[Row]],
    records: Sequence[Record],
    configs: list[dict[str, Any]],
    metadata: str,
) -> str:
    runs = ", ".join(dict.fromkeys(record.run for record in records))
    episodes = [record.episode for record in records]
    head = {
        "pretty_name": one_line(f"Dialogues with a sentient user ({runs})"),
        "language": ["en"],
        "task_categories": ["text-generation"],
        "tags": ["rlver-gym", "empathy", "conversational", "simulated-user"],
        "configs": configs,
    }
    users = dict.fromkeys(
        f"{episode.user} (version {episode.user_version})" for episode in episodes
    )
    agents = {episode.agent for episode in episodes}
    told = ", ".join(name for name in PRIVILEGED_AGENTS if name in agents)
    template = files("rlver_gym.bench.export").joinpath("card.md").read_text(encoding="utf-8")
    return Template(template).substitute(
        head=yaml.safe_dump(head, sort_keys=False, allow_unicode=True).strip(),
        mark=MARK,
        users=escape_markdown(", ".join(users)),
        readers=_READERS if any(episode.user == USER for episode in episodes) else "",
        envs=escape_markdown(", ".join(dict.fromkeys(episode.env for episode in episodes))),
        views="\n".join(
            f'- `load_dataset(folder, "{view}")`: {len(rows)} rows, {_WHAT[view]}'
            for view, rows in views.items()
        ),
        metadata=metadata,
        agents=_describe_agents(episodes),
        privileged=f"The agent {told} was told the hidden need and the person's card. "
        * bool(told),
    )


def _describe_agents(episodes: Sequence[Episode]) -> str:
    counts = Counter(episode.agent for episode in episodes)
    means = mean_by((episode.agent, episode.final) for episode in drop_failed(episodes))
    return "\n".join(
        f"| {escape_markdown(name)} | {counts[name]} |"
        f" {f'{means[name]:.1f}' if name in means else 'none ended'} |"
        for name in sorted(counts, key=lambda name: -means.get(name, -1))
    )
