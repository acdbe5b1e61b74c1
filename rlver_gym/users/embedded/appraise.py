"""Appraise: what a reply is worth to this person, as a sum of named inputs times fitted weights, each
held to the sign that its name promises, and of rules that must cost. Imports nothing of speech.
"""

import math
import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from rlver_gym.core.dialogue import ReasonCode
from rlver_gym.core.persona import HiddenNeed
from rlver_gym.users.embedded.english import (
    ACT,
    DATA,
    FEELING_OF,
    LABELS,
    RELATIONS,
    SCALE,
    word_set,
)
from rlver_gym.users.embedded.hear import Heard
from rlver_gym.users.embedded.recall import Moment, Past
from rlver_gym.users.embedded.rules import (
    CODES,
    COSTS,
    find_rules,
    find_void,
    measure_other_story,
)
from rlver_gym.util.files import load_json

_UNIT = float(SCALE * SCALE)
_LIST_ITEM = re.compile(r"(?m)^\s*(?:[-*•]|\d+[.)])")
_ASKING = frozenset(
    "is are was were do does did has have had can could will would should may".split()
)
_STATING = (
    RELATIONS
    | word_set("weekdays")
    | word_set("months")
    | word_set("numbers to nineteen")
    | word_set("tens")
)
"""Words with which something is said that is so or not."""
_LEVEL_REFLECT, _LEVEL_ADVICE, _LEVEL_CLICHE, _LEVEL_BLAME = -0.81, -0.83, -0.86, -0.86
"""Evidence of an act, as a tanh, that half of the honest replies have; above it speaks for the act,
below it for none.
"""
_REFLECT, _ADVICE, _CLICHE, _BLAME = (
    ACT[a] for a in ("reflect_feeling", "advice", "cliche", "blame")
)
_VALIDATE, _SIDE, _PRAISE, _INVITE = (ACT[a] for a in ("validate", "side", "praise", "invite"))
_OFFTOPIC, _BELITTLE, _INSULT, _CONFIDE = (
    LABELS.index(label) for label in ("offtopic", "belittle", "insult", "confide")
)
_FEELINGS = frozenset(FEELING_OF)

GROUPS: dict[str, tuple[str, ...]] = {
    "taken_up": ("like_last", "like_told", "fresh", "asks_fresh"),
    "elsewhere": ("alien", "strange", "invented", "rich_words", "offtopic"),
    "feeling": ("reflects", "feeling"),
    "on_side": ("validates", "sides", "praises", "accuses_nobody"),
    "meets": ("near", "touched", "anchored", "wanted", "wanted_fresh"),
    "asks": ("ends_asking", "asks_brief", "lets_talk", "leaves_free"),
    "presses": ("asked_past", "asks_many", "asked_before", "advises", "unwanted", "guesses"),
    "stock": ("cliche", "short", "bare", "names_no_feeling"),
    "hurts": ("blames", "belittles", "insults"),
    "form": ("list", "exclaims", "long"),
    "manner": ("plain_words", "own_words", "confides", "turns", "after_much"),
    "copies": ("copied", "copied_most", "repeated", "said_again"),
}  # fmt: skip
"""Inputs by what a person would call them."""
SIGNS = {
    "taken_up": 1, "elsewhere": -1, "feeling": 1, "on_side": 1, "meets": 1, "asks": 1,
    "presses": -1, "stock": -1, "hurts": -1, "form": -1, "manner": 1, "copies": -1,
}  # fmt: skip
INPUTS = tuple(name for names in GROUPS.values() for name in names)
_NOTES = load_json(DATA, "notes.json")


class Contribution(NamedTuple):
    """A part of a change."""

    code: str
    points: float
    note: str


class _Score(NamedTuple):
    weights: dict[str, tuple[tuple[str, float], ...]]
    """By group, its inputs with their weights, those of weight 0 left out."""
    intercept: float


@lru_cache(maxsize=1)
def load_score() -> _Score:
    data = load_json(DATA, "score.json")
    weights = {
        group: tuple((name, data["weights"][name]) for name in names if data["weights"][name])
        for group, names in GROUPS.items()
    }
    return _Score(weights, data["intercept"])


@lru_cache(maxsize=1)
def load_worth() -> dict[str, float]:
    """What words are worth beside others."""
    return load_json(DATA, "worth.json")


def appraise_moment(moment: Moment, need: HiddenNeed) -> list[Contribution]:
    """What an utterance is worth, part by part."""
    void = find_void(moment)
    if void is not None:
        return [Contribution(CODES[void.name], COSTS[void.name], void.note)]
    score, inputs = load_score(), compute_inputs(moment, need)
    found = [Contribution(ReasonCode.WHOLE, score.intercept, "on the whole")]
    for group, weights in score.weights.items():
        parts = [weight * inputs[name] for name, weight in weights]
        points = sum(parts)
        if abs(points) >= 0.125:
            best = max(range(len(parts)), key=lambda at: abs(parts[at]))
            found.append(Contribution(group, points, _NOTES[weights[best][0]]))
    rules = find_rules(moment)
    gained = sum([one.points for one in found])
    lost = (
        max(
            measure_other_story(moment), *[one.share * (one.name == "garble") for one in rules], 0.0
        )
        if rules
        else measure_other_story(moment)
    )
    if gained > 0 and lost:
        note = "nothing in it counts: it is about another story, or hangs together badly"
        found.append(Contribution("elsewhere", -gained * lost, note))
    for one in rules:
        found.append(Contribution(CODES[one.name], COSTS[one.name] * one.share, one.note))
    return found


