"""The runs that the studio shows: tables of scores, a row for each dialogue, and a dialogue whole.

Runs are read once. Nothing in them is imported or asked; persona cards are those that come with the
package, or that the caller names.
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from rlver_gym.bench.compare import ComparedRun, Comparison, Protocol, label_runs, read_comparisons
from rlver_gym.bench.flagged import format_evidence
from rlver_gym.bench.manifest import Manifest
from rlver_gym.bench.noise import (
    measure_noise,
    measure_spread_over_runs,
    tabulate_seed_noise,
    tabulate_shift,
)
from rlver_gym.bench.opinions import describe_limit, read_capabilities
from rlver_gym.bench.recompute import Sources, find_cards
from rlver_gym.bench.score import score_to_json
from rlver_gym.bench.strategies import analyse_strategies, label_turn, tabulate_strategies
from rlver_gym.bench.table import Table
from rlver_gym.bench.verdict import Verdict, skip_verification, verify_and_summarize
from rlver_gym.core.capabilities import JUDGEMENTS
from rlver_gym.core.cards import EnvCard
from rlver_gym.core.persona import Persona
from rlver_gym.environment.alarms import check_episodes
from rlver_gym.environment.episode import Episode, turn_to_dict
from rlver_gym.studio.request_fields import Name, Words
from rlver_gym.studio.search import Part, list_sentences, parts_of, search
from rlver_gym.studio.views import Json, view_person
from rlver_gym.util.errors import RlverError, UnknownName, check_known

_PROTOCOL_NAMES = {
    "env": "the environment",
    "env_hash": "the environment's card",
    "user": "the user",
    "user_version": "the user's version",
    "personas": "the people",
    "seeds": "the number of seeds",
    "user_seeds": "the number of the user's seeds",
}
_OF_EPISODE = ("persona", "seed", "need", "disposition", "start", "final", "outcome")
_MAX_RECOMPUTED = 1_000
"""Dialogues of a run: some 20 s."""


class Run(NamedTuple):
    """A run folder with what counts in it, by "AGENT/PERSONA/SEED"."""

    label: str
    folder: Path
    manifest: Manifest
    dialogues: dict[str, Episode]
    shown_as: dict[str, str]
    """The agents' names in the tables, by their own."""

    def find(self, dialogue: str) -> Episode:
        if dialogue not in self.dialogues:
            raise UnknownName(
                f"there is no dialogue {dialogue[:80]!r} in {self.label}. Open it from the list."
            )
        return self.dialogues[dialogue]


