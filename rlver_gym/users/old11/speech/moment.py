"""Moment: who was told what so far, what was just said, and the choice among lines. Pure."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from rlver_gym.core.dialogue import Appraisal, Dialogue
from rlver_gym.core.emotion import Band, Tone
from rlver_gym.core.user import Scene, disclosure_depth
from rlver_gym.core.words import content_stems, is_short, split_sentences, split_words
from rlver_gym.users.embedded.hearing.choices import join_choices
from rlver_gym.users.embedded.hearing.names import compile_introductions
from rlver_gym.users.embedded.hearing.recognise import (
    Classification,
    SentenceInput,
    classify_sentences,
)
from rlver_gym.users.embedded.hearing.tokens import PRONOUNS, token_of
from rlver_gym.users.embedded.hearing.utterance_parser import (
    Ask,
    Sentence,
    Utterance,
    parse_utterance,
)
from rlver_gym.users.embedded.speech.card import Card, Topic, compile_card

_NEARLY = 0.65
"""The share of a line's content words from which it says what an earlier line said."""


class SplitLine(NamedTuple):
    """A line cut into sentences."""

    text: str
    folded: frozenset[str]
    """Its sentences, case-folded, by which it is known again: the short ones ("Yes.") only where
    there are no others.
    """
    stems: frozenset[str]


def normalise_sentence(sentence: str) -> str:
    """By what a sentence is known again, however it was typed."""
    return sentence.casefold().rstrip(".")


@lru_cache(maxsize=65_536)
def split_line(line: str) -> SplitLine:
    sentences = list(map(normalise_sentence, split_sentences(line)))
    telling = frozenset(one for one in sentences if not is_short(one))
    return SplitLine(line, telling or frozenset(sentences), content_stems(line))


def draw_uniform(scene: Scene, turn: int, purpose: str, words: Sequence[str]) -> float:
    """A number in [0, 1), the same on every machine."""
    key = f"{scene.seed}/{scene.persona.id}/{turn}/{purpose}/{' '.join(words[:20])}"
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big") / 2**64


_INVITES = re.compile(
    r"^\W*(?:(?:please|just|so|and|ok|okay|yes|well|oh|then|but|maybe|now)\b\W*)*(?:tell|say|go on"
    r"|keep|continue|take your|i'm (?:all|listening)|i am listening|i'd|i want|can|could|would|will"
    r"|you can|feel free|what|do|is there|then\W*$|\W*$)",
    re.IGNORECASE,
)


def _parse_utterance(text: str) -> Utterance:
    """An utterance with either-or questions as one, and with "and then" in the middle of a
    statement as no invitation to go on.
    """
    heard = parse_utterance(text)
    sentences = join_choices(text, heard.sentences)
    if any(one.ask is Ask.MORE and not _INVITES.match(one.text) for one in sentences):
        sentences = tuple(_drop_false_invitation(one) for one in sentences)
    return heard._replace(sentences=sentences)


def _drop_false_invitation(sentence: Sentence) -> Sentence:
    if sentence.ask is not Ask.MORE or _INVITES.match(sentence.text):
        return sentence
    return sentence._replace(ask=Ask.HOW if "?" in sentence.text else None)


def _complete_elliptic_questions(heard: Utterance, dialogue: Dialogue) -> Utterance:
    """With "Why not?" and its kind as what they ask after the question before."""
    if not dialogue.turns or not any(_is_ellipsis(one) for one in heard.sentences):
        return heard
    before = parse_utterance(dialogue.turns[-1].utterance).questions
    words = before[-1].asked if before else split_words(dialogue.user_lines[-1])
    return heard._replace(
        sentences=tuple(
            one._replace(asked=(*one.asked, *words)) if _is_ellipsis(one) else one
            for one in heard.sentences
        )
    )


def _is_ellipsis(sentence: Sentence) -> bool:
    return (
        sentence.ask in (Ask.WHY, Ask.WHEN, Ask.WHERE, Ask.WHO, Ask.HOW, Ask.HOW_LONG)
        and len(sentence.asked) <= 2
    )