def compute_inputs(moment: Moment, need: HiddenNeed) -> dict[str, float]:
    """Every input of INPUTS, not below 0 but `plain_words`; most at most 1."""
    _, past, heard = moment
    about = _measure_relevance(moment)
    count = len(heard.words)
    wants = _load_needs()[need]
    reach = min(1.0, about.told / 300)
    heeds = 0.3 + 0.7 * reach
    near, touched, anchored = _measure_meeting(moment, wants)
    evidence = heard.evidence
    mean = evidence.mean(0)
    tanh = np.tanh(mean / 3).tolist()
    sure = (1 / (1 + np.exp(-(2 * evidence + mean).max(0) / 3))).tolist()
    label = heard.labels.max(0).tolist()
    like_last, like_told = _measure_likeness(past, heard)
    asks = [one.tokens for one in heard.sentences if one.ask]
    feelings = _FEELINGS.intersection(heard.words)
    wanted = sum([share * sure[at] for at, share in wants.wanted])
    is_new = not any(
        len(tokens & other) >= 0.7 * len(tokens | other)
        for tokens in asks
        if tokens
        for other in past.asked
    )
    reflects, blames = tanh[_REFLECT] - _LEVEL_REFLECT, tanh[_BLAME] - _LEVEL_BLAME
    cliche, advises = tanh[_CLICHE] - _LEVEL_CLICHE, tanh[_ADVICE] - _LEVEL_ADVICE
    copied, copied_most, repeated, said_again = _measure_copies(past, heard)
    distinct = frozenset(heard.words)
    table = load_worth()
    return {
        "like_last": like_last,
        "like_told": like_told,
        "fresh": math.log1p(about.fresh / 100) / 2,
        "asks_fresh": float(bool(asks) and about.fresh > 0 and is_new),
        "alien": about.alien / about.own,
        "strange": about.strange,
        "invented": about.invented,
        "rich_words": max(0.0, math.log1p(about.own / 100) - 2.0),
        "offtopic": label[_OFFTOPIC],
        "reflects": max(0.0, reflects),
        "feeling": (1.0 if past.told_words.isdisjoint(feelings) else 0.5) * heeds * bool(feelings),
        "validates": sure[_VALIDATE] * heeds,
        "sides": sure[_SIDE] * heeds,
        "praises": sure[_PRAISE] * heeds,
        "accuses_nobody": max(0.0, -blames),
        "near": near,
        "touched": touched,
        "anchored": anchored,
        "wanted": wanted,
        "wanted_fresh": wanted * reach * (about.fresh > 0),
        "ends_asking": float(heard.text.rstrip()[-1:] == "?"),
        "asks_brief": float(0 < len(asks) == len(heard.sentences) and count <= 9 and is_new),
        "lets_talk": sure[_INVITE],
        "leaves_free": max(0.0, -advises),
        "asked_past": min(3, past.asked_without_uptake) / 3 if asks and not about.fresh else 0.0,
        "asks_many": min(2, max(0, len(asks) - 1)) / 2,
        "asked_before": float(not is_new),
        "advises": max(0.0, advises),
        "unwanted": sum([share * sure[at] for at, share in wants.unwanted]),
        "guesses": float(
            any(one.ask == "yes" and one.words[0] not in _ASKING for one in heard.sentences)
        ),
        "cliche": max(0.0, cliche),
        "short": float(0 < count < 4),
        "bare": max(0.0, 1 - len(heard.tokens) / 6),
        "names_no_feeling": max(0.0, -reflects),
        "blames": max(0.0, blames),
        "belittles": label[_BELITTLE],
        "insults": label[_INSULT],
        "list": min(1.0, len(_LIST_ITEM.findall(heard.text)) / 3 + ("**" in heard.text) / 2),
        "exclaims": min(1.0, heard.text.count("!") / 3),
        "long": min(1.0, max(0.0, count - 60) / 60),
        "plain_words": sum([table.get(word, 0.0) for word in distinct])
        / max(2.5, len(distinct) ** 0.5),
        "own_words": max(0.0, -cliche),
        "confides": label[_CONFIDE],
        "turns": min(len(past.own_runs), 8) / 8,
        "after_much": min(1.0, len(past.last.words) / 40),
        "copied": copied,
        "copied_most": copied_most,
        "repeated": repeated,
        "said_again": said_again,
    }


