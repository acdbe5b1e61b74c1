"""A run against its plan: which of its dialogues count, and what is wrong in its files.

A record counts when it is a finished dialogue of the plan. Nothing is recomputed here: whether the
values of a record are what its words give, `verify` tells.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rlver_gym.bench.folder import EPISODES, MANIFEST, read_episode_lines
from rlver_gym.bench.manifest import Manifest
from rlver_gym.bench.plan import Case, Planned, pin_personas
from rlver_gym.core.cards import env_card, shipped_env_ids
from rlver_gym.core.library import are_shipped, library
from rlver_gym.environment.episode import Episode
from rlver_gym.util.errors import RlverError, RunError
from rlver_gym.util.files import path_inside
from rlver_gym.util.groups import group
from rlver_gym.util.terminal import format_count, one_line

Kind = Literal[
    "unreadable", "unplanned", "doubled", "foreign", "unfinished", "edited", "reordered",
    "missing", "manifest", "diverging",
]  # fmt: skip
_SENTENCES: dict[Kind, str] = {
    "unplanned": "a dialogue that the plan does not have; it counts in no score",
    "doubled": "a dialogue that stands there twice; the first counts",
    "foreign": "not held with the cards and the user of the run; it counts in no score",
    "unfinished": "no finished dialogue; it counts in no score",
    "edited": "not as it was written; its score may be wrong",
    "reordered": "not where the plan has it; no score depends on it",
    "missing": "without a record that counts; 0 in the score at worst",
    "manifest": "not as a run writes it",
}
_MAX_NAMED_LINES, _MAX_LISTED_LINES = 3, 100
"""In a sentence, and in JSON."""


class Finding(NamedTuple):
    """Something in a run that is not as a run of its plan writes it."""

    kind: Kind
    line: int
    """From 1; 0 for the manifest."""
    episode: str = ""
    what: str = ""
    turn: int = 0
    """The first that is not as recomputed; 0 is the opening or a field."""
    num_episodes: int = 1
    """How many dialogues it stands for."""

    @property
    def cause(self) -> str:
        """On one line, however hostile."""
        return one_line(": ".join(filter(None, (self.episode, self.what))), max_chars=300)

    def __str__(self) -> str:
        episode = one_line(self.episode, max_chars=160)
        what = one_line(self.what, max_chars=1_000)
        return f"line {self.line}, episode {episode}, turn {self.turn}: {what}"


class Problems(NamedTuple):
    """All findings about the files of a run; false without any."""

    folder: Path
    total: int
    """How many lines there are."""
    planned: int
    """How many dialogues the plan has; 0 without a plan."""
    findings: tuple[Finding, ...]

    def __bool__(self) -> bool:
        return bool(self.findings)

    @property
    def by_kind(self) -> dict[Kind, list[Finding]]:
        return group((one.kind, one) for one in self.findings)

    @property
    def lines(self) -> dict[Kind, list[int]]:
        """Lines by what is wrong with them; one may stand in several."""
        by_kind = self.by_kind.items()
        return {kind: [one.line for one in found] for kind, found in by_kind if found[0].line}

    def describe(self, run: str) -> list[str]:
        """Sentences for those who know the run by this name."""
        told = [self._describe(kind, found) for kind, found in self.by_kind.items()]
        if self.by_kind.keys() - {"reordered", "missing"}:
            told.append(f"rlver-gym verify {run} says what was changed")
        return [one_line(f"{run}: {sentence}.", max_chars=1_000) for sentence in told]

    def _describe(self, kind: Kind, found: list[Finding]) -> str:
        first = found[0]
        if kind == "manifest":
            where = MANIFEST
        elif kind == "missing":
            where = f"{first.num_episodes:,} of {format_count(self.planned, 'planned dialogue')}"
        else:
            lines = ", ".join(str(one.line) for one in found[:_MAX_NAMED_LINES])
            more = ", …" if len(found) > _MAX_NAMED_LINES else ""
            word = "line" if len(found) == 1 else "lines"
            where = f"{word} {lines}{more} ({len(found):,} of {format_count(self.total, 'line')})"
        return f"{where}: {_SENTENCES[kind]}{first.cause and ': '}{first.cause}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON, by kind: how many, the first hundred lines, what is wrong with the first."""
        found: dict[str, Any] = {}
        for kind, several in self.by_kind.items():
            first = several[0]
            found[kind] = {"count": sum(one.num_episodes for one in several)}
            if first.line:
                found[kind]["lines"] = self.lines[kind][:_MAX_LISTED_LINES]
            if cause := first.cause:
                found[kind]["first"] = cause
        return found


