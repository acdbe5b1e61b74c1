"""Relevance: how much of an utterance reaches this person, sentence by sentence.

What is copied, spliced out of a quotation, said before or about somebody else does not.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from rlver_gym.core.dialogue import Dialogue
from rlver_gym.core.words import sentences, words
from rlver_gym.text.story_index import StoryIndex
from rlver_gym.text.tokenized_text import fourgrams, summarise_line
from rlver_gym.text.utterance_analysis import UtteranceAnalysis, UtteranceSummary
from rlver_gym.users.embedded.priors import ExpertPoints

_PAUSE = re.compile(r"[,;:–—()\"“”]")
_JOINTS = frozenset(
    "and or but so then that because when while if how who which as like for with about".split()
)
"""Words after which a clause may begin, and before which one may end."""

_FOLDED = {
    **dict.fromkeys(
        ("i", "me", "we", "us", "you", "one", "myself", "ourselves", "yourself"), "you"
    ),
    **dict.fromkeys(("my", "our", "your", "mine", "ours", "yours"), "your"),
    **dict.fromkeys(("am", "is", "are"), "are"),
    **dict.fromkeys(("was", "were"), "were"),
}
"""Speaker and listener folded: "we had our list" given back is "you had your list"."""


def has_spliced_quote(text: str, lines: tuple[str, ...], least: int) -> bool:
    """Whether a run of at least `least` words from `lines` is glued to other words in the middle of
    a clause.
    """
    clauses = [words(part) for part in _PAUSE.split(text)]
    spoken = [word for clause in clauses for word in clause]
    pauses, at = {0}, 0
    for clause in clauses:
        at += len(clause)
        pauses.add(at)
    return any(
        not (
            _is_clause_boundary(spoken, start, pauses) and _is_clause_boundary(spoken, end, pauses)
        )
        for start, end in _find_copied_runs(_trigrams(spoken), _collect_trigrams(lines))
        if end - start >= least
    )


def _is_clause_boundary(spoken: list[str], at: int, pauses: set[int]) -> bool:
    """Whether a clause may begin or end before the word at `at`."""
    return at in pauses or spoken[at - 1] in _JOINTS or spoken[at] in _JOINTS


@lru_cache(maxsize=256)
def _collect_trigrams(lines: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    if not lines:
        return frozenset()
    before = _collect_trigrams(lines[:-1])
    return before.union(*(_trigrams(words(sentence)) for sentence in sentences(lines[-1])))


def _trigrams(spoken: Sequence[str]) -> list[tuple[str, ...]]:
    folded = [_FOLDED.get(word, word) for word in spoken]
    return list(zip(folded, folded[1:], folded[2:], strict=False))


def _find_copied_runs(
    grams: Sequence[tuple[str, ...]], said: frozenset[tuple[str, ...]]
) -> list[tuple[int, int]]:
    """Word positions [start, end) of the longest stretches whose 3-grams were all said."""
    found: list[tuple[int, int]] = []
    for at, gram in enumerate(grams):
        if gram in said:
            if found and found[-1][1] == at + 2:
                found[-1] = (found[-1][0], at + 3)
            else:
                found.append((at, at + 3))
    return found


class UtteranceRelevance(NamedTuple):
    """How much of what is good counts, as shares in [0, 1], and which sentences and names do not
    belong.
    """

    uptake: float
    """How much it takes up of what this person told and the agent had not taken up before."""
    elsewhere: float
    """How much of it, and how much at all, is about something else than their story."""
    sentence_uptake: tuple[float, ...]
    """Of each sentence, the same of it and its neighbours: whether what it does is done to this
    person.
    """
    own_words: float
    """0 when it only gives the person's words back."""
    novelty: float
    """0 when the agent said it before."""
    quoted: frozenset[int]
    """Numbers of the sentences that are word for word the person's."""
    stale: frozenset[int]
    """Numbers of the sentences that the agent said before."""
    spliced: frozenset[int]
    """Numbers of the sentences into which a piece of the person's words is glued."""
    parroted: frozenset[int]
    """Numbers of the sentences that are nothing but the person's."""
    attention: float
    """How much of the listener is left for what is good in it: less when other parts leave them
    wondering whose story it is.
    """
    at_home: tuple[float, ...]
    """Of each sentence, how far its words single out this story: 1 when they do, 0 when they would
    suit another one better.
    """
    story_share: tuple[float, ...]
    """Of each sentence, how far it is of this story: 0 when it is about somebody else's."""
    strangers: frozenset[str]
    """Names that nobody in this story has."""


