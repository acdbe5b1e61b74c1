"""How open people are in a run: how often they take something in (acceptance), and how often they
say something of themselves (expression). RLVER's section 3.6 compares environments so.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from statistics import fmean
from typing import Any, NamedTuple

from rlver_gym.core.cards import EnvCard
from rlver_gym.core.dialogue import Dialogue
from rlver_gym.core.library import PersonaLibrary
from rlver_gym.core.persona import Persona
from rlver_gym.core.words import split_sentences, split_words
from rlver_gym.environment.episode import Episode
from rlver_gym.environment.session import EmpathySession
from rlver_gym.users import EmbeddedUser

_NOT_SAID = {"id", "title", "anchors", "topics", "fits"}


class Openness(NamedTuple):
    """Two shares in [0, 1], each the mean over the run's agents."""

    acceptance: float
    """Of the agent's replies, those after which the emotion rose."""
    expression: float
    """Of the person's replies before their last, those that tell something of their card: a fact, a
    feeling or a hint at the need, rather than "Mm." or "I don't know.".
    """


def measure_openness(
    episodes: Iterable[Episode], personas: PersonaLibrary, card: EnvCard | None = None
) -> Openness:
    """Of at least one dialogue. `card`: acceptance is that of the embedded user under this card, in
    the recorded contexts, whoever was the user; None: as recorded.
    """
    accepted: dict[str, list[bool]] = defaultdict(list)
    told: dict[str, list[bool]] = defaultdict(list)
    tells = lru_cache(maxsize=None)(lambda name: _list_persona_sentences(personas.get(name)))
    for episode in episodes:
        changes = (
            [turn.appraisal.change for turn in episode.turns]
            if card is None
            else _reappraise(episode, personas.get(episode.persona), card)
        )
        accepted[episode.agent] += [change > 0 for change in changes]
        told[episode.agent] += _check_for_disclosures(episode, tells)
    return Openness(_mean_over_agents(accepted.values()), _mean_over_agents(told.values()))


def _mean_over_agents(found: Iterable[Sequence[bool]]) -> float:
    return fmean([fmean(one) for one in found if one] or [0.0])


def _reappraise(episode: Episode, persona: Persona, card: EnvCard) -> Iterator[int]:
    session, emotion = EmpathySession(EmbeddedUser(), persona, card, episode.seed), episode.start
    for at, turn in enumerate(episode.turns):
        said = Dialogue(episode.opening, episode.turns[:at], turn.utterance)
        yield session.appraise_at(emotion, said).change
        emotion = turn.emotion


def _check_for_disclosures(
    episode: Episode, own: Callable[[str], frozenset[tuple[str, ...]]]
) -> Iterator[bool]:
    for turn in episode.turns:
        if turn.outcome is None:
            yield bool(turn.disclosures) or any(
                tuple(split_words(one)) in own(episode.persona)
                for one in split_sentences(turn.reply)
            )


def _list_persona_sentences(persona: Persona) -> frozenset[tuple[str, ...]]:
    """All that their situation lets them say, in words."""
    told = persona.situation.model_dump(mode="json", exclude=_NOT_SAID)
    return frozenset(
        tuple(split_words(one)) for text in _list_texts(told) for one in split_sentences(text)
    )


def _list_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _list_texts(one)
