"""Hear English: the named features of one utterance to one person, and its words.

Knows no measured weights.
"""

import math
import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from rlver_gym.conversation.claims import check_claim
from rlver_gym.conversation.knowledge import Knowledge, knowledge
from rlver_gym.conversation.parse import ParsedUtterance, parse_utterance
from rlver_gym.conversation.recognise import generalise, pairs_of
from rlver_gym.conversation.sentences import Sentence, classify_sentences
from rlver_gym.core.dialogue import Dialogue, Reason
from rlver_gym.core.persona import Persona
from rlver_gym.core.words import FUNCTION_WORDS
from rlver_gym.core.words import words as words_of
from rlver_gym.text.tokens import PRONOUNS, YOU
from rlver_gym.text.utterance_analysis import analyse_utterance
from rlver_gym.users.embedded.belonging import Overlap
from rlver_gym.users.embedded.evidence import collect_evidence

PRIOR_SCALE = 5.0
"""Points of expert evidence that make a feature of 1."""
_NAME = re.compile(r"(?<![.!?…\"“‘'(]\s)(?<!^)\b[A-Z][a-z]{2,}\b")
_LIST_ITEM = re.compile(r"(?m)^\s*(?:[-*•]|\d+[.)])")
_EMOJI = re.compile("[\U0001f300-\U0001faff❤]")
_TO_YOU = {
    "i": "you",
    "my": "your",
    "me": "you",
    "mine": "yours",
    "am": "are",
    "myself": "yourself",
}
_YOURS = frozenset({"you", "your", "yours", "yourself"})
_MINE = frozenset({"i", "me", "my", "mine", "myself"})
_COPIES = (2, 3, 4, 6)
"""Lengths of runs of words by which copies are found."""
_REPEATS = 3
_NOBODY = PRONOUNS | {YOU}
_PLAIN_WORDS = 12
_NOT_PLAIN = frozenset({"not", "never", "no", "won't", "were", "was"})


class Described(NamedTuple):
    """One utterance to one person."""

    text: str
    values: dict[str, float]
    """Features by name, most of them in [0, 1]."""
    grams: frozenset[str]
    """Its words and pairs of neighbouring words; names and relations as one."""
    overlap: Overlap
    """Its words, by where this person has them."""
    evidence: tuple[Reason, ...]
    """The items that experts would weigh, in their points."""
    sentences: tuple[Sentence, ...]


def describe(persona: Persona, dialogue: Dialogue) -> Described:
    """Describe the last utterance of a dialogue.

    The last one described is kept for a moment: several steps of a turn ask for it.
    """
    global _latest
    latest = _latest
    if latest is None or latest[0] is not persona or latest[1] is not dialogue:
        latest = _latest = (persona, dialogue, _describe(persona, dialogue))
    return latest[2]


_latest: tuple[Persona, Dialogue, Described] | None = None


def find_plain_acts(described: Described) -> dict[str, str]:
    """Acts that are done so plainly that nobody does them unawares, each with its sentence: a
    phrase for it in a short sentence that neither denies nor quotes.
    """
    return {
        act: one.text
        for one in reversed(analyse_utterance(described.text).sentences)
        for act, phrase in one.acts.items()
        if phrase
        and len(one.stems) <= _PLAIN_WORDS
        and _NOT_PLAIN.isdisjoint(one.stems)
        and '"' not in one.text
    }


def _describe(persona: Persona, dialogue: Dialogue) -> Described:
    text = dialogue.utterance or ""
    parsed, known = parse_utterance(text), knowledge(persona)
    sentences = classify_sentences(text, parsed, known.names)
    words = words_of(text)
    evidence = collect_evidence(persona, dialogue)
    overlap = _compute_overlap(words, dialogue, known)
    values: dict[str, float] = {}
    for part in (
        _extract_evidence(evidence),
        _extract_acts(sentences, parsed),
        _extract_claims(parsed, known),
        _extract_nearness(overlap, dialogue, known),
        _extract_copies(words, dialogue),
        _extract_names(text, words, dialogue, known),
        _extract_form(text, words, sentences, parsed),
        _extract_place(dialogue),
    ):
        values.update(part)
    return Described(
        text,
        {name: value for name, value in values.items() if value},
        grams_of(sentences, known.names),
        overlap,
        evidence,
        tuple(sentences),
    )


