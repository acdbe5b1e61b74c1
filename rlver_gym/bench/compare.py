"""Run folders side by side: which agents met the same people under the same protocol, and so may
stand in one table.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rlver_gym.bench.folder import Edits, check_episodes_file
from rlver_gym.bench.manifest import Manifest
from rlver_gym.environment.episode import Episode
from rlver_gym.io.errors import RunError
from rlver_gym.io.terminal import format_count, one_line


class Protocol(NamedTuple):
    """What has to be equal before a rank means anything: how long and how readily, felt by whom,
    with which people, how often.
    """

    env: str
    env_hash: str
    user: str
    user_version: str
    personas: frozenset[tuple[str, str]]
    """Ids with content hashes."""
    seeds: int
    user_seeds: int

    def __str__(self) -> str:
        """For a title."""
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
    """What the runs are called: by their folders."""
    manifests: tuple[Manifest, ...]
    episodes: list[Episode]
    """An agent that is in several runs has the run's name behind its own."""
    episodes_by_run: tuple[list[Episode], ...]
    """The same, every agent under its own name."""
    edits: tuple[Edits, ...] = ()
    """Of the runs whose file was edited."""


def read_comparisons(folders: Sequence[Path]) -> list[Comparison]:
    """The runs in these folders, those of equal protocol together, in order.

    RunError for a folder that is no run or is given twice, or when there is no episode in any.
    """
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise RunError("a run folder is given twice. Name each once.")
    checked = [check_episodes_file(folder) for folder in folders]
    runs = [one.episodes for one in checked]
    if not any(runs):
        raise RunError(
            f"there are no episodes in {', '.join(map(str, folders))}. Run: rlver-gym bench"
        )
    manifests = [Manifest.read(folder) for folder in folders]
    labels = _labels(folders)
    named = _with_run_names(labels, runs)
    groups: dict[Protocol, list[int]] = {}
    for at, manifest in enumerate(manifests):
        if runs[at]:
            groups.setdefault(_protocol(manifest), []).append(at)
    return [
        Comparison(
            protocol,
            tuple(labels[at] for at in members),
            tuple(manifests[at] for at in members),
            [episode for at in members for episode in named[at]],
            tuple(runs[at] for at in members),
            tuple(checked[at].edits for at in members if checked[at].edits.lines),
        )
        for protocol, members in groups.items()
    ]


def _protocol(manifest: Manifest) -> Protocol:
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
    """How many dialogues with each persona, for a title."""
    return format_count(seeds, "seed") + (f" x {user_seeds} user seeds" if user_seeds > 1 else "")


def _labels(folders: Sequence[Path]) -> list[str]:
    """The folders' names, or their whole paths where names are alike."""
    names = [folder.resolve().name for folder in folders]
    return [
        str(folder) if names.count(name) > 1 else name
        for folder, name in zip(folders, names, strict=True)
    ]


def _with_run_names(labels: Sequence[str], runs: Sequence[list[Episode]]) -> list[list[Episode]]:
    agents = [{episode.agent for episode in episodes} for episodes in runs]
    shared = {
        agent
        for names in agents
        for agent in names
        if sum(agent in others for others in agents) > 1
    }
    return [
        [
            one._replace(agent=f"{one.agent} ({label})") if one.agent in shared else one
            for one in episodes
        ]
        for label, episodes in zip(labels, runs, strict=True)
    ]
