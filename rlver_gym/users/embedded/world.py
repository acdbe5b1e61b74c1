"""What a person knows: the anchors, the words and the names of their story. Compiled once a situation."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from rlver_gym.anchors import AnchorIndex, Touch
from rlver_gym.persona import Persona, Situation
from rlver_gym.users.embedded.hear import hear
from rlver_gym.users.embedded.lexicon import load_data
from rlver_gym.words import content, words


class World:
    """The story of one situation, ready to be looked up."""

    def __init__(self, situation: Situation, language: str) -> None:
        """Compile the situation."""
        texts = list(_texts(situation.model_dump()))
        self.anchors = AnchorIndex(situation)
        self.vocabulary = frozenset().union(*map(content, texts)) | everyday(language)
        self.names = frozenset(word for text in texts for word in words(text)) | _CALENDAR


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _texts(part)


_CALENDAR = frozenset(
    """monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september october november december
    christmas easter god english mum dad mom gran grandma grandad""".split()
)


@lru_cache(maxsize=4)
def everyday(language: str) -> frozenset[str]:
    """Stems that are at home in any story."""
    return frozenset(load_data(f"everyday_{language}.json")["stems"])


_WORLDS: dict[int, tuple[Situation, World]] = {}


def world(persona: Persona) -> World:
    """The world of the persona's situation, compiled once. Kept beside the situation, so that its identity stays its own."""
    known = _WORLDS.get(id(persona.situation))
    if known is None:
        if len(_WORLDS) >= 512:
            _WORLDS.clear()
        known = _WORLDS[id(persona.situation)] = (persona.situation, World(persona.situation, persona.language))
    return known[1]


@lru_cache(maxsize=8)
def touches(index: AnchorIndex, text: str, language: str) -> tuple[Touch, ...]:
    """The anchors that an utterance touches."""
    return index.touched(tuple(sentence.stems for sentence in hear(text, language).sentences))


@lru_cache(maxsize=8_192)
def touched_keys(index: AnchorIndex, text: str, language: str) -> frozenset[str]:
    """Their keys; kept longer, because every turn looks back at all earlier ones."""
    return frozenset(touch.key for touch in touches(index, text, language))
