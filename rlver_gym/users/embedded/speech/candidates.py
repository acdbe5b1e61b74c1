"""Candidates: what may answer a question, each with how probable it is to be what was asked for."""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from rlver_gym.conversation.find import FACTUAL
from rlver_gym.conversation.parse import Question, QuestionKind
from rlver_gym.conversation.sentences import Sentence
from rlver_gym.core.inquiries import Inquiry, Remark
from rlver_gym.text.tokens import PRONOUNS, YOU
from rlver_gym.users.embedded.speech.answer import AnswerLookup, wordings
from rlver_gym.users.embedded.speech.moment import Moment
from rlver_gym.users.embedded.speech.names import answer_name, tells_name, whose_name
from rlver_gym.users.embedded.speech.react import REACTION_TO, YOU_WORDS
from rlver_gym.users.embedded.speech.tell import stands_alone

_FEELING_ASKED, _THREAD_ASKED = 0.35, 0.07
"""How probable it is that a feeling named in a yes-or-no question, or a matter touched, is what was
asked.
"""
_PER_NAT = 0.12
"""What each nat of words shared between a question and a line adds."""
_MOST_SHARED = 5.0
_OF_FACTS = 1.0
"""What it costs to answer who, when, where and how many with anything but a fact."""
_LEAST, _LEAST_FACT = -1.9, -1.25
"""The scores from which lines and facts are an answer."""
_OFF_TOPIC = 0.2
"""The probability from which a question has nothing to do with them."""
_NOT_THE_FACT = 0.1
"""How probable it is at least that a question does not ask for the fact that fits it best."""
_MISSED = -3
"""The change from which on somebody who asks whether they got it right did not."""
_SAFE = 0.7
"""The probability from which somebody asks whether they are in danger."""
_WRONG_KIND = 2.0
"""What it costs to answer in half a sentence to another kind of question than it answers, in nats.
"""
_OF_THEMSELVES = 1.5
"""What it costs to answer with something about the person a question that seems to be about the
story.
"""
_NOBODY = 1.2
"""What it costs to take a question for one about somebody when it names nobody."""
_PERSONAL = frozenset(
    map(
        str,
        (Inquiry.ABOUT_YOU, Inquiry.REST, Inquiry.SLEEP, Inquiry.EATING, Inquiry.NOW, Inquiry.DAYS),
    )
)

_ASKS_OWN_FACT = re.compile(r"(?:where (?:were|do|did)|how old (?:are|were)|when were) you\b")


class Candidate(NamedTuple):
    """Something that may answer a question."""

    score: float
    """In nats, as the logarithm of a probability."""
    lines: Sequence[str]
    found: AnswerLookup | None
    """A fact, instead of lines."""


def answers_to(moment: Moment, sentence: Sentence) -> list[Candidate]:
    """What may answer a question, best first: a name; a fact, the lines of an inquiry, of a
    feeling, of a matter that it touches.
    """
    whose = None if sentence.question is None else whose_name(sentence.question)
    if whose is not None:
        named = moment.select_unsaid(answer_name(moment, whose))
        return [Candidate(0.0, named[:1], None)] if named else _find_name(moment, sentence, whose)
    label, probability = sentence.classification.ranked[0]
    if (
        label == Remark.OFFTOPIC
        and probability >= _OFF_TOPIC
        and YOU_WORDS.isdisjoint(sentence.words)
    ):
        return []
    tokens = moment.known.tokens(sentence.words) - PRONOUNS - {YOU}
    found: list[Candidate] = []
    match = moment.answerer.find(sentence.question) if sentence.question is not None else None
    factual = 0.0
    if match is not None and match.match is not None:
        score = math.log(match.match.probability + 1e-9) - _misfit(moment, sentence, match)
        factual = -math.log(max(1 - math.exp(score), _NOT_THE_FACT))
        if score >= _LEAST_FACT:
            found.append(Candidate(score, (), match))
    if match is not None:
        factual += (1 - match.none) * _OF_FACTS * is_factual(sentence)
    for label, probability in sentence.classification.ranked:
        if label == Inquiry.SAFE and probability < _SAFE:
            continue
        elsewhere = (
            _NOBODY if label.startswith("p_") and not _names_somebody(moment, sentence) else 0.0
        )
        _add(
            moment,
            found,
            math.log(probability) - factual - elsewhere,
            _of_label(moment, label, sentence),
            tokens,
        )
    if sentence.feelings and _is_yes_no(sentence):
        _add(
            moment,
            found,
            math.log(_FEELING_ASKED),
            moment.filter_by_trust(moment.repertoire.to_feeling(sentence.feelings[0])),
            tokens,
        )
    for matter in moment.repertoire.threads(tokens)[:2]:
        _add(moment, found, math.log(_THREAD_ASKED) - factual, moment.about(matter), tokens)
    return sorted([one for one in found if one.score >= _LEAST], key=lambda one: -one.score)