class Relevance(NamedTuple):
    """What an utterance is about, in hundredths of a nat."""

    told: float
    """Of what they told."""
    fresh: float
    """Of that, what is taken up for the first time."""
    alien: float
    """Of what neither they nor their card say."""
    own: float
    """All of it, and three nats."""
    strange: float
    """The share of sentences that would suit another story."""
    invented: float
    """Names, numbers, relations and days that they did not tell; three are 1."""


def _measure_relevance(moment: Moment) -> Relevance:
    card, past, heard = moment
    number_of, known, slip = heard.columns
    tokens = number_of.tolist()
    told, own = past.told, past.own
    is_told = np.array([token in told for token in tokens], bool)
    is_theirs = np.array([token in card.vocabulary for token in tokens], bool)
    is_fresh = np.array([token in told and token not in own for token in tokens], bool)
    first = np.zeros(len(tokens), bool)
    first[np.unique(number_of, return_index=True)[1]] = True
    parts = np.zeros((3, len(tokens)))
    parts[0] = known * is_told
    parts[1] = known * (is_theirs & ~is_told)
    parts[2] = slip * ~(is_told | is_theirs)
    whole = (parts * first).sum(1).tolist() if tokens else [0.0, 0.0, 0.0]
    strange = 0.0
    if tokens:
        each = np.add.reduceat(parts, heard.starts, 1)
        strange = float((each[2] - 0.5 * (each[0] + each[1]) > 200).mean())
    stated = [word for word in heard.words if word in _STATING and word not in past.told_words]
    names = [name for name in heard.names if name not in past.told_words]
    return Relevance(
        whole[0],
        float((known * is_fresh * first).sum()),
        whole[2],
        sum(whole) + 300,
        strange,
        min(1.0, (len(stated) + len(names)) / 3),
    )


def _measure_likeness(past: Past, heard: Heard) -> tuple[float, float]:
    if not heard.sentences:
        return 0.0, 0.0
    last = float(heard.vectors[-1] @ past.last.vectors[-1]) / _UNIT
    told = (heard.vectors[:-1] @ past.told_vectors.T).max(1).mean() if len(past.told_vectors) else 0
    return max(0.0, last), max(0.0, float(told) / _UNIT)


class _Wants(NamedTuple):
    """What somebody with a need wants and does not: acts by number, and kinds of what a good answer
    could say.
    """

    wanted: tuple[tuple[int, float], ...]
    unwanted: tuple[tuple[int, float], ...]
    kinds: np.ndarray


@lru_cache(maxsize=1)
def _load_needs() -> dict[str, _Wants]:
    return {
        need: _Wants(
            tuple((ACT[act], share) for act, share in data["wanted"].items()),
            tuple((ACT[act], share) for act, share in data["unwanted"].items()),
            np.array(data["kinds"]),
        )
        for need, data in load_json(DATA, "needs.json").items()
    }


def _measure_meeting(moment: Moment, wants: _Wants) -> tuple[float, float, float]:
    """How near a sentence comes to what would do this person good, whether it has its words, and
    how many of the card's own marks it hits.
    """
    card, heard = moment.card, moment.heard
    if not heard.sentences or not len(card.anchor_kinds):
        return 0.0, 0.0, 0.0
    worth = wants.kinds[card.anchor_kinds]
    like = (heard.vectors[:-1] @ card.anchors.T).max(0) / _UNIT
    near = float((np.maximum(0.0, like - 0.35) * worth).max())
    shared = np.zeros(len(worth))
    marks: dict[int, int] = {}
    for token in heard.tokens:
        if token in card.anchors_with:
            shared[card.anchors_with[token]] += 1
        for mark in card.marks.get(token, ()):
            marks[mark[0]] = marks.get(mark[0], 0) | mark[1]
    sizes = card.anchor_sizes
    touched = float((np.where(shared >= 2, shared / sizes, 0.0) * (worth >= 0.5)).max())
    hits = sum(
        [worth[at] for at, bits in marks.items() if bits.bit_count() >= card.marks_needed[at]]
    )
    return max(0.0, near), touched, max(0.0, min(2.0, float(hits)))


def _measure_copies(past: Past, heard: Heard) -> tuple[float, float, float, float]:
    """What is theirs, of all runs and of one sentence; what the agent said before, at most of one
    utterance, and how many had a fifth of it.
    """
    runs = heard.runs
    size = max(4, len(runs))
    theirs = runs & past.told_runs
    most = 0.0
    if theirs:
        shares = [
            sum([run in theirs for run in one.runs]) / len(one.runs)
            for one in heard.sentences
            if one.runs
        ]
        most = max(shares, default=0.0)
    repeats = [len(runs & one) / size for one in past.own_runs if not runs.isdisjoint(one)]
    return (
        max(0.0, len(theirs) / size - 0.2),
        max(0.0, most - 0.5),
        max(repeats, default=0.0),
        sum([one > 0.2 for one in repeats]) / 3,
    )