def grams_of(sentences: Sequence[Sentence], names: Collection[str] = ()) -> frozenset[str]:
    """The words and pairs of neighbouring words of some sentences: their order among each other
    does not matter.
    """
    found: set[str] = set()
    for one in sentences:
        general = generalise(one.words, names)
        found.update(general, pairs_of(general))
    return frozenset(found)


def _extract_evidence(evidence: Sequence[Reason]) -> dict[str, float]:
    """The experts' points, by kind of item."""
    found: dict[str, float] = {}
    for code, points, _ in evidence:
        name = f"prior:{code.partition('/')[0]}"
        found[name] = found.get(name, 0.0) + points / PRIOR_SCALE
    return found


def _extract_acts(
    sentences: Sequence[Sentence], parsed: ParsedUtterance
) -> Iterator[tuple[str, float]]:
    """What it does and asks, by the recogniser: how surely at all, and in what share of it."""
    count = max(1, len(sentences))
    total: dict[str, float] = {}
    for one in sentences:
        for label, probability in one.classification.ranked:
            total[label] = total.get(label, 0.0) + probability
    for label, sum_ in total.items():
        yield f"does:{label}", math.tanh(sum_)
        yield f"share:{label}", sum_ / count
    for feeling in {feeling for one in sentences for feeling in one.feelings}:
        yield f"feeling:{feeling}", 1.0
    yield "feelings", math.tanh(sum(len(one.feelings) for one in sentences))
    yield "suggests", sum(one.suggests for one in sentences) / count
    yield "asks", math.tanh(len(parsed.questions) / 2)
    yield "share_asking", sum(one.question is not None for one in sentences) / count
    for act in parsed.acts:
        yield f"act:{act}", 1.0


def _extract_claims(parsed: ParsedUtterance, known: Knowledge) -> Iterator[tuple[str, float]]:
    """What it says about them that the card contradicts."""
    faults = [
        fault for claim in parsed.claims if (fault := check_claim(known, claim).fault) is not None
    ]
    yield "faults", math.tanh(len(faults))
    for fault in faults:
        yield f"fault:{fault}", 1.0


def _compute_overlap(words: Sequence[str], dialogue: Dialogue, known: Knowledge) -> Overlap:
    """Its words, by where this person has them."""
    lines = [_tokens_of(known, line) for line in dialogue.user_lines]
    told, own = frozenset().union(*lines), known.tokens(words) - _NOBODY
    story = known.vocabulary
    return Overlap(own, own - told - story, own & told, own & lines[-1], (own & story) - told)


def _extract_nearness(
    overlap: Overlap, dialogue: Dialogue, known: Knowledge
) -> Iterator[tuple[str, float]]:
    """How much of this person's words it takes up, weighed by how much each says, in nats."""
    last = _tokens_of(known, dialogue.user_lines[-1])
    before = frozenset().union(*[_tokens_of(known, one) for one in dialogue.earlier_utterances])
    weigh = known.weigh
    of_last, of_told, all_own = weigh(overlap.last), weigh(overlap.told), weigh(overlap.own)
    yield "near:last", math.log1p(of_last)
    yield "near:last_share", of_last / (weigh(last) + 3)
    yield "near:told", math.log1p(of_told)
    yield "near:new", math.log1p(weigh(overlap.told - before))
    yield "near:told_density", of_told / (all_own + 3)
    yield "near:untold", math.log1p(weigh(overlap.untold))
    yield "near:alien_share", weigh(overlap.alien) / (all_own + 3)
    yield "near:aliens", math.log1p(len(overlap.alien))