def _find_name(moment: Moment, sentence: Sentence, whose: tuple[str, ...]) -> list[Candidate]:
    """A fact that tells the name of something that is nobody of the story, such as a dog."""
    assert sentence.question is not None
    match = moment.answerer.find(sentence.question).match
    meant = moment.known.tokens(whose) - PRONOUNS - {YOU}
    if match is None or meant.isdisjoint(match.entry.body):
        return []
    return [
        Candidate(math.log(match.probability + 1e-9), (text,), None)
        for text in wordings(match.entry, moment.tone)
        if tells_name(text)
    ][:1]


def _misfit(moment: Moment, sentence: Sentence, found: AnswerLookup) -> float:
    """What speaks against a fact that its words do not show, in nats."""
    assert found.match is not None
    entry = found.match.entry
    cost = 0.0
    if found.question.kind not in entry.asks and not all(
        map(stands_alone, wordings(entry, moment.tone))
    ):
        cost += _WRONG_KIND
    if entry.is_personal and not any(
        label in _PERSONAL for label, _ in sentence.classification.ranked[:3]
    ):
        cost += _OF_THEMSELVES
    return cost


def _add(
    moment: Moment,
    found: list[Candidate],
    score: float,
    lines: Sequence[str],
    tokens: frozenset[str],
) -> None:
    """Add those lines of a list that were not said and have most to do with what was asked."""
    fresh = moment.select_unsaid(lines)
    if fresh:
        each = [
            min(_MOST_SHARED, moment.known.weigh(tokens & moment.repertoire.tokens_of(line)))
            for line in fresh
        ]
        best = [line for line, shared in zip(fresh, each, strict=True) if shared >= max(each) - 1.0]
        found.append(Candidate(score + _PER_NAT * max(each), tuple(best), None))


def _of_label(moment: Moment, label: str, sentence: Sentence) -> Sequence[str]:
    if label == Inquiry.HEAR_ME:
        return moment.hints
    if label == Remark.CHECK and moment.appraisal.change <= _MISSED:
        return moment.manner.unconfirmed
    if label == Remark.CHECK or label == Remark.OFFER:
        return getattr(moment.manner, REACTION_TO[Remark(label)])
    if label.startswith("p_"):
        other = moment.answerer.resolve_person(sentence.words)
        return (
            moment.filter_by_trust(moment.repertoire.about_other(other, label[2:])) if other else ()
        )
    return moment.filter_by_trust(moment.repertoire.to_inquiry(label))


def _names_somebody(moment: Moment, sentence: Sentence) -> bool:
    tokens = moment.known.tokens(sentence.words)
    return bool(tokens & (moment.known.person_tokens | PRONOUNS))


def _is_yes_no(sentence: Sentence) -> bool:
    return (
        sentence.question is not None
        and sentence.question.kind is QuestionKind.YES_NO
        and not YOU_WORDS.isdisjoint(sentence.words)
    )


def is_factual(sentence: Sentence) -> bool:
    """Whether it asks who, when, where, how long or how many."""
    return sentence.question is not None and sentence.question.kind in FACTUAL


def asks_own_fact(question: Question) -> bool:
    """Whether it asks for something that anybody knows of themselves: "Where were you born?"."""
    return _ASKS_OWN_FACT.match(" ".join(question.words)) is not None
