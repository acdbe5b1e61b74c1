"""Perceive: one utterance to one person, after all that was said, as numbers and a few findings.
Computed once a step; what stays of the past is kept. Knows no measured weights. Pure.
"""

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from rlver_gym.core.anchors import AnchorIndex
from rlver_gym.core.dialogue import Dialogue, Reason
from rlver_gym.core.persona import AnchorKind, HiddenNeed, Persona
from rlver_gym.core.words import FUNCTION_WORDS, split_sentences, split_words, stem
from rlver_gym.io.files import load_json
from rlver_gym.io.frozen import cache_by_parts
from rlver_gym.text.english.listen import Utterance, listen
from rlver_gym.text.lexicon import Phrase, load_lexicon
from rlver_gym.text.story_index import texts_of
from rlver_gym.text.tokens import PRONOUNS, YOU, token_of
from rlver_gym.text.vectors import SCALE, embed_rows, row_of
from rlver_gym.users.embedded.evidence import collect_evidence
from rlver_gym.users.embedded.speech.claims import Claim, check_claims
from rlver_gym.users.embedded.speech.facts import FactBase, fact_base

_NAME = re.compile(r"(?<=[a-z,;:] )[A-Z][a-z]{2,}\b")
_SHOUTED = re.compile(r"\b[A-Z]{2,}\b")
_LIST_ITEM = re.compile(r"(?m)^\s*(?:[-*•]|\d+[.)])")
_EMOJI = re.compile("[\U0001f300-\U0001faff❤]")
_YOURS = frozenset({"you", "your", "yours", "yourself"})
_MINE = frozenset({"i", "me", "my", "mine", "myself", "we", "our", "us"})
_FOLDED = {
    **dict.fromkeys(("i", "me", "we", "us", "you", "myself", "yourself"), "you"),
    **dict.fromkeys(("my", "our", "your", "mine", "ours", "yours"), "your"),
    **dict.fromkeys(("am", "is", "are"), "are"),
    **dict.fromkeys(("was", "were"), "were"),
}
"""Speaker and listener folded: "we had our list" given back is "you had your list"."""
_NOBODY = PRONOUNS | {YOU, ""}
_ACTS = tuple(load_json("rlver_gym.text", "lexicon_en.json")["acts"])
_KINDS: tuple[str, ...] = AnchorKind.__args__
_UNKNOWN_NATS = 1.0


class _Word(NamedTuple):
    """All that is ever asked of a word, worked out once."""

    token: str
    stem: str
    folded: str
    row: int
    """In the table of word vectors; -1 for a word that it has not."""
    phrases: tuple[Phrase, ...]
    is_function: bool


class _Words(dict[str, _Word]):
    def __missing__(self, word: str) -> _Word:
        if len(self) >= 50_000:
            self.clear()
        token = token_of(word)
        root = stem(word)
        found = self[word] = _Word(
            "" if token in _NOBODY else token,
            root,
            _FOLDED.get(word, word),
            row_of(word),
            load_lexicon().phrases(root),
            word in FUNCTION_WORDS,
        )
        return found


_WORDS = _Words()


class Line(NamedTuple):
    """One line or utterance, word by word."""

    words: tuple[str, ...]
    tokens: frozenset[str]
    """What it is about."""
    threes: frozenset[tuple[str, ...]]
    """Its runs of three words, speaker and listener folded."""
    fives: frozenset[tuple[str, ...]]
    raw: frozenset[tuple[str, ...]]
    """Its runs of four words as they stand."""
    sentences: frozenset[str]
    vector: np.ndarray
    """What it is about as a whole."""
    vectors: np.ndarray
    """The same of each sentence."""
    asks: bool


def read_sentences(text: str, sentences: Sequence[tuple[str, ...]]) -> Line:
    """A line of these sentences."""
    words = tuple([word for one in sentences for word in one])
    known = [_WORDS[word] for word in words]
    folded = [one.folded for one in known]
    rows = [[_WORDS[word].row for word in one] for one in sentences] or [[]]
    vectors = embed_rows([*rows, [one.row for one in known]])
    return Line(
        words,
        frozenset([one.token for one in known]) - {""},
        frozenset(zip(folded, folded[1:], folded[2:], strict=False)),
        frozenset(zip(folded, folded[1:], folded[2:], folded[3:], folded[4:], strict=False)),
        frozenset(zip(words, words[1:], words[2:], words[3:], strict=False)),
        frozenset([" ".join(one) for one in sentences if len(one) > 2]),
        vectors[-1],
        vectors[:-1],
        "?" in text,
    )


