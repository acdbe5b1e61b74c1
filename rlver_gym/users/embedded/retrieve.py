"""Retrieve: how well topics of a card go with what was said; whether a line was said before."""

from typing import NamedTuple

import numpy as np

from rlver_gym.users.embedded import hear
from rlver_gym.users.embedded.compile import RETRIEVAL, SIZE
from rlver_gym.users.embedded.english import UNIT
from rlver_gym.users.embedded.hear import Heard
from rlver_gym.users.embedded.recall import Moment, select_long_sentences
from rlver_gym.util.frozen import Memo

WEIGHTS: dict[str, float] = RETRIEVAL["weights"]
"""Logits: likeness to ways of asking and lines, shares of words, the label, whom, and the kind."""
_UNKNOWN, _BLAND, _CONTEXT = 2.5, 2.5, 1.0
"""Nats of a token that a card lacks, and added to all; what the person's last line counts."""
_BEST, _NEAR_BEST = 6, 3.0  # how many topics answer at most, and how far below the best
_POINTING, _TIMES = (frozenset(RETRIEVAL[name].split()) for name in ("pointing", "times"))
FACTUAL = frozenset(RETRIEVAL["factual"].split(","))


def score_topics(moment: Moment, heard: Heard, at: int) -> np.ndarray:
    """How well each topic goes with a sentence of an utterance or (-1) all of it, in logits."""
    card, said, vector = moment.card, heard if at < 0 else heard.sentences[at], heard.vectors[at]
    scores = np.maximum.reduceat(card.lines @ vector, card.line_starts)
    scores = scores * (WEIGHTS["line_like"] / UNIT) + card.bias[find_whom(moment, said.words)]
    if at >= 0 and len(card.way_owners):
        words = frozenset(said.words)
        likes = (card.ways @ vector) * (WEIGHTS["way_like"] / UNIT)
        ways = b"".join([card.ways_with[word] for word in words if word in card.ways_with])
        if ways:
            shared = np.bincount(np.frombuffer(ways, np.intc), minlength=len(likes))
            likes += shared * card.way_roots * (WEIGHTS["phrase"] / len(words) ** 0.5)
        scores[card.way_owners] += np.maximum.reduceat(likes, card.way_starts)
    if at >= 0:
        scores[card.asked[0]] += heard.labels[at].take(card.asked[1]) * WEIGHTS["label"]
    points_back = at < 0 or (len(said.tokens) < 3 and not _POINTING.isdisjoint(said.words))
    context = moment.last.tokens - said.tokens if points_back else ()
    for tokens, most in ((said.tokens, WEIGHTS["covered"]), (context, _CONTEXT)):
        share = most / (sum([card.weight.get(token, _UNKNOWN) for token in tokens]) + _BLAND)
        known = [token for token in tokens if token in card.weight]
        if known:
            having = [card.topics_with[token] for token in known]
            many = [len(topics) // SIZE for topics in having]
            worth = np.repeat([card.weight[token] for token in known], many)
            topics = np.frombuffer(b"".join(having), np.intc)
            scores += np.bincount(topics, worth, len(scores)) * share
    return scores


def find_answers(moment: Moment, heard: Heard, at: int, *, suggests: bool = False) -> list[int]:
    """The topics that answer a question or speak of what is suggested, best first."""
    scores = score_topics(moment, heard, at)
    scores[moment.card.is_suggestion != suggests] = -np.inf
    kind = "suggested" if suggests else "explained"
    if not suggests and at >= 0:
        kind = "none_factual" if heard.sentences[at].ask in FACTUAL else "none"
    near = scores.argpartition(-min(_BEST, len(scores)))[-_BEST:].tolist()
    least = max(RETRIEVAL[kind], scores.max() - _NEAR_BEST)
    return sorted([at for at in near if scores[at] >= least], key=scores.__getitem__, reverse=True)


def find_whom(moment: Moment, words: tuple[str, ...]) -> str:
    """Who of the story is meant: by name, by relation, or by a pronoun for the last one named."""
    card, pronouns = moment.card, RETRIEVAL["pronouns"]
    for word in reversed(words):
        if word in card.story.people:
            return card.story.people[word]
    spoken = {pronouns[word] for word in words if word in pronouns}
    if not spoken:
        return ""
    for word in (*reversed(moment.heard.words), *reversed(moment.last.words)):
        name = card.story.people.get(word)
        if name is not None and card.story.pronouns[name] in spoken:
            return name
    alone = [name for name, pronoun in card.story.pronouns.items() if pronoun in spoken]
    return alone[0] if len(alone) == 1 else ""


class _ReadLine(NamedTuple):
    """A line of a card, ready to be known again."""

    has_time: bool
    tokens: frozenset[int]
    runs: frozenset[int]
    sentences: frozenset[tuple[str, ...]]


def _read_line(text: str) -> _ReadLine:
    line = hear.read_line(text)
    known_by = frozenset(select_long_sentences([sentence.words for sentence in line.sentences]))
    return _ReadLine(not _TIMES.isdisjoint(line.words), line.tokens, line.runs, known_by)


read_line = Memo(_read_line, 30_000).__getitem__


def was_said(moment: Moment, line: str) -> bool:
    """Whether the person said a line, or most of it."""
    read = read_line(line)
    if not read.sentences.isdisjoint(moment.lines):
        return True
    return len(read.runs) >= 3 and len(read.runs & moment.told_runs) >= 0.6 * len(read.runs)
