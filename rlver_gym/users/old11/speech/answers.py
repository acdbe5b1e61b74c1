"""Answers: what may answer a question, each with how probable it is to be what was asked for."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rlver_gym.core.words import FUNCTION_WORDS, split_sentences, split_words
from rlver_gym.users.embedded.hearing.quantities import find_quantities
from rlver_gym.users.embedded.hearing.tokens import PRONOUNS, YOU, token_of
from rlver_gym.users.embedded.hearing.utterance_parser import FACTUAL, Ask, Sentence
from rlver_gym.users.embedded.hearing.vectors import SCALE, embed_text, is_common_word
from rlver_gym.users.embedded.hearing.words import PATTERNS, load_word_set
from rlver_gym.users.embedded.speech.card import Line, Topic
from rlver_gym.users.embedded.speech.claims import check_claims
from rlver_gym.users.embedded.speech.facts import DATES, RELATION_OF, RELATIONS, StoryPerson
from rlver_gym.users.embedded.speech.moment import Moment, put_name_first, split_line
from rlver_gym.users.embedded.speech.react import REACTION_TO

_FEELING_ASKED, _THREAD_ASKED = 0.35, 0.07
"""How probable it is that a feeling named in a yes-or-no question, or a matter touched, is what was
asked.
"""
_PER_NAT = 0.12
"""What each nat of words shared between a question and a line adds."""
_PER_LIKENESS = 1.2
"""What likeness from 0 to 1 adds, among lines for the same."""
_MOST_SHARED = 5.0
_LEAST, _LEAST_FACT = -1.9, -1.7
"""The scores from which lines and facts are an answer."""
_NOT_THE_FACT = 0.1
"""How probable it is at least that a question does not ask for the fact that fits it best."""
_MOST_NONE = 0.35
"""How probable it may be that none of the facts is what was asked for, where one is told."""
_LEAST_LABEL = 0.25
"""How probable what a question asks must be, where the lines for it share no word with it."""
_OFF_TOPIC = 0.2
_SAFE = 0.7
_OF_THEMSELVES = 1.0
"""What it costs to answer with something about the person what seems to be about the story."""
_NOBODY = 1.2
"""What it costs to take a question for one about somebody when it names nobody."""
_PERSONAL = frozenset({"about_you", "rest", "sleep", "eating", "now", "days"})
_YOU_WORDS = frozenset({"you", "your", "yourself", "u", "ur"})


class Answer(NamedTuple):
    """Something that may answer a question."""

    score: float
    """In nats, as the logarithm of a probability."""
    lines: Sequence[str]
    topic: Topic | None
    """The fact that it is from; None for other lines."""


def find_answers(moment: Moment, sentence: Sentence, at: int) -> list[Answer]:
    """What may answer a question, best first: facts, the lines of an inquiry, of a feeling, of a
    matter that it touches.
    """
    card = moment.card
    ranked = moment.labels(at).ranked
    label, probability = ranked[0]
    if label == "offtopic" and probability >= _OFF_TOPIC and _YOU_WORDS.isdisjoint(sentence.words):
        return []
    referents = moment.referents(sentence.asked)
    query = card.query(sentence, referents)
    shares, none = card.probabilities(query)
    asked = Line(
        sentence.asked, query.tokens - PRONOUNS - {YOU}, embed_text(sentence.asked) / SCALE
    )
    found: list[Answer] = []
    factual = 0.0
    is_personal = any(name in _PERSONAL for name, _ in ranked[:3])
    for number in shares.argsort(kind="stable")[::-1][:4].tolist():
        topic = card.topics[number]
        if topic.kind not in ("fact", "disclosure", "background") or none > _MOST_NONE:
            continue
        if card.says_who[number] and sentence.ask not in _ASK_WHO:
            continue
        score = math.log(float(shares[number]) + 1e-9)
        if topic.is_personal and not is_personal and not query.people:
            score -= _OF_THEMSELVES * (YOU not in query.tokens)
        if not found:
            factual = -math.log(max(1 - math.exp(score), _NOT_THE_FACT))
        if score >= _LEAST_FACT - 0.6 * bool(found):
            lines = [
                line
                for line in moment.wordings(topic)
                if _fits_question_kind(moment, sentence, line)
            ]
            if lines:
                found.append(Answer(score, lines, topic))
    factual += (1 - none) * (sentence.ask in FACTUAL)
    if PATTERNS["harm"].search(sentence.text):  # whatever else it may ask
        found, factual, ranked = [], 0.0, [("safe", 1.0)]
    for label, probability in ranked:
        if (label == "safe" and probability < _SAFE) or label == "happened":
            continue  # the opening has said what happened
        elsewhere = _NOBODY if label.startswith("p_") and not (query.people or referents) else 0.0
        lines = _find_lines_for_label(moment, label, sentence)
        lines = [line for line in lines if _fits_question_kind(moment, sentence, line)]
        if probability < _LEAST_LABEL and label not in _TO_OFFERS:
            lines = [one for one in lines if not asked.tokens.isdisjoint(card.line(one).tokens)]
        _add_best_lines(moment, found, asked, math.log(probability) - factual - elsewhere, lines)
    if (
        sentence.feelings
        and sentence.ask is Ask.YES_NO
        and not _YOU_WORDS.isdisjoint(sentence.words)
    ):
        number = card.number.get(("feeling", str(sentence.feelings[0])))
        if number is not None:
            lines = moment.drop_guarded(card.topics[number].lines)
            _add_best_lines(moment, found, asked, math.log(_FEELING_ASKED), lines)
    touched = [
        (weight, topic)
        for topic in card.threads
        if not asked.tokens.isdisjoint(topic.about)
        and (weight := card.weigh(asked.tokens & topic.about)) > 1.8
    ]
    touched = [topic for _, topic in sorted(touched, key=lambda one: -one[0])]
    for topic in touched[:2]:
        lines = [_put_name_first(moment, topic, line) for line in moment.drop_guarded(topic.lines)]
        _add_best_lines(moment, found, asked, math.log(_THREAD_ASKED) - factual, lines)
    return sorted([one for one in found if one.score >= _LEAST], key=lambda one: -one.score)


_TO_OFFERS = frozenset({"check", "offer", "hear_me"})
_ASK_WHO = frozenset({Ask.WHO, Ask.ABOUT, Ask.WHOM})
_COUNTS = load_word_set("saying how many")
_TIMES = load_word_set("saying when")
_ANYBODY = load_word_set("saying who")


def _fits_question_kind(moment: Moment, sentence: Sentence, line: str) -> bool:
    """Whether a line may answer a question of its kind: a time when, a number how many, somebody
    who, and no yes or no where none was asked for.
    """
    ask = sentence.ask
    if ask is Ask.YES_NO or ask is Ask.ABOUT:
        return True
    words = moment.card.line(line).words
    if not _YES_NO.isdisjoint(words[:1]):
        return False
    if ask is Ask.HOW_MANY or ask is Ask.HOW_LONG:
        return not _COUNTS.isdisjoint(words) or bool(find_quantities(words))
    if ask is Ask.WHEN:
        has = frozenset(words)
        return not (has.isdisjoint(_TIMES) and has.isdisjoint(DATES)) or bool(
            find_quantities(words)
        )
    if ask is Ask.WHO:
        alias = moment.card.facts.alias
        return not (_ANYBODY.isdisjoint(words) and RELATIONS.isdisjoint(words)) or any(
            map(alias, filter(None, map(token_of, words)))
        )
    return True


def _put_name_first(moment: Moment, topic: Topic, line: str) -> str:
    person = moment.card.facts.person(topic.person) if topic.person else None
    spoken = (moment.dialogue.utterance or "") + moment.lines[-1]
    return put_name_first(line, person.name) if person and person.name not in spoken else line


def _add_best_lines(
    moment: Moment, found: list[Answer], asked: Line, score: float, lines: Sequence[str]
) -> None:
    """Add those lines of a list that were not said and have most to do with what was asked."""
    if score < _LEAST - _PER_NAT * _MOST_SHARED or not (fresh := moment.drop_said(lines)):
        return
    card, (_, tokens, vector) = moment.card, asked
    shared, worth = [], []
    for line in fresh:
        own = card.line(line)
        shared.append(_PER_NAT * min(_MOST_SHARED, card.weigh(tokens & own.tokens)))
        worth.append(shared[-1] + _PER_LIKENESS * float(own.vector @ vector))
    best = [line for line, value in zip(fresh, worth, strict=True) if value >= max(worth) - 0.15]
    found.append(Answer(score + max(shared), best, None))


def _find_lines_for_label(moment: Moment, label: str, sentence: Sentence) -> Sequence[str]:
    card = moment.card
    if label == "hear_me":
        return moment.scene.persona.situation.hints.of(moment.scene.persona.need)
    if label == "check":
        manner = moment.manner
        return manner.unconfirmed if moment.appraisal.change <= -3 else manner.confirmed
    if label == "offer":
        return getattr(moment.manner, REACTION_TO["offer"])
    if label.startswith("p_"):
        whom = moment.whom(sentence.asked) or (
            moment.mentioned()[0]
            if moment.mentioned() and not card.tokens(sentence.asked) & PRONOUNS
            else None
        )
        topic = card.of_person.get((whom, label[2:]))
        lines = topic.lines if topic is not None else ()
        return moment.drop_guarded(lines)
    number = card.number.get(("inquiry", label))
    return moment.drop_guarded(card.topics[number].lines) if number is not None else ()


# Themselves, and names.

_OWN_TOPICS = (
    (PATTERNS["asks_age"], ("age",)),
    (PATTERNS["asks_work"], ("job", "work", "studies", "study", "living", "school")),
    (PATTERNS["asks_home"], ("home", "live", "flat", "house", "where")),
)
_OBJECT = {"he": "him", "she": "her", "they": "them"}


def asks_name(sentence: Sentence) -> bool:
    """Whether a question asks what somebody or something is called."""
    return PATTERNS["asks_name"].match(" ".join(sentence.asked)) is not None


def find_personal_facts(
    moment: Moment, sentence: Sentence, phrases: Mapping[str, Any]
) -> list[Answer]:
    """What anybody knows of themselves: name, age, work, home; and the names of others."""
    asked = " ".join(sentence.asked)
    persona = moment.scene.persona
    name = PATTERNS["asks_name"].match(asked)
    if name:
        whose = next(filter(None, name.groups()), "")
        return _find_name_answers(moment, sentence, whose, phrases)
    if PATTERNS["asks_relation"].match(asked):
        topics, token = moment.card.topics, moment.whom(sentence.asked)
        found = [
            Answer(0.5 - 0.1 * (topic.kind != "fact"), topic.lines, topic)
            for topic, says_who in zip(topics, moment.card.says_who, strict=True)
            if token and says_who and topic.person == token
        ]
        if found:
            return sorted(found, key=lambda one: -one.score)
    for form, keys in _OWN_TOPICS:
        if form.search(asked) is None:
            continue
        topics = [
            topic
            for key in keys
            for topic in moment.card.topics
            if topic.kind == "fact" and topic.is_personal and key in topic.key.split("-")
        ]
        found = [Answer(0.5, moment.wordings(topic), topic) for topic in topics[:2]]
        if form is PATTERNS["asks_age"] and not found:
            lines = [line.format(age=persona.person.age) for line in phrases["age"]]
            found = [Answer(0.5, moment.drop_said(lines)[:1], None)]
        return found
    return []


def _find_name_answers(
    moment: Moment, sentence: Sentence, whose: str, phrases: Mapping[str, Any]
) -> list[Answer]:
    words = whose.split()
    if whose in ("your", "you", "called") or whose == "":
        lines = [line.format(name=moment.scene.persona.person.name) for line in phrases["name"]]
        return [Answer(0.5, moment.drop_said(lines)[:1], None)]
    relation = next((RELATION_OF[word] for word in reversed(words) if word in RELATIONS), None)
    facts = moment.card.facts
    token = moment.whom(words)
    person = facts.person(token) if token else None
    if person is None and relation in ("wife", "husband", "girlfriend", "boyfriend", "partner"):
        person = next((one for one in facts.people if relation in one.relations), None)
    if person is not None:
        is_relation = not RELATIONS.isdisjoint(split_words(person.name))
        key = "call_them" if is_relation else "called"
        lines = [
            line.format(name=person.name, them=_OBJECT[person.pronoun]) for line in phrases[key]
        ]
        return [Answer(0.5, moment.drop_said(lines)[:1], None)]
    card = moment.card
    query = card.query(sentence)
    shares, _ = card.probabilities(query)
    meant = query.tokens - PRONOUNS - {YOU}
    for number in shares.argsort(kind="stable")[::-1][:5].tolist():
        topic = moment.card.topics[number]
        if topic.kind == "fact":
            for line in topic.lines:
                if not meant.isdisjoint(topic.about | card.line(line).tokens) and _tells_a_name(
                    line
                ):
                    return [Answer(0.5, [line], topic)]
    return []


def _tells_a_name(line: str) -> bool:
    """Whether a line says what somebody or something is called."""
    first = split_words(line)[0]
    return bool(
        PATTERNS["tells_name"].search(line)
        or re.search(r"(?<=[a-z,] )[A-Z][a-z]{2,}", line)
        or not (is_common_word(first) or first in FUNCTION_WORDS)
    )


def asks_about_inner_life(sentence: Sentence) -> bool:
    return (
        sentence.ask not in FACTUAL
        and PATTERNS["inner"].search(" ".join(sentence.asked)) is not None
    )


# About their own last line.


def explain_last_line(moment: Moment, preferences: Sequence[str] = ()) -> list[Answer]:
    """What they meant by what they said last: the same matter in other lines, the nearest first.
    `preferences`: how they say what they want of a talk, which their hints explain.
    """
    card, last = moment.card, moment.last_line
    said = {sentence.casefold() for sentence in split_sentences(last)}
    words = split_words(last)
    tokens, vector = card.content(words), embed_text(words)
    hints = moment.scene.persona.situation.hints.of(moment.scene.persona.need)
    of_need = {folded for line in (*hints, *preferences) for folded in split_line(line).folded}
    found = [Answer(2.0, [line], None) for line in hints] if said & of_need else []
    for topic in card.topics:
        if topic.kind in ("suggestion",) or (topic.depth > moment.depth + 1):
            continue
        is_source = any(
            sentence.casefold() in said
            for line in topic.lines
            for sentence in split_sentences(line)
        )
        if is_source and topic.kind == "disclosure":
            continue
        for line in topic.lines:
            own = card.line(line)
            likeness = float(own.vector @ vector) / SCALE
            shared = card.weigh(tokens & own.tokens)
            score = 1.5 * is_source + 0.15 * shared + likeness - (line.count(" ") < 4)
            if score > 0.9:
                found.append(Answer(score, [line], topic if topic.kind == "fact" else None))
    return sorted(found, key=lambda one: -one.score)[:8]


def explain_whom_was_meant(moment: Moment, sentence: Sentence) -> list[Answer]:
    card = moment.card
    of_last = [
        token
        for word in reversed(split_words(moment.last_line))
        for token in (card.facts.alias(token_of(word)),)
        if token
    ]
    pronouns = (
        card.tokens(sentence.words) & PRONOUNS
        or card.tokens(split_words(moment.last_line)) & PRONOUNS
    )
    spoken = [
        person for token in (*of_last, *moment.mentioned()) if (person := card.facts.person(token))
    ]
    if not spoken and not pronouns:
        return explain_last_line(moment)
    spoken += [one for one in card.facts.people if one not in spoken]
    if not of_last and pronouns:
        spoken = [one for one in spoken if one.pronoun in pronouns] or spoken
    return [Answer(1.0, [_describe_person(one)], None) for one in spoken[:2]]


def _describe_person(person: StoryPerson) -> str:
    if not RELATIONS.isdisjoint(split_words(person.name)):
        return f"My {person.name.casefold()}."
    return f"{person.name}, {person.who}."


# Yes or no.

_BORNE_OUT, _SAYS_ENOUGH = 0.85, 3.0
"""The share of a question's weight that a line must say again for a plain yes before it; the weight
that the question must have, in nats.
"""
_ASKED_OTHERWISE = frozenset("or who whom whose what which where why how".split())
NEGATIONS = load_word_set("negations")
_YES_NO = frozenset("yes no yeah yep nope nah".split())
_OF_THEMSELF = frozenset("i my mine me myself".split())


def decide_yes_or_no(moment: Moment, sentence: Sentence, answer: Answer, said: str) -> bool | None:
    """Yes or no in front of an answer, where it was asked for and the answer bears it out; None
    otherwise.
    """
    if (
        sentence.ask is not Ask.YES_NO
        or answer.topic is None
        or not _ASKED_OTHERWISE.isdisjoint(sentence.asked)
    ):
        return None
    words = split_words(said)
    if not _YES_NO.isdisjoint(words[:3]) or not NEGATIONS.isdisjoint(words):
        return None
    claims = [
        one
        for one in check_claims(moment.scene.persona, moment.dialogue)
        if one.sentence == sentence.text
    ]
    if any(one.verdict == "false" for one in claims):
        return False if any(one.verdict == "false" and one.is_sure for one in claims) else None
    card = moment.card
    content = card.content(sentence.asked)
    weight = card.weigh(content)
    if not NEGATIONS.isdisjoint(sentence.asked):
        return None
    if YOU in card.tokens(sentence.asked) and _OF_THEMSELF.isdisjoint(words):
        return None
    spoken = card.tokens(words)
    named = content & frozenset(one.token for one in card.facts.people)
    if not named <= spoken | card.tokens(split_words(moment.last_line)):
        return None
    borne = card.weigh(content & spoken)
    return True if weight >= _SAYS_ENOUGH and borne >= _BORNE_OUT * weight else None