def _extract_copies(words: Sequence[str], dialogue: Dialogue) -> Iterator[tuple[str, float]]:
    """Runs of words that the person said before it, and that the agent did."""
    own = _fold(words)
    for size in _COPIES:
        runs = _runs(own, size)
        copied = len(
            runs & frozenset().union(*[_folded_runs(line, size) for line in dialogue.user_lines])
        )
        yield f"copied:{size}", copied / max(4, len(runs))
        if size == 4:
            yield "copied:count", math.log1p(copied)
    runs = _runs(words, _REPEATS)
    earlier = frozenset().union(
        *[_runs(words_of(one), _REPEATS) for one in dialogue.earlier_utterances]
    )
    yield "repeated", len(runs & earlier) / max(4, len(runs))


@lru_cache(maxsize=1_024)
def _tokens_of(known: Knowledge, line: str) -> frozenset[str]:
    """What an earlier line is about. Kept, because every turn asks for all of them again."""
    return known.tokens(words_of(line)) - _NOBODY


@lru_cache(maxsize=4_096)
def _folded_runs(line: str, size: int) -> frozenset[tuple[str, ...]]:
    return _runs(_fold(words_of(line)), size)


def _fold(words: Sequence[str]) -> list[str]:
    return [_TO_YOU.get(word, word) for word in words]


def _runs(words: Sequence[str], size: int) -> frozenset[tuple[str, ...]]:
    return frozenset(zip(*[words[at:] for at in range(size)], strict=False))


def _extract_names(
    text: str, words: Sequence[str], dialogue: Dialogue, known: Knowledge
) -> Iterator[tuple[str, float]]:
    """Names that they told, and names that nobody in their story has."""
    heard = frozenset().union(*map(words_of, dialogue.user_lines))
    yield "names:told", math.tanh(len(known.names & heard & frozenset(words)) / 2)
    names = {name.casefold() for name in _NAME.findall(text)}
    yield "names:strange", math.tanh(len(names - heard - known.words - known.names) / 2)


def _extract_form(
    text: str, words: Sequence[str], sentences: Sequence[Sentence], parsed: ParsedUtterance
) -> Iterator[tuple[str, float]]:
    """Length, punctuation and person."""
    count, floor = len(words), max(5, len(words))
    yours, mine = sum(word in _YOURS for word in words), sum(word in _MINE for word in words)
    yield "form:sentences", math.log1p(len(sentences))
    yield "form:words", math.log1p(count)
    yield "form:words_off", (math.log1p(count) - 3) ** 2
    yield "form:you", yours / floor
    yield "form:me", mine / floor
    yield "form:me_over_you", math.tanh((mine - yours) / 4)
    yield "form:variety", len(set(words)) / max(6, count)
    yield "form:word_length", sum(map(len, words)) / max(1, count) / 5
    yield "form:function_words", sum(word in FUNCTION_WORDS for word in words) / floor
    yield "form:exclamations", math.tanh(text.count("!") / 2)
    yield "form:bold", float("**" in text)
    yield "form:list", math.tanh(len(_LIST_ITEM.findall(text)) / 2)
    yield "form:emoji", float(_EMOJI.search(text) is not None)
    yield "form:dash", float("—" in text)
    yield "form:quote", float('"' in text or "“" in text)
    yield "form:colon", float(":" in text)
    yield "form:lines", float("\n" in text)
    yield "form:ends_asking", float(text.rstrip().endswith("?"))


def _extract_place(dialogue: Dialogue) -> Iterator[tuple[str, float]]:
    """Where in the dialogue it stands."""
    yield "turn", min(len(dialogue.turns), 8) / 8
    yield "turn:first", float(not dialogue.turns)
    yield "was_asked", float("?" in dialogue.user_lines[-1])
