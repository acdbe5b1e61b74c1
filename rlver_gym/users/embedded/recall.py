"""Recall: the last utterance, and what was said before it, kept small with the dialogue."""

from array import array
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from rlver_gym.core.dialogue import Dialogue
from rlver_gym.users.embedded.compile import Card
from rlver_gym.users.embedded.gate import FEWEST, weigh_salad
from rlver_gym.users.embedded.hear import Heard, Piece, hear, hear_many, join_pieces, split_line


class Utterance(NamedTuple):
    """What is kept of an utterance of the agent."""

    text: str
    tokens: tuple[int, ...]
    runs: Sequence[int]
    lines: tuple[int, ...]  # hashes of its sentences of more than three words
    asked: tuple[frozenset[int], ...]  # tokens of each question
    logit: float | None  # of its being salad; None for a short one


class Kept(NamedTuple):
    """What is kept of a dialogue: small, and mostly shared with others."""

    card: Card
    told: tuple[tuple[Piece, ...], ...] = ()  # the person's lines
    utterances: tuple[Utterance, ...] = ()
    asked_without_uptake: int = 0  # how many of its last utterances asked and took up nothing


class Moment:
    """The last utterance, heard, and what was said before it."""

    def __init__(self, kept: Kept, line: str, heard: Heard) -> None:
        """`line`: what the person said last."""
        pieces = split_line(line)
        self.card, told, self.utterances, self.asked_without_uptake = kept
        self.heard, self.last, self.pieces = heard, join_pieces(line, pieces), (*told, pieces)
        self.logit = weigh_salad(heard, self.card.words) if len(heard.words) >= FEWEST else None
        every = [piece for pieces in self.pieces for piece in pieces]
        parts = [piece.sentence for piece in every]
        lines = [[piece.sentence.words for piece in pieces] for pieces in self.pieces]
        # of all that the person said: tokens, runs, words, vectors, and what is known again
        self.told = frozenset(chain.from_iterable([part.topics for part in parts]))
        self.told_runs = frozenset(chain.from_iterable([part.runs for part in parts]))
        self.told_words = frozenset(chain.from_iterable([part.words for part in parts]))
        self.told_vectors = np.concatenate([self.last.vectors[:0], *[one.vector for one in every]])
        self.lines = frozenset(chain.from_iterable(map(select_long_sentences, lines)))
        self.own = frozenset(chain.from_iterable([one.tokens for one in self.utterances]))

    def keep(self) -> Kept:
        """What is kept of it when it has passed."""
        heard = self.heard
        lines = tuple([hash(part.words) for part in heard.sentences if len(part.words) > 3])
        asked = tuple([part.tokens for part in heard.sentences if part.ask])
        runs = array("q", heard.runs)
        utterance = Utterance(heard.text, tuple(heard.tokens), runs, lines, asked, self.logit)
        takes_up = not heard.tokens.isdisjoint(self.told - self.own)
        bare = self.asked_without_uptake + 1 if asked and not takes_up else 0
        return Kept(self.card, self.pieces, (*self.utterances, utterance), bare)


def recall(moments: Sequence[tuple[Card, Dialogue]]) -> list[Moment]:
    """The moments of the last utterances of dialogues, heard at once; kept with the dialogues."""
    recalled = [dialogue.memory.now for _, dialogue in moments]
    fresh = [
        (at, card, dialogue)
        for (at, (card, dialogue)), known in zip(enumerate(moments), recalled, strict=True)
        if not isinstance(known, Moment)
        or known.card is not card
        or known.heard.text != dialogue.utterance
    ]
    if fresh:
        texts = [dialogue.utterance or "" for *_, dialogue in fresh]
        every = hear_many(texts, [card.story.names for _, card, _ in fresh])
        for (at, card, dialogue), heard in zip(fresh, every, strict=True):
            kept, line = _recall_dialogue(card, dialogue), dialogue.user_lines[-1]
            recalled[at] = dialogue.memory.now = Moment(kept, line, heard)
    return recalled


def _recall_dialogue(card: Card, dialogue: Dialogue) -> Kept:
    """What was kept with the dialogue, or else all of it read again."""
    kept, turns = dialogue.memory.before, dialogue.turns
    if (
        isinstance(kept, Kept)
        and kept.card is card
        and len(kept.utterances) == len(turns) > 0
        and kept.utterances[-1].text == turns[-1].utterance
    ):
        return kept
    kept = Kept(card)
    for line, turn in zip(dialogue.user_lines, turns, strict=False):
        kept = Moment(kept, line, hear(turn.utterance, card.story.names)).keep()
    return kept


def select_long_sentences(line: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """By what sentences a line is known again: short ones only where there are no others."""
    return [words for words in line if len(words) > 3] or line
