"""Run folders side by side: which agents may stand in one table, by equal protocols."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rlver_gym.bench.check import Problems, read_run
from rlver_gym.bench.folder import read_episode_lines
from rlver_gym.bench.manifest import Manifest
from rlver_gym.bench.plan import Planned
from rlver_gym.bench.score import Score, score_agents
from rlver_gym.environment.episode import Episode
from rlver_gym.util.errors import RunError
from rlver_gym.util.terminal import format_count, one_line


class Protocol(NamedTuple):
    """What has to be equal before a rank means anything: card, user, people, and how often."""

    env: str
    env_hash: str
    user: str
    user_version: str
    personas: frozenset[tuple[str, str]]
    """Ids with content hashes."""
    seeds: int
    user_seeds: int

    def __str__(self) -> str:
        card = f"{self.env} (card {self.env_hash[:8]})"
        text = (
            f"{card}, {self.user} user, version {self.user_version},"
            f" {format_count(len(self.personas), 'person', 'people')} x"
            f" {format_seeds(self.seeds, self.user_seeds)}"
        )
        return one_line(text, max_chars=200)


class Comparison(NamedTuple):
    """The dialogues of all runs of one protocol."""

    protocol: Protocol
    runs: tuple[str, ...]
    manifests: tuple[Manifest, ...]
    episodes: list[Episode]
    """An agent that is in several runs has the run's name behind its own."""
    episodes_by_run: tuple[list[Episode], ...]
    """The same, every agent under its own name."""
    planned: Planned
    """The dialogues of the plans of all runs, agents under the names they have here."""
    problems: tuple[Problems, ...] = ()
    """Of each run, what in it is not as a run of its plan writes it."""

    def score(self) -> list[Score]:
        return score_agents(self.episodes, self.planned)


def read_comparisons(folders: Sequence[Path]) -> list[Comparison]:
    """The runs in order, by protocol. RunError for no run, one twice, or no episode at all."""
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise RunError("a run folder is given twice. Name each once.")
    if not any(line for folder in folders for _, line in read_episode_lines(folder)):
        places = ", ".join(map(str, folders))
        raise RunError(f"there are no episodes in {places}. Run: rlver-gym bench")
    manifests = [Manifest.read(folder) for folder in folders]
    checked = [read_run(folder) for folder in folders]
    runs = [run.episodes for run in checked]
    labels = label_runs(folders)
    names = _name_agents(labels, [manifest.planned.agents for manifest in manifests])
    named = [
        [episode._replace(agent=own[episode.agent]) for episode in episodes]
        for own, episodes in zip(names, runs, strict=True)
    ]
    groups: dict[Protocol, list[int]] = {}
    for at, manifest in enumerate(manifests):
        if checked[at].problems.total:
            groups.setdefault(make_protocol(manifest), []).append(at)
    return [
        Comparison(
            protocol,
            tuple(labels[at] for at in members),
            tuple(manifests[at] for at in members),
            [episode for at in members for episode in named[at]],
            tuple(runs[at] for at in members),
            replace(
                manifests[members[0]].planned,
                agents=tuple(name for at in members for name in names[at].values()),
            ),
            tuple(checked[at].problems for at in members),
        )
        for protocol, members in groups.items()
    ]


def make_protocol(manifest: Manifest) -> Protocol:
    user, people = manifest.user, frozenset(manifest.personas.items())
    return Protocol(
        manifest.env_card.id,
        manifest.env_hash,
        user.kind,
        user.version,
        people,
        manifest.plan.seeds,
        manifest.plan.user_seeds,
    )


def format_seeds(seeds: int, user_seeds: int) -> str:
    return format_count(seeds, "seed") + (f" x {user_seeds} user seeds" if user_seeds > 1 else "")


def label_runs(folders: Sequence[Path]) -> list[str]:
    """The folders' names, or their whole paths where names are alike."""
    names = [folder.resolve().name for folder in folders]
    return [
        str(folder) if names.count(name) > 1 else name
        for folder, name in zip(folders, names, strict=True)
    ]


def _name_agents(labels: Sequence[str], agents: Sequence[Sequence[str]]) -> list[dict[str, str]]:
    """By run, what each of its agents is called: with the run behind it when others have it too."""
    count = Counter(name for names in agents for name in names)
    return [
        {name: f"{name} ({label})" if count[name] > 1 else name for name in names}
        for label, names in zip(labels, agents, strict=True)
    ]
