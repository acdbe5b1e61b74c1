"""Recorded dialogues appraised by another user: the same words, two scores side by side."""

from collections.abc import Iterator, Sequence
from dataclasses import astuple
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np

from rlver_gym.bench.appraise import Excerpt, Failure, appraise_excerpts
from rlver_gym.bench.check import Problems, read_run
from rlver_gym.bench.folder import EPISODES, MANIFEST
from rlver_gym.bench.manifest import Manifest
from rlver_gym.bench.recompute import Sources, find_cards
from rlver_gym.bench.score import drop_failed
from rlver_gym.core.cards import env_card
from rlver_gym.core.dialogue import Appraisal, Dialogue, Turn
from rlver_gym.core.user import Scene, SentientUser
from rlver_gym.corpora.recordings import Recording, read_recordings
from rlver_gym.environment.episode import Case
from rlver_gym.util.correlation import centre, correlation, varies
from rlver_gym.util.errors import RunError
from rlver_gym.util.groups import group


class Recorded(NamedTuple):
    """A dialogue with the score it was given."""

    agent: str
    user: str
    scene: Scene
    dialogue: Dialogue
    changes: tuple[float, ...]
    """Of each turn, by the record; the mean of several judges is no whole number."""
    final: float

    @property
    def key(self) -> str:
        return str(Case(self.agent, self.scene.persona.id, self.scene.seed))


class Rescored(NamedTuple):
    """A recorded dialogue, and what the other user felt in it or why it failed."""

    recorded: Recorded
    changes: tuple[tuple[float, int], ...]
    """By the record and by the other user."""
    final: float
    failure: str = ""


class ScoreComparison(NamedTuple):
    """Two scores of the same replies. None stands for what these replies cannot tell."""

    agent: str
    """Empty for all agents together."""
    dialogues: int
    replies: int
    recorded: float
    other: float
    """Mean final emotions, by the record and by the other user."""
    level: float
    within_dialogue_r: float | None
    """Correlation of changes, each dialogue's means taken out of both."""
    overpaid: float
    """The share of replies, in percent, that the record pays and the other user does not."""
    overpaid_by: float | None
    """What the record pays for such a reply, in points."""


class Rescore(NamedTuple):
    """Two scores of all dialogues."""

    agents: tuple[ScoreComparison, ...]
    """The best by the record first."""
    total: ScoreComparison
    failures: tuple[Rescored, ...]


def read_dialogues(folder: Path, sources: Sources) -> tuple[list[Recorded], list[Problems]]:
    """What can be appraised again, and what is wrong in the folder: the dialogues of a run that
    count and did not fail, or those of a folder of recordings. RunError when there are none, or
    when cards are not those that they were held with.
    """
    if folder.is_dir() and not any((folder / name).exists() for name in (EPISODES, MANIFEST)):
        return _from_recordings(read_recordings(folder)), []
    card, cards = find_cards(folder, Manifest.read(folder), sources)
    records, dialogues = read_run(folder), []
    for episode in drop_failed(records.episodes):
        persona = cards.get(episode.persona)
        if (card.hash, persona.hash) != (episode.env_hash, episode.persona_hash):
            raise RunError(
                f"{folder}: {episode.key} was held with another env card or"
                f" another {episode.persona}. Name the run's: --env CARD.yaml, --personas DIR."
            )
        scene = Scene(persona, card, episode.seed)
        changes = tuple(float(turn.appraisal.change) for turn in episode.turns)
        who, said = (episode.agent, episode.user), Dialogue(episode.opening, episode.turns)
        dialogues.append(Recorded(*who, scene, said, changes, episode.final))
    return dialogues, [records.problems]


def _from_recordings(recordings: Sequence[Recording]) -> list[Recorded]:
    """With several judges, an agent is one with each."""
    card, dialogues = env_card("SAGE-Sentient-v0"), []
    judges = {recording.simulator for recording in recordings}
    for recording in recordings:
        turns = tuple(
            Turn(text, Appraisal(round(change), "", ()), emotion, 0.0, None, reply)
            for text, change, emotion, reply in map(astuple, recording.exchanges)
        )
        agent, judge = recording.agent, recording.simulator
        agent += f" by {judge}" if len(judges) > 1 else ""
        scene = Scene(recording.persona, card, 0)
        changes = tuple(x.change for x in recording.exchanges)
        said = Dialogue(recording.opening, turns)
        dialogues.append(Recorded(agent, judge, scene, said, changes, recording.final))
    return dialogues


def rescore(user: SentientUser, dialogues: Sequence[Recorded]) -> Iterator[Rescored]:
    """Each dialogue by the user's own emotion, in their order; what follows its end is compared."""
    excerpts = [Excerpt(x.scene, x.dialogue) for x in dialogues]
    for recorded, felt in zip(dialogues, appraise_excerpts(user, excerpts), strict=True):
        card = recorded.scene.card
        if isinstance(felt, Failure):
            yield Rescored(recorded, (), card.start, felt.why)
            continue
        changes = [appraisal.change for appraisal in felt]
        pairs = tuple(zip(recorded.changes, changes, strict=True))
        yield Rescored(recorded, pairs, card.final_emotion(changes))


def compare_scores(rescored: Sequence[Rescored]) -> Rescore:
    """Both scores by agent and in all; RunError when the user failed at every dialogue."""
    if not rescored:
        raise RunError("no dialogue there counts. See what rlver-gym report says of the run.")
    if not (whole := [dialogue for dialogue in rescored if not dialogue.failure]):
        raise RunError(f"the user failed at every dialogue: {rescored[0].failure}")
    by_agent = group((dialogue.recorded.agent, dialogue) for dialogue in whole)
    agents = [_compare_agent_scores(agent, rescored) for agent, rescored in by_agent.items()]
    agents.sort(key=lambda row: -row.recorded)
    failed = tuple(dialogue for dialogue in rescored if dialogue.failure)
    return Rescore(tuple(agents), _compare_agent_scores("", whole), failed)


def _compare_agent_scores(agent: str, rescored: Sequence[Rescored]) -> ScoreComparison:
    pairs = [np.array(dialogue.changes, float).reshape(-1, 2) for dialogue in rescored]
    paid, felt = np.concatenate(pairs).T
    overpaid = paid[(paid > 0) & (felt <= 0)]
    recorded = fmean(dialogue.recorded.final for dialogue in rescored)
    other = fmean(dialogue.final for dialogue in rescored)
    return ScoreComparison(
        agent,
        len(rescored),
        len(paid),
        recorded,
        other,
        recorded - other,
        _correlate_within_dialogues(pairs),
        100 * len(overpaid) / max(1, len(paid)),
        float(overpaid.mean()) if len(overpaid) else None,
    )


def _correlate_within_dialogues(pairs: Sequence[np.ndarray]) -> float | None:
    """Pearson's r without each dialogue's means; None when one side does not vary."""
    dialogue = np.repeat(np.arange(len(pairs)), [len(changes) for changes in pairs])
    paid, felt = (centre(side, dialogue) for side in np.concatenate(pairs).T)
    return correlation(paid, felt) if varies(paid) and varies(felt) else None