@lru_cache(maxsize=4_096)
def read_line(text: str) -> Line:
    """A line of the person; kept, because lines come again."""
    return read_sentences(text, [split_words(one) for one in split_sentences(text)])


@lru_cache(maxsize=4_096)
def read_utterance(text: str) -> Line:
    """An utterance of the agent."""
    return read_sentences(text, [one.words for one in listen(text).sentences])


class Person(NamedTuple):
    """A card, compiled for being spoken to."""

    facts: FactBase
    text: str
    """All words of the story, between blanks: a number that stands there is never wrong."""
    vocabulary: frozenset[str]
    names: frozenset[str]
    anchors: AnchorIndex
    kinds: np.ndarray
    """Of each anchor, the number of its kind."""
    anchor_vectors: np.ndarray
    story: np.ndarray
    """Vectors of what the card tells, a sentence a row."""


@cache_by_parts("situation", "person")
def compile_person(persona: Persona) -> Person:
    """Compile a card, once."""
    facts, situation = fact_base(persona), persona.situation
    each = list(situation.anchors.each())
    anchor_rows = [[_WORDS[word].row for word in split_words(one.text)] for _, one in each]
    told = [situation.cause, situation.now, *situation.tried]
    told += [line for one in situation.disclosures for line in (one.in_tone("normal"),)]
    sentences = [
        words for text in told for part in split_sentences(text) if (words := split_words(part))
    ]
    words = [word for text in texts_of(situation.model_dump()) for word in split_words(text)]
    return Person(
        facts,
        f" {' '.join(words)} ",
        facts.vocabulary,
        frozenset(facts.name_words) | {persona.person.name.lower()},
        AnchorIndex(situation),
        np.array([_KINDS.index(kind) for kind, _ in each], dtype=np.intp),
        embed_rows(anchor_rows),
        embed_rows([[_WORDS[word].row for word in one] for one in sentences] or [[]]),
    )


class Past(NamedTuple):
    """What was said before the last utterance."""

    last: Line
    told: frozenset[str]
    """Tokens of all that the person said."""
    threes: frozenset[tuple[str, ...]]
    fives: frozenset[tuple[str, ...]]
    raw: frozenset[tuple[str, ...]]
    words: frozenset[str]
    """Of the person."""
    told_vectors: np.ndarray
    own: frozenset[str]
    """Tokens of what the agent said."""
    own_threes: frozenset[tuple[str, ...]]
    own_sentences: frozenset[str]
    own_vectors: np.ndarray
    utterances: tuple[Line, ...]
    anchors: frozenset[str]
    """Keys of the anchors that the agent touched."""
    length: int
    """Of the utterances, in words."""


_NO_VECTORS = np.zeros((0, 64), dtype=np.float32)


def _begin(opening: str) -> Past:
    line = read_line(opening)
    nothing: frozenset[Any] = frozenset()
    return Past(
        line, line.tokens, line.threes, line.fives, line.raw, frozenset(line.words), line.vectors,
        nothing, nothing, nothing, _NO_VECTORS, (), nothing, 0,
    )  # fmt: skip


@lru_cache(maxsize=4_096)
def _past(person: "_ById", opening: str, said: tuple[str, ...]) -> Past:
    if not said:
        return _begin(opening)
    before = _past(person, opening, said[:-2])
    spoken, line = read_utterance(said[-2]), read_line(said[-1])
    touched = _touch(person.person, listen(said[-2]))
    return Past(
        line,
        before.told | line.tokens,
        before.threes | line.threes,
        before.fives | line.fives,
        before.raw | line.raw,
        before.words.union(line.words),
        np.concatenate([before.told_vectors, line.vectors]),
        before.own | spoken.tokens,
        before.own_threes | spoken.threes,
        before.own_sentences | spoken.sentences,
        np.concatenate([before.own_vectors, spoken.vectors]),
        (*before.utterances, spoken),
        before.anchors.union(touched),
        before.length + len(spoken.words),
    )


class _ById(NamedTuple):
    """A compiled person as the key of a cache."""

    person: Person

    def __hash__(self) -> int:
        return id(self.person)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and other.person is self.person


def _touch(person: Person, heard: Utterance) -> dict[str, int]:
    """Anchors that are touched, each with its sentence."""
    stems = tuple([tuple([_WORDS[word].stem for word in one.words]) for one in heard.sentences])
    return {one.key: one.sentence for one in person.anchors.match(stems)}


