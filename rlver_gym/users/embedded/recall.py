"""Recall: what was said before the last utterance, and that utterance, heard. It travels with the
dialogue, so a step hears two texts: what the person answered last, and what the agent says now.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rlver_gym.core.dialogue import Dialogue
from rlver_gym.users.embedded.compile import Card
from rlver_gym.users.embedded.gate import remember_salad
from rlver_gym.users.embedded.hear import Heard, hear, hear_many

_NOTHING: frozenset = frozenset()


class Past(NamedTuple):
    """What was said before the last utterance."""

    last: Heard  # the person's last words
    told: frozenset[int]  # tokens of all that the person said
    told_runs: frozenset[int]
    told_words: frozenset[str]
    told_vectors: np.ndarray
    lines: frozenset[tuple[str, ...]]  # the sentences of the person
    own: frozenset[int]  # tokens of what the agent said
    own_runs: tuple[frozenset[int], ...]  # of each of its utterances
    own_lines: frozenset[tuple[str, ...]]  # its sentences of more than two words
    asked: tuple[frozenset[int], ...]  # tokens of each question of the agent
    asked_without_uptake: int  # how many of its last utterances asked and took up nothing
    salad: tuple[float, ...]  # how far its utterances hang together, as the gate remembers it


class Moment(NamedTuple):
    """The last utterance, and what was said before it."""

    card: Card
    past: Past
    heard: Heard


def recall(card: Card, dialogue: Dialogue) -> Moment:
    """The moment of a dialogue's utterance; kept with the dialogue."""
    return recall_many([(card, dialogue)])[0]


def recall_many(dialogues: Sequence[tuple[Card, Dialogue]]) -> list[Moment]:
    """The same of several dialogues, heard at once."""
    fresh = [
        (card, dialogue)
        for card, dialogue in dialogues
        if not _fits(dialogue.memory.now, card, dialogue.utterance)
    ]
    if fresh:
        texts = [dialogue.utterance or "" for _, dialogue in fresh]
        heard = hear_many(texts, [card.names for card, _ in fresh])
        for (card, dialogue), words in zip(fresh, heard, strict=True):
            dialogue.memory.now = Moment(card, _read_past(card, dialogue), words)
            dialogue.memory.before = None  # not needed any more
    return [dialogue.memory.now for _, dialogue in dialogues]


def _fits(moment: object, card: Card, utterance: str | None) -> bool:
    """Whether it is the moment of this utterance."""
    return isinstance(moment, Moment) and moment.card is card and moment.heard.text == utterance


def _read_past(card: Card, dialogue: Dialogue) -> Past:
    before, turns = dialogue.memory.before, dialogue.turns
    if (
        turns
        and _fits(before, card, turns[-1].utterance)
        and len(before.past.own_runs) + 1 == len(turns)
    ):
        return _go_on(before, turns[-1].reply)
    past = _begin(dialogue.opening)
    for turn in turns:
        past = _go_on(Moment(card, past, hear(turn.utterance, card.names)), turn.reply)
    return past


def _begin(opening: str) -> Past:
    line = hear(opening, is_line=True)
    return Past(
        line, line.tokens, line.runs, frozenset(line.words), line.vectors[:-1],
        hash_sentences(line), _NOTHING, (), _NOTHING, (), 0, (),
    )  # fmt: skip


def _go_on(before: Moment, reply: str) -> Past:
    card, past, heard = before
    line = hear(reply, is_line=True)
    bare = heard.asks and not takes_up(past, heard)
    return Past(
        line,
        past.told | line.tokens,
        past.told_runs | line.runs,
        past.told_words.union(line.words),
        np.concatenate([past.told_vectors, line.vectors[:-1]]),
        past.lines | hash_sentences(line),
        past.own | heard.tokens,
        (*past.own_runs, heard.runs),
        past.own_lines.union([one.words for one in heard.sentences if len(one.words) > 2]),
        (*past.asked, *[one.tokens for one in heard.sentences if one.ask]),
        past.asked_without_uptake + 1 if bare else 0,
        past.salad + remember_salad(heard, card.words),
    )


def takes_up(past: Past, heard: Heard) -> bool:
    """Whether an utterance has a word of what was told, but for those that the agent had."""
    return not heard.tokens.isdisjoint(past.told - past.own)


def hash_sentences(line: Heard) -> frozenset[tuple[str, ...]]:
    """By what sentences of the person are known again, however they are typed: short ones ("Yes.")
    only where there are no others.
    """
    long = [sentence.words for sentence in line.sentences if len(sentence.words) > 3]
    return frozenset(long or [sentence.words for sentence in line.sentences])