class Runs:
    """All runs that are open."""

    def __init__(
        self,
        folders: Sequence[Path],
        personas: str | None = None,
        verdicts: Sequence[Verdict] | None = None,
    ) -> None:
        """`personas`: the folder of the runs' persona cards, when they are not the shipped ones;
        `verdicts`: of each folder, None to recompute them here. RunError for
        what is no run.
        """
        self._personas = personas
        self._marks: dict[str, dict[str, dict[str, float]]] = {}
        self.comparisons = read_comparisons(folders) if folders else []
        if verdicts is None:
            verdicts = [_recompute_unless_large(folder, personas) for folder in folders]
        self.verdicts = verdicts
        runs = (run for comparison in self.comparisons for run in comparison.runs)
        self.runs = {run.label: _open_run(run) for run in runs}

    def run(self, label: str) -> Run:
        check_known("run", label, self.runs, "" if self.runs else "none is open")
        return self.runs[label]

    @cached_property
    def overview(self) -> Json:
        """A table of scores for each protocol, and a row for each dialogue."""
        shift = measure_spread_over_runs(self.comparisons)
        labels = label_runs([verdict.problems.folder for verdict in self.verdicts])
        return {
            "shift": shift and _view_table(tabulate_shift(shift)),
            "tables": [self._table(comparison) for comparison in self.comparisons],
            "differs": _describe_differences(
                [comparison.protocol for comparison in self.comparisons]
            ),
            "verdicts": [  # by the folder's name: where a run lies is nobody's business
                {"run": name, **sentence._asdict()}
                for name, verdict in zip(labels, self.verdicts, strict=True)
                for sentence in verdict.describe(name)
            ],
            "reasons": list_sentences(
                episode for run in self.runs.values() for episode in run.dialogues.values()
            ),
            "runs": [[run.label, run.manifest.plan.user] for run in self.runs.values()],
            "dialogues": [
                _build_dialogue_row(run, key, episode)
                for run in self.runs.values()
                for key, episode in run.dialogues.items()
            ],
        }

    def _table(self, comparison: Comparison) -> Json:
        """The scores of a protocol's agents, privileged ones last."""
        checked = check_episodes(comparison.episodes)
        flags: dict[str, list[list[str]]] = {}
        for alert in checked.alarms:
            if not alert.expected:
                flags.setdefault(alert.agent, []).append([alert.says, *format_evidence(alert)])
        noise = measure_noise(comparison)
        scores = sorted(comparison.score(), key=lambda score: score.agent in checked.privileged)
        return {
            "title": str(comparison.protocol),
            "runs": comparison.labels,
            "start": comparison.runs[0].manifest.env_card.start,
            "limit": describe_limit(comparison.runs[0].manifest.plan.user),
            "scores": [
                {
                    **score_to_json(score),
                    "privileged": score.agent in checked.privileged,
                    "flags": flags.get(score.agent, []),
                }
                for score in scores
            ],
            "noise": noise and _view_table(tabulate_seed_noise(noise, scores)),
            "made": [_describe_provenance(run.manifest) for run in comparison.runs],
        }

    @cached_property
    def strategies(self) -> list[list[Json]]:
        """What agents do, for each table of the overview; nothing where none speaks English."""
        return [
            [
                _view_table(table)
                for table in tabulate_strategies(analyse_strategies(comparison.episodes))
            ]
            for comparison in self.comparisons
        ]

    @cached_property
    def _texts(self) -> list[list[Part]]:
        return [
            parts_of(dialogue) for run in self.runs.values() for dialogue in run.dialogues.values()
        ]

    def search(self, q: Words, reason: Words = "") -> list[tuple[int, int]]:
        return search(self._texts, q, reason)

    def cards(self, run: Run, episode: Episode) -> tuple[EnvCard, Persona]:
        """What a dialogue was held with. RlverError when that is not here."""
        card, shelf = find_cards(run.folder, run.manifest, Sources(personas=self._personas))
        persona = shelf.get(episode.persona)
        if (card.hash, persona.hash) != (episode.env_hash, episode.persona_hash):
            raise UnknownName(
                f"{episode.persona} is not the one of this run here. Name the run's cards:"
                " --personas DIR"
            )
        return card, persona

    def person(self, run: Run, episode: Episode) -> tuple[Json | None, str]:
        """Who was talked to, or None and why their card is not here."""
        try:
            return view_person(self.cards(run, episode)[1]), ""
        except RlverError as error:
            return None, str(error)

    def dialogue(self, run: Name, dialogue: Name) -> Json:
        """A dialogue whole, with the person's card and a judge's marks where they are there."""
        benched = self.run(run)
        episode = benched.find(dialogue)
        person, note = self.person(benched, episode)
        return {
            **_build_dialogue_row(benched, dialogue, episode),
            "opening": episode.opening,
            "turns": [turn_to_dict(turn) for turn in episode.turns],
            "person": person,
            "note": note,
            "user": episode.user,
            **self._read_marks(benched, dialogue, episode),
        }

    def _read_marks(self, run: Run, dialogue: str, episode: Episode) -> Json:
        if run.label not in self._marks:
            self._marks[run.label] = read_capabilities(run.folder / JUDGEMENTS)
        marks = self._marks[run.label].get(dialogue)
        if marks is None:
            return {}
        lines = [episode.opening, *(turn.reply for turn in episode.turns)]
        labels = [
            label_turn(turn.utterance, lines[: at + 1]) for at, turn in enumerate(episode.turns)
        ]
        return {"capabilities": marks, "strategies": [sorted(used or ()) for used in labels]}


def _describe_differences(protocols: Sequence[Protocol]) -> str:
    differing = [
        name
        for field, name in _PROTOCOL_NAMES.items()
        if len({getattr(protocol, field) for protocol in protocols}) > 1
    ]
    return " and ".join(filter(None, [", ".join(differing[:-1]), *differing[-1:]]))


def _recompute_unless_large(folder: Path, personas: str | None) -> Verdict:
    if Manifest.read(folder).planned.count > _MAX_RECOMPUTED:
        return skip_verification(folder, f"It is large. This does it: rlver-gym verify {folder}")
    return verify_and_summarize(folder, sources=Sources(personas=personas))


def _view_table(table: Table) -> Json:
    return {"title": table.title, "rows": table.rows, "says": list(table.notes)}


def _describe_provenance(manifest: Manifest) -> str:
    packages = ", ".join(f"{name} {number}" for name, number in manifest.packages.items() if number)
    return (
        f"Run {manifest.fingerprint}, {manifest.created}: {' '.join(manifest.command)}."
        f" Python {manifest.python}, {packages}"
    )


def _open_run(run: ComparedRun) -> Run:
    dialogues = {str(episode.key): episode for episode in run.episodes}
    return Run(run.label, run.problems.folder, run.manifest, dialogues, run.shown_as)


def _build_dialogue_row(run: Run, key: str, episode: Episode) -> dict[str, Any]:
    return {
        "run": run.label,
        "id": key,
        "agent": run.shown_as[episode.agent],
        **{name: getattr(episode, name) for name in _OF_EPISODE},
        "line": [episode.start, *(turn.emotion for turn in episode.turns)],
    }