class Moment:
    """One utterance, to be answered by one person after all that was said."""

    def __init__(
        self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal
    ) -> None:
        """`emotion` is that after the appraisal."""
        persona = scene.persona
        self.scene, self.emotion, self.dialogue, self.appraisal = (
            scene,
            emotion,
            dialogue,
            appraisal,
        )
        self.tone: Tone = Band.of(emotion).tone
        self.turn = len(dialogue.turns)
        self.heard = _complete_elliptic_questions(
            _parse_utterance(dialogue.utterance or ""), dialogue
        )
        self.card: Card = compile_card(persona)
        self.manner = persona.person.manner
        self.lines = dialogue.user_lines
        self.depth = disclosure_depth(emotion, appraisal.change, self.turn)
        """How deep they tell: 1 to anyone, 2 when heard, 3 when trusted."""
        plain = list(map(compile_introductions(persona.situation).remove, self.lines))
        self.last_line = plain[-1]
        self._split = [split_line(line) for line in plain]
        self.said = frozenset().union(*[split_line(line).folded for line in {*plain, *self.lines}])
        self._said_stems = frozenset().union(*(one.stems for one in self._split))
        self._labels: list[Classification] | None = None
        self._mentioned: list[str] | None = None

    def labels(self, at: int) -> Classification:
        if self._labels is None:
            self._labels = classify_sentences(
                [
                    SentenceInput(
                        one.asked if one.ask is not None else one.words, one.ask is not None
                    )
                    for one in self.heard.sentences
                ],
                self.card.facts.name_words,
            )
        return self._labels[at]

    def drop_said(self, lines: Iterable[str]) -> list[str]:
        """Those of which nothing was said yet, in these or nearly these words."""
        return [
            line
            for line in lines
            if self.said.isdisjoint((split := split_line(line)).folded)
            and not self._is_near_duplicate(split.stems)
        ]

    def _is_near_duplicate(self, stems: frozenset[str]) -> bool:
        least = _NEARLY * len(stems)
        return (
            len(stems) >= 3
            and len(stems & self._said_stems) >= least
            and any(len(stems & one.stems) >= least for one in self._split)
        )

    def drop_guarded(self, lines: Sequence[str]) -> Sequence[str]:
        """Those that they would say now: to strangers not the most open one, while there is
        another.
        """
        if self.depth > 1 or len(lines) < 2:
            return lines
        return lines[:-1] if self.drop_said(lines[:-1]) else lines

    def choose(self, purpose: str, lines: Sequence[str]) -> str:
        """One of the lines, by what was said and the seed."""
        return lines[int(self.draw(purpose) * len(lines)) % len(lines)]

    def draw(self, purpose: str) -> float:
        """A number in [0, 1), by what was said and the seed."""
        return draw_uniform(self.scene, self.turn, purpose, self.heard.words)

    def wordings(self, topic: Topic) -> list[str]:
        """The ways of telling a topic in the mood that they are in, the fitting one first."""
        if topic.kind == "disclosure":
            normal, high, low = topic.lines
            return [{"high": high, "normal": normal, "low": low}[self.tone]]
        toned = {"high": topic.high, "low": topic.low}.get(self.tone)
        return [*([toned] if toned else []), *topic.lines]

    def mentioned(self) -> list[str]:
        """Tokens of the people who were spoken of, the last ones first."""
        if self._mentioned is None:
            utterances = [turn.utterance for turn in self.dialogue.turns[-2:]]
            texts = [self.dialogue.utterance or "", self.lines[-1], *reversed(utterances)]
            texts += reversed(self.lines[-5:-1])
            self._mentioned = list(dict.fromkeys(chain(*map(self.card.people_in, texts))))
        return self._mentioned

    def referents(self, words: Sequence[str]) -> list[str]:
        """Whom the pronouns among some words mean: the last one mentioned who is spoken of so."""
        pronouns = self.card.tokens(words) & PRONOUNS
        if not pronouns:
            return []
        spoken = {one.token: one.pronoun for one in self.card.facts.people}
        found = []
        for pronoun in sorted(pronouns):
            of_kind = [one for one in self.mentioned() if spoken.get(one) == pronoun]
            alone = [token for token, used in spoken.items() if used == pronoun]
            if of_kind or len(alone) == 1:
                found.append((of_kind or alone)[0])
        return found

    def whom(self, words: Sequence[str]) -> str | None:
        """The token of the one of the story whom some words name, or whom their pronoun means."""
        tokens = filter(None, map(token_of, words))
        named = [token for token in map(self.card.facts.alias, tokens) if token]
        if named:
            return named[-1]
        meant = self.referents(words)
        return meant[0] if meant else None

    def was_asked(self, sentence: Sentence) -> bool:
        """Whether the agent asked nearly the same before."""
        tokens = self.card.tokens(sentence.asked)
        return any(
            len(tokens & other) >= 0.7 * max(1, len(tokens | other))
            for turn in self.dialogue.turns[-5:]
            for question in parse_utterance(turn.utterance).questions
            if question.ask is not Ask.MORE
            for other in (self.card.tokens(question.asked),)
        )


_BEGINS = re.compile(r"^(?:He|She|They)\b(?!')")


def put_name_first(line: str, name: str) -> str:
    """The line with the one it is about by name, where nobody has just been named."""
    return _BEGINS.sub(name, line, count=1)