class Perception(NamedTuple):
    """What one utterance is to one person."""

    heard: Utterance
    line: Line
    need: HiddenNeed
    values: np.ndarray
    """In the order of FEATURES; most in [0, 1], in steps of 1/256."""
    expert: np.ndarray
    """What experts would give for its acts, anchors and form, in the order of EXPERT_ITEMS."""
    evidence: tuple[Reason, ...]
    """The same, item by item."""
    claims: tuple[Claim, ...]
    acts: dict[str, str]
    """Acts done by a phrase of the lexicon, each with its sentence."""
    anchors: tuple[tuple[str, str], ...]
    """Anchors touched for the first time, with their sentences."""
    strangers: tuple[str, ...]
    """Names that nobody in their story has."""
    said_before: str
    """A sentence that the agent has said before; empty when there is none."""
    as_own: str
    """A sentence in which the agent tells their story as its own; empty when there is none."""


class _Place(NamedTuple):
    """What is perceived, as the key of a cache."""

    persona: Persona
    dialogue: Dialogue
    said: tuple[str, ...]

    def __hash__(self) -> int:
        return hash((id(self.persona), self.said, self.dialogue.utterance))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Place)
            and other.persona is self.persona
            and other.dialogue.utterance == self.dialogue.utterance
            and other.dialogue.opening == self.dialogue.opening
            and other.said == self.said
        )


def perceive(persona: Persona, dialogue: Dialogue) -> Perception:
    """Perceive the last utterance of a dialogue. Kept for a moment: several steps ask for it."""
    said = tuple([text for turn in dialogue.turns for text in (turn.utterance, turn.reply)])
    return _perceive(_Place(persona, dialogue, said))


@lru_cache(maxsize=64)
def _perceive(place: _Place) -> Perception:
    persona, dialogue, said = place
    person, text = compile_person(persona), dialogue.utterance or ""
    past = _past(_ById(person), dialogue.opening, said)
    evidence = collect_evidence(persona, dialogue)
    claims = tuple(
        [
            one
            for one in check_claims(persona, dialogue)
            if one.kind != "number" or f" {one.said.lower()} " not in person.text
        ]
    )
    heard, line = listen(text), read_utterance(text)
    acts = _find_acts(heard)
    touched = _touch(person, heard)
    fresh = tuple(
        [
            (name, heard.sentences[at].text)
            for name, at in touched.items()
            if name not in past.anchors
        ]
    )
    names = {name.lower() for name in _NAME.findall(text)}
    strangers = tuple(
        sorted(name for name in names if name not in past.words and name not in person.facts.words)
    )
    own, again = _find_own_story(heard, past), _find_repeated(heard, past)
    values = [
        *_nearness(person, past, line),
        *_likeness(person, past, line),
        *_copies(past, line, heard, own[1], again[1]),
        *_anchors(person, line, fresh, len(touched)),
        *_facts(claims, names, strangers, past, person),
        *_form(text, line, heard),
        *_place(past),
        *[float(act in acts) for act in _ACTS],
    ]
    return Perception(
        heard,
        line,
        persona.need,
        np.rint(np.array(values) * 256) / 256,
        _expert(evidence),
        evidence,
        claims,
        acts,
        fresh,
        strangers,
        again[0],
        own[0],
    )


def _find_acts(heard: Utterance) -> dict[str, str]:
    found: dict[str, str] = {}
    lexicon = load_lexicon()
    for one in heard.sentences:
        known = [_WORDS[word] for word in one.words]
        phrases = tuple([each.phrases for each in known])
        if any(phrases):
            for act in lexicon.acts(tuple([each.stem for each in known]), phrases):
                found.setdefault(act, one.text)
    return found


def _find_own_story(heard: Utterance, past: Past) -> tuple[str, float]:
    """Sentences in which the agent speaks of itself in words that the person told of themselves."""
    best, most, total = "", 0.0, 0.0
    for one in heard.sentences:
        has = frozenset(one.words)
        if has & _MINE and not has & _YOURS and one.ask is None:
            shared = weigh({_WORDS[word].token for word in one.words} & past.told)
            total += shared
            if shared > most:
                best, most = one.text, shared
    return (best if most > 6 else ""), total


def _find_repeated(heard: Utterance, past: Past) -> tuple[str, float]:
    if not past.own_sentences:
        return "", 0.0
    said = [one for one in heard.sentences if len(one.words) > 2]
    again = [one for one in said if " ".join(one.words) in past.own_sentences]
    return (again[0].text if again else ""), len(again) / max(1, len(said))


@lru_cache(maxsize=1)
def _rarity() -> dict[str, float]:
    """Of tokens, log(situations / those in which supporters use it)."""
    data = load_json("rlver_gym.text", "english/spread.json")
    return {
        token: round(math.log(data["situations"] / int(count)), 3)
        for count, tokens in data["spread"].items()
        for token in tokens.split()
    }


