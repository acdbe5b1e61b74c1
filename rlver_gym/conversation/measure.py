"""Measure: how well a person converses, from the text of dialogues alone, whoever the user is:
answered, declined and missed questions, corrections, repetition, first mentions.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import NamedTuple

import numpy as np

from rlver_gym.conversation.claims import check_claim
from rlver_gym.conversation.direct import ask_directly
from rlver_gym.conversation.find import make_query, probabilities
from rlver_gym.conversation.knowledge import Knowledge, knowledge
from rlver_gym.conversation.parse import ParsedUtterance, parse_utterance
from rlver_gym.conversation.repertoire import repertoire
from rlver_gym.conversation.sentences import Sentence, classify_sentences
from rlver_gym.core.dialogue import Dialogue
from rlver_gym.core.persona import Persona
from rlver_gym.core.words import content_stems, is_short, split_sentences, split_words
from rlver_gym.text.names import introductions
from rlver_gym.text.tokens import PRONOUNS, YOU

SAME = 0.8
"""Share of content words from which two sentences count as the same."""
_POSSIBLE = 0.1
"""The probability from which an inquiry may be meant."""
_PLAIN = frozenset({"yes", "no", "yeah", "nope", "not"})
_DECLINES = re.compile(
    r"\b(?:i (?:don't|do not) know|no idea|not sure|i(?:'d| would) rather not|i (?:can't|couldn't)"
    r" (?:say|tell)|don't want to (?:say|talk)|not (?:now|yet)|maybe later)\b",
    re.IGNORECASE,
)
_CORRECTS = re.compile(
    r"^\W*(?:no|nah|nope|not (?:quite|exactly|really)|actually|wrong|that's (?:not|wrong)|hang"
    r" on|it's .{2,40}, not)\b",
    re.IGNORECASE,
)


class ConversationCounts(NamedTuple):
    """Counts over some dialogues."""

    questions: int
    answered: int
    declined: int
    mistakes: int
    """Statements by the agent that the card contradicts."""
    corrected: int
    sentences: int
    repeated: int
    """Sentences that the person had said before in the same dialogue."""
    strangers: int
    """People whom the person names for the first time without saying who they are."""

    @property
    def missed(self) -> int:
        """Questions neither answered nor declined."""
        return self.questions - self.answered - self.declined

    def __add__(self, other: object) -> "ConversationCounts":
        """Both together."""
        if not isinstance(other, ConversationCounts):
            return NotImplemented
        return ConversationCounts(
            *(one + another for one, another in zip(self, other, strict=True))
        )


NO_COUNTS = ConversationCounts(0, 0, 0, 0, 0, 0, 0, 0)


def measure_dialogue(persona: Persona, dialogue: Dialogue) -> ConversationCounts:
    """Count in one dialogue, English alone: other languages have no parse yet and count as
    empty.
    """
    if persona.language != "en":
        return NO_COUNTS
    known = knowledge(persona)
    found = NO_COUNTS
    earlier_text = dialogue.opening
    for turn in dialogue.turns:
        found += _measure_turn(persona, known, turn.utterance, turn.reply, earlier_text)
        earlier_text = f"{earlier_text}\n{turn.utterance}\n{turn.reply}"
    sentences = [
        one.casefold()
        for line in dialogue.user_lines
        for one in split_sentences(line)
        if not is_short(one)
    ]
    return found._replace(sentences=len(sentences), repeated=len(sentences) - len(set(sentences)))


def _measure_turn(
    persona: Persona, known: Knowledge, utterance: str, reply: str, earlier_text: str
) -> ConversationCounts:
    direct = ask_directly(utterance)
    parsed = parse_utterance(direct)
    answered = declined = 0
    questions = [
        sentence
        for sentence in classify_sentences(direct, parsed, known.names)
        if sentence.question is not None
    ]
    for sentence in questions:
        if is_answered(persona, sentence, reply):
            answered += 1
        elif _is_declined(persona, reply):
            declined += 1
    mistakes = _mistakes(known, parsed)
    corrected = mistakes if mistakes and _is_corrected(persona, reply) else 0
    strangers = sum(
        one.name in reply
        and not one.name_pattern.search(f"{earlier_text}\n{utterance}")
        and content_stems(reply).isdisjoint(one.about)
        for one in introductions(persona.situation).each
        if one.about
    )
    return ConversationCounts(
        len(questions), answered, declined, mistakes, corrected, 0, 0, strangers
    )


def is_answered(persona: Persona, sentence: Sentence, reply: str) -> bool:
    """Whether a reply says most of what one of the lines says that fit the question, or a plain yes
    or no to a guess.
    """
    known = knowledge(persona)
    reply_tokens = known.tokens(split_words(reply)) - PRONOUNS - {YOU}
    for text in _fitting(persona, known, sentence):
        tokens = known.tokens(split_words(text)) - PRONOUNS - {YOU}
        if tokens and known.weigh(tokens & reply_tokens) >= 0.5 * known.weigh(tokens):
            return True
    question = sentence.question
    return question is not None and question.is_guess and bool(_PLAIN & set(split_words(reply)[:3]))


def _fitting(persona: Persona, known: Knowledge, sentence: Sentence) -> Iterator[str]:
    """The lines of the card that answer a question: the facts nearest to it, and what the inquiries
    ask for that it may be.
    """
    if sentence.question is not None:
        each, _ = probabilities(known, make_query(known, sentence.question, ()))
        for number in np.flatnonzero(each >= max(_POSSIBLE, 0.5 * float(each.max()))).tolist():
            yield from known.entries[number].texts
    lines = repertoire(persona)
    for label, probability in sentence.classification.ranked:
        if probability >= _POSSIBLE:
            yield from lines.to_inquiry(label)
            for other in known.people if label.startswith("p_") else ():
                yield from lines.about_other(other.token, label[2:])
    for feeling in sentence.feelings:
        yield from lines.to_feeling(feeling)


def _is_declined(persona: Persona, reply: str) -> bool:
    manner = persona.person.manner
    return bool(_DECLINES.search(reply)) or any(
        line in reply for line in (*manner.unknown, *manner.not_yet, *manner.unsure)
    )


def _mistakes(known: Knowledge, parsed: ParsedUtterance) -> int:
    return sum(check_claim(known, claim).fault is not None for claim in parsed.claims)


def _is_corrected(persona: Persona, reply: str) -> bool:
    return bool(_CORRECTS.search(reply)) or any(
        line in reply for line in persona.person.manner.corrects
    )


def shared_sentence_rate(one: Sequence[str], other: Sequence[str]) -> float:
    """Share of the sentences of one person's lines that also stand in the other's, by content
    words; the mean of both directions, in [0, 1].
    """
    first, second = _contents(one), _contents(other)
    if not first or not second:
        return 0.0
    return fmean(
        [
            fmean(any(_is_same(a, b) for b in second) for a in first),
            fmean(any(_is_same(b, a) for a in first) for b in second),
        ]
    )


def _contents(lines: Iterable[str]) -> list[frozenset[str]]:
    return [
        words
        for line in lines
        for sentence in split_sentences(line)
        if len(words := content_stems(sentence)) >= 2
    ]


def _is_same(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) >= SAME * max(len(one), len(other))


class SharedSentences(NamedTuple):
    """How much dialogues of one person have in common; shares in [0, 1]."""

    mean: float
    """Over all groups, of the means over their pairs."""
    most: float
    """Of the pair that has most in common."""
    pair: tuple[str, str]
    """Its names."""


def measure_shared_sentences(
    groups: Iterable[Mapping[str, Sequence[str]]],
) -> SharedSentences | None:
    """How many sentences the dialogues of each group share, pair by pair: by name, the person's
    lines. None when there is no pair.
    """
    each = [
        [
            (shared_sentence_rate(group[one], group[other]), (one, other))
            for one, other in combinations(sorted(group), 2)
        ]
        for group in groups
    ]
    pairs = [pair for of_group in each for pair in of_group]
    if not pairs:
        return None
    most, names = max(pairs)
    return SharedSentences(
        fmean(fmean(share for share, _ in of_group) for of_group in each if of_group), most, names
    )


def sentences_in_most_dialogues(
    dialogues: Iterable[Dialogue], most: int = 5
) -> list[tuple[str, int]]:
    """What the person says in most dialogues, once counted in each, openings aside."""
    count: Counter[str] = Counter()
    for dialogue in dialogues:
        count.update(
            {sentence for line in dialogue.user_lines[1:] for sentence in split_sentences(line)}
        )
    return count.most_common(most)
