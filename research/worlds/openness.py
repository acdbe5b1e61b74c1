"""How open people are in a run, as RLVER's section 3.6 compares environments: acceptance, the share
of replies after which the emotion rose, and expression, the share of the person's replies before
their last that tell something of their card; each the mean over agents.

python research/worlds/openness.py RUN [ENV]

ENV: acceptance is that of the embedded user under this card, in the recorded contexts.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any

from rlver_gym.bench.folder import read_episodes
from rlver_gym.core.cards import EnvCard, env_card
from rlver_gym.core.dialogue import Dialogue
from rlver_gym.core.words import split_sentences, split_words
from rlver_gym.environment.episode import Episode
from rlver_gym.environment.session import EmpathySession
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser

NOT_SAID = {"id", "title", "anchors", "topics", "fits"}
Sentences = frozenset[tuple[str, ...]]


def measure_openness(
    episodes: Iterable[Episode], card: EnvCard | None = None
) -> tuple[float, float]:
    """Acceptance and expression, in [0, 1], of at least one dialogue."""
    accepted: dict[str, list[bool]] = defaultdict(list)
    told: dict[str, list[bool]] = defaultdict(list)
    sentences = lru_cache(maxsize=None)(list_persona_sentences)
    for episode in episodes:
        changes = (
            reappraise(episode, card) if card else (turn.appraisal.change for turn in episode.turns)
        )
        accepted[episode.agent] += [change > 0 for change in changes]
        told[episode.agent] += check_for_disclosures(episode, sentences)
    return mean_over_agents(accepted.values()), mean_over_agents(told.values())


def mean_over_agents(by_agent: Iterable[Sequence[bool]]) -> float:
    """Of agents with any."""
    return fmean([fmean(values) for values in by_agent if values] or [0.0])


def reappraise(episode: Episode, card: EnvCard) -> Iterator[int]:
    """The changes of the same replies under another card."""
    persona, emotion = library().get(episode.persona), episode.start
    session = EmpathySession(EmbeddedUser(), persona, card, episode.seed)
    for at, turn in enumerate(episode.turns):
        dialogue = Dialogue(episode.opening, episode.turns[:at], turn.utterance)
        yield session.appraise_at(emotion, dialogue).change
        emotion = turn.emotion


def check_for_disclosures(
    episode: Episode, sentences: Callable[[str], Sentences]
) -> Iterator[bool]:
    """Whether each reply tells a fact, a feeling or a hint at the need, and is not just "Mm."."""
    for turn in episode.turns:
        if turn.outcome is None:
            yield bool(turn.disclosures) or any(
                tuple(split_words(sentence)) in sentences(episode.persona)
                for sentence in split_sentences(turn.reply)
            )


def list_persona_sentences(persona: str) -> Sentences:
    """All that their situation lets them say, in words."""
    told = library().get(persona).situation.model_dump(mode="json", exclude=NOT_SAID)
    return frozenset(
        tuple(split_words(sentence))
        for text in list_texts(told)
        for sentence in split_sentences(text)
    )


def list_texts(value: Any) -> Iterator[str]:
    """Every text in a value of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from list_texts(part)


if __name__ == "__main__":
    run, *env = sys.argv[1:]
    acceptance, expression = measure_openness(
        read_episodes(Path(run)), env_card(env[0]) if env else None
    )
    print(f"acceptance {100 * acceptance:.1f} %, expression {100 * expression:.1f} %")
