"""Search in dialogues: words in what was said, and reasons, with the turn that holds them."""

import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from rlver_gym.core.dialogue import ReasonCode
from rlver_gym.environment.episode import Episode

Part: TypeAlias = tuple[str, frozenset[str]]
_QUOTED = re.compile(r":?\s*“.*", re.DOTALL)
_MAX_SENTENCES = 12
"""Of one code of reasons: what a model writes anew each time is no choice."""


def search(dialogues: Sequence[Sequence[Part]], q: str, reason: str = "") -> list[tuple[int, int]]:
    """The numbers of the dialogues that hold every word of `q` and the `reason`, and the turn that
    holds most of them (0: none). A word "reason:CODE" means that a reason of that code occurs;
    `reason` is a sentence of `list_sentences`.
    """
    words = q.casefold().split()
    codes = {word.removeprefix("reason:") for word in words if word.startswith("reason:")}
    codes |= {reason.casefold()} - {""}
    plain = {word for word in words if not word.startswith("reason:")}
    hits = []
    for number, parts in enumerate(dialogues):
        held = [
            {word for word in plain if word in text} | {code for code in codes if code in here}
            for text, here in parts
        ]
        if set().union(*held) >= plain | codes:
            hits.append((number, max(range(len(held)), key=lambda turn: len(held[turn]))))
    return hits


def parts_of(episode: Episode) -> list[Part]:
    """The opening and each turn: text, and of the reasons codes, families and sentences."""
    first = [*episode.key[:2], episode.need, episode.disposition, episode.opening]
    parts = [("\n".join(first).casefold(), frozenset[str]())]
    for turn in episode.turns:
        reasons = turn.appraisal.reasons
        texts = [
            turn.utterance,
            turn.reply,
            turn.appraisal.thought,
            *(reason.note for reason in reasons),
        ]
        codes = {
            name.casefold()
            for reason in reasons
            for name in (reason.code, reason.code.partition(":")[0], _sentence_of(reason.note))
        }
        parts.append(("\n".join(texts).casefold(), frozenset(codes)))
    return parts


def _sentence_of(note: str) -> str:
    """What a note says, without the words that it quotes."""
    return _QUOTED.sub("", note)


def list_sentences(episodes: Iterable[Episode]) -> list[str]:
    """The sentences of reasons, to choose from: none of a code that is told in many."""
    told: dict[str, set[str]] = {}
    for episode in episodes:
        for turn in episode.turns:
            for reason in turn.appraisal.reasons:
                told.setdefault(reason.code, set()).add(_sentence_of(reason.note))
    told.pop(ReasonCode.ROUNDING, None)
    few = (sentences for sentences in told.values() if len(sentences) <= _MAX_SENTENCES)
    return sorted(set().union(*few) - {""})
