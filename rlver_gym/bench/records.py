"""The records of a run against its plan: which of them count, and what is wrong in its files.

A record counts when it is a finished dialogue of the plan. Nothing is recomputed here: whether the
values of a record are what its words give, `verify` tells.
"""

from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from rlver_gym.bench.folder import EPISODES, MANIFEST, episode_lines
from rlver_gym.bench.manifest import Manifest
from rlver_gym.bench.plan import select_personas
from rlver_gym.bench.planned import Key, Planned
from rlver_gym.bench.problems import Kind, Problems
from rlver_gym.core.cards import EnvCard, env_card, shipped_env_ids
from rlver_gym.core.library import are_shipped, library
from rlver_gym.environment.episode import Episode
from rlver_gym.io.errors import CardError, RunError, UnknownName
from rlver_gym.io.files import path_inside
from rlver_gym.io.terminal import one_line


class RunRecords(NamedTuple):
    """The records of a run that count, in the file's order, and what is wrong in its files."""

    episodes: list[Episode]
    edited: frozenset[Key]
    """Those of them whose line is not what its own values give, checksums included."""
    planned: Planned | None
    """None without a manifest."""
    problems: Problems


def read_run(folder: Path) -> RunRecords:
    """What counts in a run folder, and what does not. Without a manifest there is no plan to
    compare with: then every dialogue that has ended counts, the very same one once.

    RunError for a folder, a manifest or a line that cannot be read.
    """
    rules = None
    if path_inside(folder, MANIFEST, error=RunError).exists():
        rules = _Rules(Manifest.read(folder))
    reading = _Reading(rules)
    path, total = folder / EPISODES, 0
    for number, line in episode_lines(folder):
        if line:
            total += 1
            reading.add(number, line, Episode.from_json(line, f"{path}, line {number}"))
    planned = rules.planned if rules else None
    counted = {one.key for one in reading.episodes}
    missing = planned.count - len(counted) if planned else 0
    first = next(key for key in planned if key not in counted) if planned and missing else ()
    problems = Problems(
        folder,
        total,
        reading.lines,
        reading.causes,
        planned.count if planned else 0,
        missing,
        "/".join(map(str, first)),
        rules.manifest_problem if rules else "",
    )
    return RunRecords(reading.episodes, frozenset(reading.edited), planned, problems)


class _Rules:
    """What a record of a run has to be, as the run's manifest says."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.planned = manifest.planned
        folder = manifest.persona_folder
        self._cards = library(folder) if are_shipped(folder) else None

    @cached_property
    def manifest_problem(self) -> str:
        """What is wrong with the manifest; empty when nothing is."""
        there = self.manifest
        if problem := there.explain_edit():
            return problem
        if self._cards is None:
            return ""
        split = there.plan.split or there.env_card.split
        try:
            personas = select_personas(self._cards, there.plan.persona_ids, split)
        except (CardError, UnknownName, RunError) as error:
            return str(error)
        here = {persona: self._cards.get(persona).hash for persona in personas}
        if here != there.personas:
            return "its personas are not those that come with rlver-gym and that its plan names"
        return ""

    def explain_foreign(self, episode: Episode) -> str | None:
        """What an episode of the plan says of its making, and the run does not."""
        there = self.manifest
        right: dict[str, object] = {
            "env": there.env_card.id,
            "env_hash": there.env_hash,
            "start": there.env_card.start,
            "persona_hash": there.personas[episode.persona],
            "user": there.user.kind,
            "user_version": there.user.version,
        }
        if self._cards is not None and not self.manifest_problem:
            persona = self._cards.get(episode.persona)
            right |= {"need": persona.need.value, "disposition": persona.person.disposition.value}
        for name, value in right.items():
            if (found := getattr(episode, name)) != value:
                return f"{name} is {found!r}, that of the run is {value!r}"
        return None


class _Reading:
    """What was found in the lines so far."""

    def __init__(self, rules: _Rules | None) -> None:
        self._rules = rules
        self._seen: set[Key | Episode] = set()
        self._last_place = (-1, -1, -1)
        self.episodes: list[Episode] = []
        self.edited: list[Key] = []
        self.lines: dict[Kind, list[int]] = {}
        self.causes: dict[Kind, str] = {}

    def add(self, number: int, line: str, episode: Episode) -> None:
        """Take in a line: count it, or note why not."""
        is_edited = episode.to_json() != line
        if is_edited:
            self._note("edited", number)
        if not self._counts(number, episode):
            return
        self.episodes.append(episode)
        if is_edited:
            self.edited.append(episode.key)
        if self._rules:
            place = self._rules.planned.place(episode.key)
            if place < self._last_place:
                self._note("reordered", number)
            self._last_place = max(place, self._last_place)

    def _counts(self, number: int, episode: Episode) -> bool:
        rules, name = self._rules, "/".join(map(str, episode.key))
        if rules and episode.key not in rules.planned:
            self._note("unplanned", number, name)
            return False
        identity = episode.key if rules else episode
        if identity in self._seen:
            self._note("doubled", number, name)
            return False
        self._seen.add(identity)
        if rules and (why := rules.explain_foreign(episode)):
            self._note("foreign", number, f"{name}, {why}")
            return False
        card = rules.manifest.env_card if rules else _find_shipped_card(episode)
        why = episode.explain_unfinished(card)
        if why:
            self._note("unfinished", number, f"{name}, {why}")
        return not why

    def _note(self, kind: Kind, number: int, cause: str = "") -> None:
        self.lines.setdefault(kind, []).append(number)
        if cause:
            self.causes.setdefault(kind, one_line(cause, max_chars=300))


def _find_shipped_card(episode: Episode) -> EnvCard | None:
    """The card of an episode without a manifest, when it came with the package."""
    card = env_card(episode.env) if episode.env in shipped_env_ids() else None
    return card if card and card.hash == episode.env_hash else None