def weigh(tokens: set[str] | frozenset[str]) -> float:
    """How much tokens say about which story they belong to, in nats."""
    known = _rarity()
    return math.fsum([known.get(token, _UNKNOWN_NATS) for token in tokens])


NEARNESS = (
    "last", "last_share", "told", "told_share", "new", "untold", "untold_share", "alien",
    "alien_share", "aliens", "own", "again_share", "last_covered", "belongs",
)  # fmt: skip


def _nearness(person: Person, past: Past, line: Line) -> list[float]:
    tokens = line.tokens
    last, told = tokens & past.last.tokens, tokens & past.told
    untold = (tokens & person.vocabulary) - past.told
    alien = tokens - past.told - person.vocabulary
    of_last, of_told, of_untold, of_alien = weigh(last), weigh(told), weigh(untold), weigh(alien)
    own = of_told + of_untold + of_alien
    new = weigh(told - past.own)
    return [
        math.log1p(of_last), of_last / (own + 3), math.log1p(of_told), of_told / (own + 3),
        math.log1p(new), math.log1p(of_untold), of_untold / (own + 3), math.log1p(of_alien),
        of_alien / (own + 3), math.log1p(len(alien)), math.log1p(own),
        weigh(tokens & past.own) / (own + 3), of_last / (weigh(past.last.tokens) + 3),
        (of_told + 0.5 * of_untold - of_alien) / (own + 3),
    ]  # fmt: skip


LIKENESS = (
    "like_last", "like_last_most", "like_last_mean", "like_last_least", "like_last_covered",
    "like_told_most", "like_told_mean", "like_told_least", "like_card_most", "like_card_mean",
    "like_card_least", "like_own_most", "like_own_mean", "like_self",
)  # fmt: skip


def _likeness(person: Person, past: Past, line: Line) -> list[float]:
    own, size = line.vectors, float(SCALE * SCALE)
    to_last = own @ past.last.vectors.T / size
    to_told = (own @ past.told_vectors.T / size).max(1)
    to_card = (own @ person.story.T / size).max(1)
    most = to_last.max(1)
    if len(past.own_vectors):
        to_own = (own @ past.own_vectors.T / size).max(1)
        again = [float(to_own.max()), float(to_own.mean())]
    else:
        again = [0.0, 0.0]
    among = own @ own.T / size
    count = len(own)
    return [
        float(line.vector @ past.last.vector) / size,
        *_spread(most), float(to_last.max(0).mean()), *_spread(to_told), *_spread(to_card), *again,
        float(among.sum() - count) / max(1, count * (count - 1)) if count > 1 else 0.0,
    ]  # fmt: skip


def _spread(values: np.ndarray) -> list[float]:
    return [float(values.max()), float(values.mean()), float(values.min())]


COPIES = (
    "copied3", "copied5", "copied_raw", "copied_last", "copied_count", "repeated", "repeated_most",
    "repeated_times", "said_before", "as_own", "variety3",
)  # fmt: skip


def _copies(past: Past, line: Line, heard: Utterance, own: float, again: float) -> list[float]:
    threes, fives = line.threes, line.fives
    size, words = max(4, len(threes)), len(line.words)
    copied = len(threes & past.threes)
    repeats = [len(threes & one.threes) / size for one in past.utterances]
    return [
        copied / size, len(fives & past.fives) / max(4, len(fives)),
        len(line.raw & past.raw) / max(4, len(line.raw)), len(threes & past.last.threes) / size,
        math.log1p(copied), len(threes & past.own_threes) / size, max(repeats, default=0.0),
        math.tanh(sum(share > 0.2 for share in repeats) / 2), again, math.log1p(own),
        len(threes) / max(4, words - 2),
    ]  # fmt: skip


ANCHORS = (
    *(f"touch:{kind}" for kind in _KINDS), *(f"near:{kind}" for kind in _KINDS), "touched",
    "touched_again",
)  # fmt: skip


def _anchors(
    person: Person, line: Line, fresh: Sequence[tuple[str, str]], count: int
) -> list[float]:
    touched = [0.0] * len(_KINDS)
    for name, _ in fresh:
        touched[_KINDS.index(name.partition("/")[0])] += 1.0
    near = np.zeros(len(_KINDS))
    if len(person.kinds):
        best = (person.anchor_vectors @ line.vectors.T).max(1) / float(SCALE * SCALE)
        np.maximum.at(near, person.kinds, best)
    return [
        *map(math.tanh, touched),
        *near.tolist(),
        math.log1p(len(fresh)),
        float(count - len(fresh)),
    ]