def problems_to_json(problems: Iterable[Problems]) -> dict[str, Any]:
    """The field `problems`, by run, and `edited`, the first such lines, where there are any."""
    found = {str(one.folder): one.to_dict() for one in problems if one}
    edited = {run: kinds["edited"]["lines"] for run, kinds in found.items() if "edited" in kinds}
    named = {"problems": found, "edited": edited}
    return {name: by_run for name, by_run in named.items() if by_run}


class RunRecords(NamedTuple):
    """The records of a run that count, in the file's order, and what is wrong in its files."""

    episodes: list[Episode]
    edited: frozenset[Case]
    """Those of them whose line is not what its own values give, checksums included."""
    problems: Problems


def read_run(folder: Path) -> RunRecords:
    """What counts in a run folder, and what does not. Without a manifest there is no plan to
    compare with: then every dialogue that has ended counts, the very same one once.

    RunError for a folder, a manifest or a line that cannot be read.
    """
    has_manifest = path_inside(folder, MANIFEST, error=RunError).exists()
    rules = _Rules(Manifest.read(folder)) if has_manifest else None
    planned = rules.manifest.planned if rules else None
    episodes: list[Episode] = []
    edited: set[Case] = set()
    found: list[Finding] = []
    total, last_place = 0, (-1, -1, -1)
    for number, line, episode, problem in match_lines(folder, planned):
        if not line:
            continue
        if episode is None:
            raise RunError(f"{folder / EPISODES}, line {number}: {problem and problem.what}")
        total += 1
        if is_edited := episode.to_json() != line:
            found.append(Finding("edited", number))
        if problem := problem or _check_record(number, episode, rules):
            found.append(problem)
            continue
        episodes.append(episode)
        edited |= {Case(*episode.key)} if is_edited else set()
        if planned:
            place = planned.place(episode.key)
            found += [Finding("reordered", number)] if place < last_place else []
            last_place = max(place, last_place)
    if planned and (missing := planned.count - len(episodes)):
        there = {one.key for one in episodes}
        first = next("/".join(map(str, case)) for case in planned if case not in there)
        found.append(Finding("missing", 0, first, num_episodes=missing))
    if rules and rules.manifest_problem:
        found.append(Finding("manifest", 0, what=rules.manifest_problem))
    problems = Problems(folder, total, planned.count if planned else 0, tuple(found))
    return RunRecords(episodes, frozenset(edited), problems)


class Line(NamedTuple):
    """A line of a run's episodes, beside the plan."""

    number: int
    text: str
    episode: Episode | None
    """None for a line that is no record."""
    problem: Finding | None
    """Why the plan has no dialogue here."""


def match_lines(folder: Path, planned: Planned | None) -> Iterator[Line]:
    seen: set[Case | Episode] = set()
    for number, line in read_episode_lines(folder):
        try:
            episode = Episode.from_json(line)
        except RunError as error:
            yield Line(number, line, None, Finding("unreadable", number, "?", str(error)))
            continue
        case, problem = Case(*episode.key), None
        name, identity = "/".join(map(str, case)), case if planned else episode
        if planned and case not in planned:
            problem = Finding("unplanned", number, name, "the plan has no such episode")
        elif identity in seen:
            problem = Finding("doubled", number, name, "it stands twice")
        seen.add(identity)
        yield Line(number, line, episode, problem)


class _Rules:
    """What a record of a run has to be, as the run's manifest says."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        folder = manifest.persona_folder
        self._cards = library(folder) if are_shipped(folder) else None

    @cached_property
    def manifest_problem(self) -> str:
        """What is wrong with the manifest; empty when nothing is."""
        there = self.manifest
        if self._cards is None or there.edit:
            return there.edit
        try:
            here = pin_personas(self._cards, there.plan, there.env_card)
        except RlverError as error:
            return str(error)
        wrong = "its personas are not those that come with rlver-gym and that its plan names"
        return "" if here == there.personas else wrong

    def explain_foreign(self, episode: Episode) -> str:
        """What an episode of the plan says of its making, and the run does not; empty: nothing."""
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
        return ""


def _check_record(number: int, episode: Episode, rules: _Rules | None) -> Finding | None:
    """Why a dialogue of the plan does not count. Without a manifest the card is the shipped one
    that the record names by its hash, or unknown.
    """
    name = "/".join(map(str, episode.key))
    if rules and (why := rules.explain_foreign(episode)):
        return Finding("foreign", number, name, why)
    card = rules.manifest.env_card if rules else None
    if not rules and episode.env in shipped_env_ids():
        shipped = env_card(episode.env)
        card = shipped if shipped.hash == episode.env_hash else None
    why = episode.explain_unfinished(card)
    return Finding("unfinished", number, name, why) if why else None
