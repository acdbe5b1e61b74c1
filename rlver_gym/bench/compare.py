"""Run folders side by side: which agents may stand in one table, by equal protocols."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rlver_gym.bench.check import Problems, read_run
from rlver_gym.bench.folder import read_episode_lines
from rlver_gym.bench.manifest import Manifest
from rlver_gym.bench.score import Score, score_agents
from rlver_gym.environment.episode import Episode
from rlver_gym.util.errors import RunError
from rlver_gym.util.groups import group
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


class ComparedRun(NamedTuple):
    """One of the runs, under a name that tells it from the others."""

    label: str
    manifest: Manifest
    episodes: list[Episode]
    """Those that count, every agent under its own name."""
    shown_as: dict[str, str]
    """The names of its agents in the tables: with the run's behind it where others have it too."""
    problems: Problems
    """What in its folder is not as a run of its plan writes it."""


class Comparison(NamedTuple):
    """The runs of one protocol."""

    protocol: Protocol
    runs: tuple[ComparedRun, ...]

    @property
    def labels(self) -> list[str]:
        return [run.label for run in self.runs]

    @property
    def episodes(self) -> list[Episode]:
        """All dialogues, agents under the names that they have in the tables."""
        return [
            episode._replace(agent=run.shown_as[episode.agent])
            for run in self.runs
            for episode in run.episodes
        ]

    def score(self) -> list[Score]:
        names = tuple(name for run in self.runs for name in run.shown_as.values())
        planned = replace(self.runs[0].manifest.planned, agents=names)
        return score_agents(self.episodes, planned)


def read_comparisons(folders: Sequence[Path]) -> list[Comparison]:
    """The runs in order, by protocol. RunError for no run, one twice, or no episode at all."""
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise RunError("a run folder is given twice. Name each once.")
    if not any(line for folder in folders for _, line in read_episode_lines(folder)):
        places = ", ".join(map(str, folders))
        raise RunError(f"there are no episodes in {places}. Run: rlver-gym bench")
    manifests = [Manifest.read(folder) for folder in folders]
    count = Counter(name for manifest in manifests for name in manifest.planned.agents)
    runs = []
    for folder, label, manifest in zip(folders, label_runs(folders), manifests, strict=True):
        names = manifest.planned.agents
        shown_as = {name: f"{name} ({label})" if count[name] > 1 else name for name in names}
        checked = read_run(folder)
        if checked.problems.total:
            run = ComparedRun(label, manifest, checked.episodes, shown_as, checked.problems)
            runs.append((make_protocol(manifest), run))
    return [Comparison(protocol, tuple(members)) for protocol, members in group(runs).items()]


def put_label(text: str, folder: str | Path, label: str) -> str:
    """A text with the label of a run in place of its path, if that is more than a name: "." stands
    in every sentence.
    """
    return text.replace(str(folder), label) if len(Path(folder).parts) > 1 else text


def make_protocol(manifest: Manifest) -> Protocol:
    env, user, people = manifest.env_card.id, manifest.user, frozenset(manifest.personas.items())
    seeds = manifest.plan.seeds, manifest.plan.user_seeds
    return Protocol(env, manifest.env_hash, user.kind, user.version, people, *seeds)


def format_seeds(seeds: int, user_seeds: int) -> str:
    return format_count(seeds, "seed") + (f" x {user_seeds} user seeds" if user_seeds > 1 else "")


def label_runs(folders: Sequence[Path]) -> list[str]:
    """The folders' names, or their whole paths where names are alike."""
    names = [folder.resolve().name for folder in folders]
    return [
        str(folder) if names.count(name) > 1 else name
        for folder, name in zip(folders, names, strict=True)
    ]
