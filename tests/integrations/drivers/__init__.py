"""One driver a framework: `play` holds an episode through it, from beginning to end.

`play(persona, seed, utterances, user)` gives what was earned and read until the episode ended or
nothing was left to say. `user` is a name or "module:Name", as everywhere.
"""

import re
from typing import NamedTuple


class Played(NamedTuple):
    """What a framework gave of an episode."""

    rewards: list[float]
    """Of the turns in which the user did not fail."""
    texts: list[str] | None
    """The person's words as the policy read them, the last ones where it is given them; None where
    it sees numbers.
    """
    failed: bool = False
    """Whether the framework was told that the user failed."""


def find_words(chat):
    """The person's words in a chat template with <|im_start|>."""
    return re.findall(r"<\|im_start\|>user\n(.*?)<\|im_end\|>", chat, re.DOTALL)
