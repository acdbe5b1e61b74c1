"""Feelings that words name. Knows no card."""

from collections.abc import Sequence

from rlver_gym.core.inquiries import EXAMPLES, Feeling

_OF_WORD = {word: feeling for feeling in Feeling for word in EXAMPLES["feeling"][feeling].split()}
_NAMING = frozenset(_OF_WORD)


def find_feelings(words: Sequence[str]) -> tuple[Feeling, ...]:
    """The feelings that a sentence of these lower-case words names, in order, each once."""
    if _NAMING.isdisjoint(words):
        return ()
    found: list[Feeling] = []
    for at, word in enumerate(words):
        feeling = _OF_WORD.get(word)
        if feeling is None:
            continue
        before = words[at - 1] if at else ""
        if word in ("down", "low") and before not in ("feel", "feeling", "felt", "so", "you"):
            if not (
                word == "down"
                and at >= 2
                and words[at - 2] in ("let", "lets")
                and before in ("you", "me")
            ):
                continue
            feeling = Feeling("disappointed")
        if word == "lost" and before not in (
            "feel",
            "feeling",
            "felt",
            "so",
            "bit",
            "you're",
            "are",
        ):
            continue
        if word in ("miss", "missing") and before not in (
            "you",
            "must",
            "really",
            "you're",
            "and",
            "still",
            "to",
        ):
            continue
        if word == "blame" and "yourself" not in words:
            continue
        if feeling not in found:
            found.append(feeling)
    return tuple(found)
