"""What an agent may say: any text up to a length. Checks and cleans it at the border."""

import re
from typing import Literal

from rlver_gym.io.errors import UtteranceError

# Control characters but tab, line feed: nobody says them, and terminals obey them.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def cleaned(utterance: object, max_chars: int, overlong: Literal["truncate", "error"]) -> str:
    """The utterance as it is heard: control characters (NUL, escape, …) left out, cut to `max_chars`.

    Raises UtteranceError when it is not a string, holds a lone surrogate, or is too long and `overlong` is "error".
    """
    if not isinstance(utterance, str):
        raise UtteranceError(f"an utterance must be a string, not {type(utterance).__name__}. Decode or join it first.")
    utterance = str.__getitem__(utterance, slice(None))  # a plain str: a subclass may lie about its length
    hidden = not utterance.isprintable()
    if hidden and (lone := _SURROGATE.search(utterance)):
        raise UtteranceError(
            f"the utterance holds a lone surrogate (U+{ord(lone.group()):04X}) at character {lone.start()}. Decode its bytes with errors='replace'."
        )
    if len(utterance) > max_chars:
        if overlong == "error":
            raise UtteranceError(
                f"the utterance has {len(utterance):,} characters, the card allows {max_chars:,}. Shorten it, or use a card with overlong: truncate."
            )
        utterance = utterance[:max_chars]
    return _CONTROL.sub("", utterance) if hidden else utterance
