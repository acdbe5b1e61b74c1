"""Other words in place of a person's own. Sixty people say the same few thousand words again and
again: a small model would learn them by heart, and with other words each time it has to listen.
What agents say of their own accord stays.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any
from zlib import crc32

import gymnasium as gym
import numpy as np

from rlver_gym.core.words import FUNCTION_WORDS

_WORD = re.compile(r"[A-Za-z]+")
_SHORTEST = 4
"""Letters below which a word stays."""
_INVENTED = 0.4
"""The share of new words that nobody ever heard: the front of one and the back of another."""


def content_words(line: str) -> Iterator[str]:
    """The words of a line that may be exchanged, in lower case."""
    words = map(str.lower, _WORD.findall(line))
    return (word for word in words if len(word) >= _SHORTEST and word not in FUNCTION_WORDS)


def draw_word(vocabulary: Sequence[str], rng: np.random.Generator) -> str:
    """A word of the vocabulary, or one put together from two of it."""
    front, back = (vocabulary[int(at)] for at in rng.integers(len(vocabulary), size=2))
    return (
        front[: (len(front) + 1) // 2] + back[len(back) // 2 :]
        if rng.random() < _INVENTED
        else front
    )


def replace_words(line: str, instead: Mapping[str, str]) -> str:
    """The line with some words (lower case) exchanged for others; capitals stay where they were."""

    def word(found: re.Match[str]) -> str:
        old = found.group()
        new = instead.get(old.lower(), old)
        return new.capitalize() if old[0].isupper() else new

    return _WORD.sub(word, line)


class WordSubstitution(gym.Wrapper[str, str, str, str]):
    """An environment whose person says other words: theirs are exchanged on the way to the policy,
    and its own back on the way to them.

    The same seed gives the same words, so that the dialogues of a group stay comparable.
    """

    def __init__(self, env: gym.Env[str, str], vocabulary: Sequence[str], share: float) -> None:
        """`vocabulary`: the words that are exchanged, in lower case, for each other and for ones
        put together from them. `share`: of the dialogues, in [0, 1].
        """
        super().__init__(env)
        self._vocabulary, self._share = list(vocabulary), share
        self._known = frozenset(vocabulary)
        self._instead: dict[str, str] = {}
        self._back: dict[str, str] = {}
        self._seed: int | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begin; which words are exchanged for which follows from the seed.

        Without a seed nothing is exchanged.
        """
        said, info = self.env.reset(seed=seed, options=options)
        self._instead, self._back = {}, {}
        self._seed = (
            seed
            if seed is not None and np.random.default_rng((seed, 0)).random() < self._share
            else None
        )
        return self._substitute_words(said), info

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        """Say something in the words that were heard."""
        said, reward, over, cut, info = self.env.step(replace_words(action, self._back))
        return self._substitute_words(said), reward, over, cut, info

    def save_state(self) -> tuple[Any, dict[str, str], dict[str, str]]:
        """The environment's state, and the words exchanged so far."""
        return self.env.get_wrapper_attr("save_state")(), dict(self._instead), dict(self._back)

    def restore(self, state: tuple[Any, dict[str, str], dict[str, str]]) -> None:
        """Go back to what `save_state` gave in this dialogue."""
        self.env.get_wrapper_attr("restore")(state[0])
        self._instead, self._back = dict(state[1]), dict(state[2])

    def _substitute_words(self, said: str) -> str:
        if self._seed is not None:
            for word in content_words(said):
                if word in self._known and word not in self._instead:
                    self._instead[word] = new = self._new(word)
                    self._back[new] = word
        return replace_words(said, self._instead)

    def _new(self, word: str) -> str:
        """The word instead: one that is in nobody's place yet."""
        assert self._seed is not None
        rng = np.random.default_rng((self._seed, crc32(word.encode())))
        while (new := draw_word(self._vocabulary, rng)) in self._back:
            pass
        return new


@cache
def find_vocabulary() -> tuple[str, ...]:
    """The words that are people's own, heard in 256 dialogues."""
    from demonstrations import find_substitutable_words

    from rlver_gym.bench.export.demonstrations import AGENTS, generate_demonstrations

    return tuple(find_substitutable_words(list(generate_demonstrations(AGENTS, 256))))


def make_env(share: float = 0.9, **options: Any) -> WordSubstitution:
    """RLVER-Empathy-v0 with words exchanged in a share of the dialogues, for `train --env`."""
    from rlver_gym.environment.make import make_for_loop

    env = make_for_loop("RLVER-Empathy-v0", **options)
    return WordSubstitution(env, find_vocabulary(), share)


gym.register("Substituted-v0", make_env)
