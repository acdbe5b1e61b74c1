"""Choose: the answer to an either-or question, by what the card says of what it offers."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rlver_gym.core.words import split_sentences, split_words
from rlver_gym.users.embedded.hearing.choices import Alternatives
from rlver_gym.users.embedded.hearing.feelings import find_feelings
from rlver_gym.users.embedded.hearing.tokens import PRONOUNS
from rlver_gym.users.embedded.hearing.utterance_parser import Sentence
from rlver_gym.users.embedded.speech.answers import NEGATIONS, Answer
from rlver_gym.users.embedded.speech.card import Topic
from rlver_gym.users.embedded.speech.moment import Moment

_BORNE_OUT, _LEAST_WEIGHT = 0.6, 1.5
"""The share of an alternative's weight that a line must say for it to be meant, and the weight."""
_IN_FRAME = 0.45
"""How much a line must have to do with the rest of the question, from 0 to 1."""
_NAMED = re.compile(r"^(?:the|a|an|my|his|her|their|with|at|in|on)\b")
_KINDS = frozenset({"fact", "inquiry", "person", "thread"})


class Choice(NamedTuple):
    """What they say to an either-or question."""

    lines: tuple[str, ...]
    topic: Topic | None


def answer_either_or(moment: Moment, sentence: Sentence, offered: Alternatives) -> Choice | None:
    """The line that bears out one of the things offered, or both, or says that it is neither; None
    where the card is silent.
    """
    felt = _choose_feeling(moment, offered)
    if felt is not None:
        return felt
    card = moment.card
    has = [card.content(words) for words in offered]
    for at, words in enumerate(offered):  # "him or her?"
        has[at] |= frozenset(moment.referents(words))
    own = [tokens - has[1 - at] for at, tokens in enumerate(has)]
    frame = card.content(sentence.asked) - has[0] - has[1]
    frame |= frozenset(moment.referents(sentence.asked)) - has[0] - has[1]
    best, found = 0.0, None
    for topic, line, near in _list_lines_with_probability(moment, sentence):
        said = card.line(line).tokens
        if said.isdisjoint(own[0]) and said.isdisjoint(own[1]):
            continue
        around = said | topic.about
        shared = [card.weigh(tokens & said) for tokens in own]
        borne = [
            weight / (card.weigh(tokens) or 1.0) * (weight >= _LEAST_WEIGHT)
            for weight, tokens in zip(shared, own, strict=True)
        ]
        fits = card.weigh(frame & around) / card.weigh(frame) if frame else 0.5
        if max(borne) < _BORNE_OUT or max(fits, near) < _IN_FRAME:
            continue
        score = max(borne) + fits + near + 0.1 * min(borne)
        if score > best and line in moment.drop_said(moment.drop_guarded(topic.lines)):
            best, found = score, (topic, line, borne)
    if found is None:
        return None
    topic, line, borne = found
    name = _name_chosen_option(moment, offered, borne, line)
    return Choice((f"{name} {line}" if name else line,), topic)


def mentions_an_option(moment: Moment, offered: Alternatives, answer: Answer) -> bool:
    """Whether an answer speaks of one of the things offered."""
    card = moment.card
    own = frozenset().union(*map(card.content, offered))
    return any(card.weigh(own & card.line(line).tokens) >= _LEAST_WEIGHT for line in answer.lines)


def _list_lines_with_probability(
    moment: Moment, sentence: Sentence
) -> Iterator[tuple[Topic, str, float]]:
    """The lines of the card, each with how probably its topic was asked for."""
    card = moment.card
    query = card.query(sentence, moment.referents(sentence.asked))
    shares, none = card.probabilities(query)
    for topic, share in zip(card.topics, shares.tolist(), strict=True):
        if topic.kind not in _KINDS or topic.depth > moment.depth + 1:
            continue
        if topic.person and query.people and topic.person not in query.people:
            continue
        for line in topic.lines:
            yield topic, line, share * (1 - none)


def _choose_feeling(moment: Moment, offered: Alternatives) -> Choice | None:
    """Of two feelings the one that they have, as far as their lines deny the other."""
    named = [find_feelings(words) for words in offered]
    if not all(named) or any(len(words) > 5 for words in offered):
        return None
    topics = [moment.card.number.get(("feeling", str(one[0]))) for one in named]
    lines = [
        (moment.card.topics[number], line)
        for number in topics
        if number is not None
        for line in moment.drop_said(moment.drop_guarded(moment.card.topics[number].lines))
    ]
    had = [one for one in lines if not _contains_negation(split_sentences(one[1])[0])]
    return Choice((had[0][1],), had[0][0]) if had else None


def _contains_negation(text: str) -> bool:
    words = split_words(text)
    return any(word in NEGATIONS or word.endswith("n't") for word in words)


def _name_chosen_option(
    moment: Moment, offered: Alternatives, borne: Sequence[float], line: str
) -> str:
    """The one chosen, by name, where the line only implies it: "The exam."."""
    at = 0 if borne[0] >= borne[1] else 1
    words = ["my" if word in ("your", "ur") else word for word in offered[at]]
    text = " ".join(words)
    if (
        borne[at] < 1
        or borne[1 - at] >= _BORNE_OUT
        or len(words) > 4
        or not _NAMED.match(text)
        or not PRONOUNS.isdisjoint(moment.card.tokens(words))
        or _contains_negation(line)
        or words[-1] in split_words(line)[:6]
    ):
        return ""
    return f"{text[:1].upper()}{text[1:]}."
