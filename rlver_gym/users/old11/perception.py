"""Perceive: one utterance to one person, after all that was said, as numbers and a few findings.
Computed once a step; what stays of the past is kept. Knows no measured weights. Pure.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from rlver_gym.core.anchors import AnchorIndex, AnchorMatch
from rlver_gym.core.dialogue import Dialogue, ReasonCode
from rlver_gym.core.persona import AnchorKind, HiddenNeed, Persona
from rlver_gym.core.words import split_sentences, split_words
from rlver_gym.users.embedded.copies import MINE, YOURS, Copies, find_copies
from rlver_gym.users.embedded.expert import ITEMS, AnchorTouch, weigh_items
from rlver_gym.users.embedded.hearing.act_classifier import load_act_classifier
from rlver_gym.users.embedded.hearing.lexicon import load_data
from rlver_gym.users.embedded.hearing.utterance_features import (
    LineFeatures,
    SentenceFeatures,
    UtteranceFeatures,
    extract_line_features,
    extract_utterance_features,
    sum_foreign_story_weights,
    sum_weights,
)
from rlver_gym.users.embedded.hearing.utterance_parser import Utterance
from rlver_gym.users.embedded.hearing.vectors import SCALE, embed_texts
from rlver_gym.users.embedded.speech.claims import Claim, check_claims
from rlver_gym.users.embedded.speech.facts import FactBase, compile_fact_base
from rlver_gym.util.frozen import cache_by_parts

_NAME = re.compile(r"(?<=[a-z,;:] )[A-Z][a-z]{2,}\b")
_SHOUTED = re.compile(r"\b[A-Z]{2,}\b")
_LIST_ITEM = re.compile(r"(?m)^\s*(?:[-*•]|\d+[.)])")
_LISTED = re.compile(r"[-*•\d]")
_EMOJI = re.compile("[\U0001f300-\U0001faff❤]")
_NOT = frozenset({"not", "never", "no"})
_KINDS: tuple[str, ...] = AnchorKind.__args__
_PHRASED = tuple(load_data("lexicon_en.json")["acts"])
_HEARD = tuple(load_act_classifier().acts)
_UNIT = float(SCALE * SCALE)


@dataclass(frozen=True, eq=False)
class Person:
    """A card, compiled for being spoken to."""

    facts: FactBase
    text: str
    """All words of the story, between blanks: a number that stands there is never wrong."""
    vocabulary: frozenset[str]
    names: frozenset[str]
    anchors: AnchorIndex
    kinds: tuple[int, ...]
    """The kinds of anchors that it has, by number."""
    kind_starts: tuple[int, ...]
    """Where they begin in the next."""
    anchor_vectors: np.ndarray
    story: np.ndarray
    """Vectors of what the card tells, a sentence a row."""


@cache_by_parts("situation", "person")
def compile_person(persona: Persona) -> Person:
    facts, situation = compile_fact_base(persona), persona.situation
    each = sorted(situation.anchors.each(), key=lambda one: _KINDS.index(one[0]))
    kinds = [_KINDS.index(kind) for kind, _ in each]
    told = [situation.cause, situation.now, *situation.tried]
    told += [one.in_tone("normal") for one in situation.disclosures]
    sentences = [split_words(part) for text in told for part in split_sentences(text)]
    words = [word for text in _list_texts(situation.model_dump()) for word in split_words(text)]
    return Person(
        facts,
        f" {' '.join(words)} ",
        facts.vocabulary,
        frozenset(facts.name_words) | {persona.person.name.lower()},
        AnchorIndex(situation),
        tuple(sorted(set(kinds))),
        tuple([kinds.index(kind) for kind in sorted(set(kinds))]),
        embed_texts([split_words(one.text) for _, one in each]),
        embed_texts([one for one in sentences if one] or [()]),
    )


def _list_texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [text for part in value for text in _list_texts(part)]


class Past(NamedTuple):
    """What was said before the last utterance."""

    last: LineFeatures
    told: frozenset[str]
    """Tokens of all that the person said."""
    runs: frozenset[int]
    raw: frozenset[int]
    words: frozenset[str]
    vectors: np.ndarray
    own: frozenset[str]
    """Tokens of what the agent said."""
    own_runs: frozenset[int]
    said: frozenset[str]
    """Its sentences."""
    own_vectors: np.ndarray
    utterances: tuple[frozenset[int], ...]
    """Runs of each of its utterances."""
    acts: dict[str, int]
    """How many utterances did each act."""
    anchors: frozenset[str]
    """Keys of the anchors that the agent touched."""
    length: int
    """Of the utterances, in words."""


_NO_VECTORS = np.zeros((0, embed_texts([()]).shape[1]), dtype=np.float32)
_NO_VECTOR = np.zeros((1, _NO_VECTORS.shape[1]), dtype=np.float32)
_NOTHING: frozenset[Any] = frozenset()


@lru_cache(maxsize=1_024)
def _summarise_past(person: Person, opening: str, said: tuple[str, ...]) -> Past:
    if not said:
        line = extract_line_features(opening)
        return Past(
            line, line.tokens, line.runs, line.raw, frozenset(line.words), line.vectors[:-1],
            _NOTHING, _NOTHING, _NOTHING, _NO_VECTORS, (), {}, _NOTHING, 0,
        )  # fmt: skip
    before = _summarise_past(person, opening, said[:-2])
    heard, line = extract_utterance_features(said[-2]), extract_line_features(said[-1])
    return Past(
        line,
        before.told | line.tokens,
        before.runs | line.runs,
        before.raw | line.raw,
        before.words.union(line.words),
        np.concatenate([before.vectors, line.vectors[:-1]]),
        before.own | heard.line.tokens,
        before.own_runs | heard.line.runs,
        before.said | heard.said,
        np.concatenate([before.own_vectors, heard.line.vectors[:-1]]),
        (*before.utterances, heard.line.runs),
        before.acts | {act: before.acts.get(act, 0) + 1 for act, _ in _list_clear_acts(heard)},
        before.anchors.union([one.key for one in _match_anchors(person, said[-2])]),
        before.length + len(heard.line.words),
    )


def _list_clear_acts(heard: UtteranceFeatures) -> list[tuple[str, tuple[float, str]]]:
    return [one for one in heard.acts.items() if one[1][0] >= 0.5]


@lru_cache(maxsize=128)
def _match_anchors(person: Person, text: str) -> tuple[AnchorMatch, ...]:
    return person.anchors.match(
        tuple([one.stems for one in extract_utterance_features(text).pieces])
    )


class Perception(NamedTuple):
    """What one utterance is to one person."""

    heard: Utterance
    need: HiddenNeed
    values: np.ndarray
    """In the order of FEATURES; most in [-1, 1], in steps of 1/256."""
    void: tuple[ReasonCode, str] | None
    """Why nothing in it can be weighed: it is silence or nonsense."""
    copies: Copies
    claims: tuple[Claim, ...]
    pieces: tuple[SentenceFeatures, ...]
    anchors: tuple[tuple[str, str], ...]
    """Anchors touched for the first time, with their sentences."""
    strangers: tuple[str, ...]
    """Names that nobody in their story has."""


def perceive(persona: Persona, dialogue: Dialogue) -> Perception:
    said = tuple([text for turn in dialogue.turns for text in (turn.utterance, turn.reply)])
    person, text = compile_person(persona), dialogue.utterance or ""
    past, heard = _summarise_past(person, dialogue.opening, said), extract_utterance_features(text)
    copies = find_copies(heard, past)
    claims = check_claims(persona, dialogue)
    if claims:
        claims = tuple(
            [
                one
                for one in claims
                if one.kind != "number" or f" {one.said.lower()} " not in person.text
            ]
        )
    matched = _match_anchors(person, text)
    touched = tuple(
        [
            AnchorTouch(one.kind, one.key, one.sentence, one.is_in_one_sentence)
            for one in matched
            if one.key not in past.anchors
        ]
    )
    names = {name.lower() for name in _NAME.findall(text)}
    strangers = tuple(
        sorted(name for name in names if name not in past.words and name not in person.facts.words)
    )
    homes = [_measure_relevance(piece, person, past) for piece in heard.pieces]
    values = [
        *_compute_nearness_features(person, past, heard.line, homes),
        *_compute_likeness_features(person, past, heard.line),
        *_compute_copy_features(past, heard, copies),
        *_compute_anchor_features(person, heard.line, touched, len(matched)),
        *_compute_fact_features(claims, names, strangers, past, person),
        *_compute_form_features(text, heard),
        *_compute_dialogue_position_features(past),
        *_compute_act_features(heard),
        *weigh_items(persona, heard, past, copies, homes, touched),
    ]
    return Perception(
        heard.listened,
        persona.need,
        np.rint(np.array(values) * 256) / 256,
        _find_silence_or_nonsense(text, heard, past),
        copies,
        claims,
        heard.pieces,
        tuple([(one.key, heard.pieces[one.sentence].text) for one in touched]),
        strangers,
    )


def _find_silence_or_nonsense(
    text: str, heard: UtteranceFeatures, past: Past
) -> tuple[ReasonCode, str] | None:
    """Whether nothing is said, or nothing that one says: in a few words also something that takes
    up theirs counts. Little words stirred are nothing either: distinct words grow with about the
    0.8th power of a text's length (Heaps' law).
    """
    line, count = heard.line, len(heard.line.words)
    if not count and not text.strip(" .!?…\n\t"):
        return ReasonCode.SILENCE, "the agent said nothing"
    if count < 4:
        is_talk = count > 0 and (line.functions > 0 or bool(line.tokens & past.told))
    else:
        is_talk = line.functions >= 0.2 * count and not (
            count >= 20
            and (line.functions > 0.97 * count or len(set(line.words)) < 1.05 * count**0.8)
        )
    return None if is_talk else (ReasonCode.NONSENSE, "that was no sentence that they could follow")


class Relevance(NamedTuple):
    """How far one sentence is about this person, in hundredths of a nat."""

    fresh: int
    """Of what they told, taken up for the first time."""
    told: int
    """Of all that they told."""
    guessed: int
    """Of what only their card says."""
    alien: int
    """Of what neither says."""

    @property
    def strange(self) -> float:
        """How much better it would suit another story."""
        return self.alien - 0.5 * (self.told + self.guessed)


def _measure_relevance(piece: SentenceFeatures, person: Person, past: Past) -> Relevance:
    tokens = piece.tokens
    told = tokens & past.told
    rest = tokens - told
    guessed = rest & person.vocabulary
    return Relevance(
        sum_weights(told - past.own),
        sum_weights(told),
        sum_weights(guessed),
        sum_foreign_story_weights(rest - guessed),
    )


NEARNESS = (
    "last", "last_share", "told", "told_share", "new", "untold", "untold_share", "alien",
    "alien_share", "own", "again_share", "last_covered", "belongs", "strange", "strangest",
    "strange_sentences", "home_sentences",
)  # fmt: skip


def _compute_nearness_features(
    person: Person, past: Past, line: LineFeatures, homes: Sequence[Relevance]
) -> list[float]:
    tokens = line.tokens
    told = tokens & past.told
    rest = tokens - told
    guessed = rest & person.vocabulary
    of_last, of_told = (
        sum_weights(tokens & past.last.tokens) / 100,
        sum_weights(told) / 100,
    )
    of_untold, of_alien = (
        sum_weights(guessed) / 100,
        sum_foreign_story_weights(rest - guessed) / 100,
    )
    own, count = of_told + of_untold + of_alien + 3, max(1, len(homes))
    odd = [one.strange for one in homes]
    return [
        math.log1p(of_last), of_last / own, math.log1p(of_told), of_told / own,
        math.log1p(sum_weights(told - past.own) / 100), math.log1p(of_untold), of_untold / own,
        math.log1p(of_alien), of_alien / own, math.log1p(own),
        sum_weights(tokens & past.own) / 100 / own,
        of_last / (sum_weights(past.last.tokens) / 100 + 3),
        (of_told + 0.5 * of_untold - of_alien) / own,
        math.tanh((of_alien - 0.5 * (of_told + of_untold)) / 6),
        math.tanh(max(odd, default=0.0) / 400),
        sum(one > 200 for one in odd) / count,
        sum(one.told > 100 for one in homes) / count,
    ]  # fmt: skip


LIKENESS = (
    "like_last", "like_last_most", "like_last_mean", "like_last_least", "like_last_covered",
    "like_told_most", "like_told_mean", "like_told_least", "like_card_most", "like_card_mean",
    "like_card_least", "like_own_most", "like_own_mean", "like_self",
)  # fmt: skip


def _compute_likeness_features(person: Person, past: Past, line: LineFeatures) -> list[float]:
    """In cosines: sums are of whole numbers, so that they are exact in any order."""
    whole, own, last = line.vectors[-1], line.vectors[:-1], past.last.vectors
    if len(last) == 1:
        last = np.concatenate([last, last])
    count = len(own)
    if not count:
        return [0.0] * len(LIKENESS)
    parts = [
        one if len(one) else _NO_VECTOR
        for one in (last, past.vectors, person.story, past.own_vectors)
    ]
    starts = [0, *accumulate(map(len, parts[:-1]))]
    like = own @ np.concatenate(parts).T
    each = [
        _summarise_similarities(found) for found in np.maximum.reduceat(like, starts, 1).T.tolist()
    ]
    to_last = like[:, : len(last) - 1]
    return [
        float(whole @ last[-1]) / _UNIT,
        *each[0], float(to_last.max(0).sum()) / max(1, len(last) - 1) / _UNIT,
        *each[1], *each[2], *each[3][:2],
        _measure_self_similarity(own) if count > 1 else 0.0,
    ]  # fmt: skip


def _summarise_similarities(found: list[float]) -> list[float]:
    return [max(found) / _UNIT, sum(found) / len(found) / _UNIT, min(found) / _UNIT]


def _measure_self_similarity(own: np.ndarray) -> float:
    """How like its sentences are among themselves, in the mean."""
    total, count = own.sum(0), len(own)
    return (float(total @ total) / _UNIT - count) / (count * (count - 1))


COPIES = (
    "copied", "copied_count", "copied_most", "quoted", "copied_raw", "copied_last", "longest_run",
    "torn", "parroted", "repeated", "repeated_most", "repeated_times", "said_before", "as_own",
    "variety",
)  # fmt: skip


def _compute_copy_features(past: Past, heard: UtteranceFeatures, copies: Copies) -> list[float]:
    line, count = heard.line, max(1, len(heard.pieces))
    return [
        copies.share, math.log1p(copies.copied), copies.most, len(copies.quoted) / count,
        len(line.raw & past.raw) / max(4, len(line.raw)),
        len(line.runs & past.last.runs) / max(4, len(line.runs)), math.tanh(copies.longest / 8),
        min(2, len(copies.torn)) / 2, len(copies.parroted) / count, copies.repeated,
        copies.repeated_most, min(3, copies.repeated_times) / 3, len(copies.stale) / count,
        math.log1p(copies.of_own), len(line.runs) / max(4, len(line.words) - 2),
    ]  # fmt: skip


ANCHORS = (
    *(f"touch:{kind}" for kind in _KINDS), *(f"near:{kind}" for kind in _KINDS), "touched",
    "touched_again",
)  # fmt: skip


def _compute_anchor_features(
    person: Person, line: LineFeatures, fresh: Sequence[AnchorTouch], count: int
) -> list[float]:
    touched = [0.0] * len(_KINDS)
    for one in fresh:
        touched[_KINDS.index(one.kind)] += 1.0
    near = [0.0] * len(_KINDS)
    if person.kinds and len(line.vectors) > 1:
        like = line.vectors[:-1] @ person.anchor_vectors.T
        best = np.maximum.reduceat(like, person.kind_starts, 1).max(0).tolist()
        for kind, found in zip(person.kinds, best, strict=True):
            near[kind] = found / _UNIT
    return [
        *map(math.tanh, touched), *near, math.log1p(len(fresh)),
        min(4.0, count - len(fresh)) / 4,
    ]  # fmt: skip


FACTS = (
    "facts:false", "facts:sure", "facts:told", "facts:true", "facts:unknown", "names:told",
    "names:strange", "names:card",
)  # fmt: skip


def _compute_fact_features(
    claims: Sequence[Claim], names: set[str], strangers: Sequence[str], past: Past, person: Person
) -> list[float]:
    verdicts = [one.verdict for one in claims]
    return [
        math.tanh(verdicts.count("false")), float(any(one.is_sure for one in claims)),
        math.tanh(verdicts.count("told") / 2), math.tanh(verdicts.count("true") / 2),
        math.tanh(verdicts.count("unknown") / 2), math.tanh(len(names & past.words) / 2),
        math.tanh(len(strangers)), float(bool((names & person.names) - past.words)),
    ]  # fmt: skip


FORM = (
    "sentences", "words", "words_off", "you", "me", "me_over_you", "distinct", "function_words",
    "exclamations", "bold", "list", "emoji", "ends_asking", "unended", "cut", "questions",
    "guesses", "suggests", "feelings", "share_asking", "shouted", "longest", "not", "broken",
)  # fmt: skip


def _compute_form_features(text: str, heard: UtteranceFeatures) -> list[float]:
    line, sentences, words = heard.line, heard.listened.sentences, heard.line.words
    count, parts = len(words), max(1, len(sentences))
    floor, size, bare = max(5, count), math.log1p(count), text.rstrip()
    yours, mine = sum(map(YOURS.__contains__, words)), sum(map(MINE.__contains__, words))
    asks = sum([one.ask is not None for one in sentences])
    return [
        math.log1p(len(sentences)), size, (size - 3) ** 2 / 4, yours / floor, mine / floor,
        math.tanh((mine - yours) / 4), len(set(words)) / max(6, count), line.functions / floor,
        math.tanh(text.count("!") / 2), float("**" in text),
        math.tanh(len(_LIST_ITEM.findall(text)) / 2) if _LISTED.search(text) else 0.0,
        float(not text.isascii() and _EMOJI.search(text) is not None),
        float(bare.endswith("?")), float(bare[-1:] not in ".!?…\"”'’)*"),
        sum([one.is_cut for one in heard.pieces]) / parts, math.tanh(asks / 2),
        sum([one.is_guess for one in sentences]) / parts,
        sum([one.suggests for one in sentences]) / parts,
        math.tanh(sum([len(one.feelings) for one in sentences])), asks / parts,
        len(_SHOUTED.findall(text)) / floor,
        max([len(one.words) for one in sentences], default=0) / 32,
        sum(map(_NOT.__contains__, words)) / floor,
        sum([len(one.words) for one in heard.pieces if one.is_broken]) / floor,
    ]  # fmt: skip


PLACE = ("turn", "first", "was_asked", "told_length", "longer")


def _compute_dialogue_position_features(past: Past) -> list[float]:
    turns = len(past.utterances)
    return [
        min(turns, 8) / 8, float(not turns), float(past.last.asks),
        math.log1p(len(past.last.words)) / 4, math.log1p(past.length / max(1, turns)) / 4,
    ]  # fmt: skip


def _compute_act_features(heard: UtteranceFeatures) -> list[float]:
    acts, logits = heard.acts, heard.logits
    return [
        *[acts[act][0] if act in acts else 0.0 for act in _PHRASED],
        *[math.tanh(logits[act] / 3) if logits else 0.0 for act in _HEARD],
    ]


FEATURES = (
    *NEARNESS, *LIKENESS, *COPIES, *ANCHORS, *FACTS, *FORM, *PLACE,
    *(f"act:{act}" for act in _PHRASED), *(f"logit:{act}" for act in _HEARD), *ITEMS,
)  # fmt: skip