FACTS = (
    "facts:false", "facts:sure", "facts:told", "facts:true", "facts:unknown", "names:told",
    "names:strange", "names:card",
)  # fmt: skip


def _facts(
    claims: Sequence[Claim], names: set[str], strangers: Sequence[str], past: Past, person: Person
) -> list[float]:
    count = dict.fromkeys(("false", "told", "true", "unknown"), 0)
    for one in claims:
        count[one.verdict] += 1
    told = names & past.words
    return [
        math.tanh(count["false"]), float(any(one.is_sure for one in claims)),
        math.tanh(count["told"] / 2), math.tanh(count["true"] / 2), math.tanh(count["unknown"] / 2),
        math.tanh(len(told) / 2), math.tanh(len(strangers)),
        float(bool((names & person.names) - past.words)),
    ]  # fmt: skip


FORM = (
    "sentences", "words", "words_off", "you", "me", "me_over_you", "variety", "word_length",
    "function_words", "unknown_words", "exclamations", "bold", "list", "emoji", "dash", "quote",
    "colon", "lines", "ends_asking", "unended", "questions", "guesses", "suggests", "feelings",
    "share_asking", "commas", "shouted", "longest", "not",
)  # fmt: skip


def _form(text: str, line: Line, heard: Utterance) -> list[float]:
    words, sentences = line.words, heard.sentences
    count, parts = len(words), max(1, len(sentences))
    floor = max(5, count)
    yours, mine = sum(word in _YOURS for word in words), sum(word in _MINE for word in words)
    known = [_WORDS[word] for word in words]
    size, bare = math.log1p(count), text.rstrip()
    return [
        math.log1p(len(sentences)), size, (size - 3) ** 2 / 4, yours / floor, mine / floor,
        math.tanh((mine - yours) / 4), len(set(words)) / max(6, count),
        sum(map(len, words)) / max(1, count) / 5, sum(one.is_function for one in known) / floor,
        sum(one.row < 0 for one in known) / floor, math.tanh(text.count("!") / 2),
        float("**" in text), math.tanh(len(_LIST_ITEM.findall(text)) / 2),
        float(not text.isascii() and _EMOJI.search(text) is not None), float("—" in text),
        float('"' in text or "“" in text), float(":" in text), float("\n" in text),
        float(bare.endswith("?")), float(bare[-1:] not in ".!?…\"”'’)*"),
        math.tanh(sum(one.ask is not None for one in sentences) / 2),
        sum(one.is_guess for one in sentences) / parts,
        sum(one.suggests for one in sentences) / parts,
        math.tanh(sum(len(one.feelings) for one in sentences)),
        sum(one.ask is not None for one in sentences) / parts, text.count(",") / parts / 2,
        len(_SHOUTED.findall(text)) / floor,
        max((len(one.words) for one in sentences), default=0) / 32,
        sum(word in ("not", "never", "no") for word in words) / floor,
    ]  # fmt: skip


PLACE = ("turn", "first", "was_asked", "told_length", "longer")


def _place(past: Past) -> list[float]:
    turns = len(past.utterances)
    return [
        min(turns, 8) / 8, float(not turns), float(past.last.asks),
        math.log1p(len(past.last.words)) / 4, math.log1p(past.length / max(1, turns)) / 4,
    ]  # fmt: skip


FEATURES = (
    *NEARNESS, *LIKENESS, *COPIES, *ANCHORS, *FACTS, *FORM, *PLACE,
    *(f"act:{act}" for act in _ACTS),
)  # fmt: skip
EXPERT_ITEMS = (
    *(
        f"act:{act}"
        for act in (
            "advice", "agree_all", "ai", "blame", "cliche", "command", "hedge", "insult", "invite",
            "meta", "minimise", "motives", "open_question", "other_side", "praise", "promise",
            "referral", "reflect_feeling", "reflect_prompt", "side", "threat", "told_back",
            "validate",
        )
    ),
    *(f"anchor:{kind}" for kind in _KINDS), "asked_first", "broken", "copying", "elsewhere",
    "interrogation", "list", "long", "nonsense", "repetition", "short", "silence", "strangers",
    "too_soon", "torn", "whole",
)  # fmt: skip
_PLACE_OF_ITEM = {name: at for at, name in enumerate(EXPERT_ITEMS)}
_EXPERT_SCALE = 5.0
"""Points that make a value of 1."""


def _expert(evidence: Sequence[Reason]) -> np.ndarray:
    found = np.zeros(len(EXPERT_ITEMS))
    for code, points, _ in evidence:
        at = _PLACE_OF_ITEM.get(code.partition("/")[0])
        if at is not None:
            found[at] += points / _EXPERT_SCALE
    return np.rint(found * 256) / 256