def measure_relevance(
    expert: ExpertPoints,
    index: StoryIndex,
    heard: UtteranceAnalysis,
    earlier: tuple[UtteranceSummary, ...],
    dialogue: Dialogue,
) -> UtteranceRelevance:
    """Compare an utterance with everything said before, and with the person's story."""
    lines = list(map(summarise_line, dialogue.user_lines))
    theirs = frozenset().union(*[content for content, _ in lines])
    unlike = heard.fourgrams.isdisjoint
    known = frozenset().union(*[grams for _, grams in lines if not unlike(grams)])
    alike = [before for before in earlier if not unlike(before.fourgrams)]
    copies = _find_copies(expert, heard, known, dialogue) if known else _NO_COPIES
    empty = copies.parroted | copies.spliced
    alien = heard.content - theirs - index.story
    common = index.weight(heard.content - alien)
    spoken_of = common + index.weight(alien)
    share = common / spoken_of if spoken_of else 0.0
    belonging = expert.belonging.at(share)
    strangeness = [
        index.strangeness(sentence.content, alien, expert.strange.own)
        for sentence in heard.sentences
    ]
    at_home = tuple([1 - expert.at_home.at(odd) for odd in strangeness])
    uptake = _measure_uptake(
        expert, index, heard, earlier, theirs, copies.quoted, empty, strangeness, at_home
    )
    full = expert.touch.full_at
    return UtteranceRelevance(
        uptake=min(1.0, sum(uptake) / full) * belonging,
        sentence_uptake=tuple(
            [
                min(1.0, sum(uptake[max(0, at - 1) : at + 2]) / full) * belonging
                for at in range(len(uptake))
            ]
        ),
        elsewhere=(1 - expert.elsewhere.at(share)) * min(1.0, spoken_of / expert.elsewhere.full_at),
        own_words=1 - expert.copying.at(_share(heard.fourgrams, known)),
        novelty=1 - expert.reuse.at(_measure_repetition(heard, alike, dialogue)),
        quoted=copies.quoted,
        stale=_find_repeated_sentences(heard, earlier, alike) if earlier else _NONE,
        spliced=copies.spliced,
        parroted=copies.parroted,
        at_home=at_home,
        attention=_measure_attention(expert, index, heard, alien, empty),
        story_share=tuple([1 - expert.strange.at(odd) for odd in strangeness]),
        strangers=heard.names - index.names - index.vocabulary - theirs if heard.names else _NONE,
    )


def _measure_attention(
    expert: ExpertPoints,
    index: StoryIndex,
    heard: UtteranceAnalysis,
    alien: frozenset[str],
    empty: frozenset[int],
) -> float:
    """By the words of all sentences that are not nothing but the person's."""
    about = heard.content
    if empty:
        about = frozenset().union(
            *[one.content for number, one in enumerate(heard.sentences) if number not in empty]
        )
    return 1 - expert.attention.at(index.strangeness(about, alien, expert.attention.own))


_NONE: frozenset[Any] = frozenset()


class _Copies(NamedTuple):
    """Numbers of the sentences that use the person's words; see `UtteranceRelevance`."""

    quoted: frozenset[int]
    parroted: frozenset[int]
    spliced: frozenset[int]


_NO_COPIES = _Copies(_NONE, _NONE, _NONE)


def _find_copies(
    expert: ExpertPoints, heard: UtteranceAnalysis, known: frozenset[int], dialogue: Dialogue
) -> _Copies:
    """By the share of each sentence's 4-grams that the person said."""
    copied = [_share(fourgrams(sentence.folded), known) for sentence in heard.sentences]
    quoted = frozenset(number for number, share in enumerate(copied) if share >= expert.quote.least)
    return _Copies(
        quoted,
        frozenset(
            number
            for number in quoted
            if copied[number] >= expert.parrot.least
            and len(heard.sentences[number].stems) >= expert.parrot.words
        ),
        frozenset(
            number
            for number, share in enumerate(copied)
            if share > 0
            and has_spliced_quote(
                heard.sentences[number].text, dialogue.user_lines, expert.torn.words
            )
        ),
    )


def _find_repeated_sentences(
    heard: UtteranceAnalysis, earlier: tuple[UtteranceSummary, ...], alike: list[UtteranceSummary]
) -> frozenset[int]:
    """Numbers of the sentences said before."""
    return frozenset(
        [
            number
            for number, one in enumerate(heard.sentences)
            if (
                any(one.text.casefold() in before.short_sentences for before in earlier)
                if one.short
                else alike
                and any(_share(fourgrams(one.folded), before.fourgrams) >= 0.6 for before in alike)
            )
        ]
    )


def _measure_uptake(
    expert: ExpertPoints,
    index: StoryIndex,
    heard: UtteranceAnalysis,
    earlier: tuple[UtteranceSummary, ...],
    theirs: frozenset[str],
    quoted: frozenset[int],
    empty: frozenset[int],
    strangeness: list[float],
    at_home: tuple[float, ...],
) -> list[float]:
    """Of each sentence, how much of this person it takes up, in nats: their words for the first
    time, and less for words of their story that they have not said yet, that were taken up before,
    or that are quoted.
    """
    if heard.function_share < 0.25:
        return [0.0] * len(heard.sentences)
    half = (expert.strange.free + expert.strange.all) / 2
    rule, found = expert.touch, []
    spent = frozenset().union(*[before.content for before in earlier])
    for number, one in enumerate(heard.sentences):
        if number in empty or not one.is_fluent or strangeness[number] >= half:
            found.append(0.0)
            continue
        about = one.content & index.story
        if not about:
            found.append(0.0)
            continue
        told = about & theirs
        fresh, guessed = told - spent, about - theirs - spent
        reach = (
            index.particularity(fresh)
            + rule.again * index.particularity(told - fresh)
            + rule.guessed * min(index.particularity(guessed), max(0.0, -strangeness[number]))
        )
        found.append(reach * at_home[number] * (expert.quote.share if number in quoted else 1.0))
        spent = spent | fresh
    return found


def _measure_repetition(
    heard: UtteranceAnalysis, alike: list[UtteranceSummary], dialogue: Dialogue
) -> float:
    if dialogue.utterance in dialogue.earlier_utterances:
        return 1.0
    said_before = max((_share(heard.fourgrams, before.fourgrams) for before in alike), default=0.0)
    return max(said_before, 1 - heard.variety)


def _share(part: frozenset[int], whole: frozenset[int]) -> float:
    return 0.0 if part.isdisjoint(whole) else len(part & whole) / len(part)
