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
    LABEL,
    RELATIONS,
    SCALE,
    SLIP,
    WORDS,
    weigh,
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
_MINE = frozenset("i me my mine myself we our us".split())
_YOURS = frozenset("you your yours yourself u ur".split())
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
_LEVELS = {"reflects": -0.35, "advises": -0.4, "cliche": -0.45, "blames": -0.5}
"""Evidence of an act, as a tanh, that half of the honest replies have: less says nothing."""
_STOCK, _BELITTLES = (
    re.compile(WORDS[name], re.IGNORECASE) for name in ("stock phrases", "belittles")
)

GROUPS: dict[str, tuple[str, ...]] = {
    "taken_up": ("fresh", "of_last", "of_told", "like_last", "like_told", "home"),
    "elsewhere": ("alien", "strangest", "strange", "invented", "unlike", "offtopic", "rich_words"),
    "feeling": ("reflects", "feeling"),
    "on_side": ("validates", "sides", "praises"),
    "meets": ("near", "touched", "anchored", "wanted", "wanted_fresh"),
    "asks": ("ends_asking", "asks_fresh", "asks_brief", "lets_talk"),
    "presses": (
        "asked_past", "asks_many", "asked_before", "advises", "unwanted", "lectures", "guesses",
    ),
    "stock": ("cliche", "stock_phrase", "sympathy_alone", "short", "bare"),
    "hurts": ("blames", "belittles", "insults", "commands"),
    "form": ("list", "exclaims", "long", "speaks_of_itself", "shouted"),
    "manner": ("plain_words", "confides", "turns"),
    "copies": ("copied", "copied_most", "repeated", "said_again", "parroted"),
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
    words: dict[str, float]


@lru_cache(maxsize=1)
def load_score() -> _Score:
    data = load_json(DATA, "score.json")
    weights = {
        group: tuple((name, data["weights"][name]) for name in names if data["weights"][name])
        for group, names in GROUPS.items()
    }
    return _Score(weights, data["intercept"], data["words"])


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
    """Every input of INPUTS, not below 0; most at most 1."""
    card, past, heard = moment
    found = {
        **_compute_relevance(moment),
        **_compute_acts(moment, need),
        **_compute_form(past, heard),
        **_compute_copies(past, heard),
    }
    return found


def _compute_relevance(moment: Moment) -> dict[str, float]:
    card, past, heard = moment
    tokens = heard.tokens
    told = tokens & past.told
    rest = tokens - told
    guessed = rest & card.vocabulary
    of_last, of_told = weigh(tokens & past.last.tokens), weigh(told)
    of_guess, of_alien = weigh(guessed), weigh(rest - guessed, SLIP)
    own = of_told + of_guess + of_alien + 300
    odds, homes = [], 0
    for one in heard.sentences:
        mine = one.tokens & past.told
        other = one.tokens - mine
        near = weigh(mine) + weigh(other & card.vocabulary)
        odds.append(weigh(other - card.vocabulary, SLIP) - 0.5 * near)
        homes += near > 100
    count = max(1, len(odds))
    stated = [word for word in heard.words if word in _STATING] + list(heard.names)
    invented = [word for word in stated if word not in past.told_words]
    like_last, like_told, like_card = _compute_likeness(moment)
    return {
        "fresh": math.log1p(weigh(told - past.own) / 100) / 2,
        "of_last": of_last / (weigh(past.last.tokens) + 300),
        "of_told": of_told / own,
        "like_last": like_last,
        "like_told": like_told,
        "home": homes / count,
        "alien": of_alien / own,
        "strangest": max(0.0, math.tanh(max(odds, default=0.0) / 400)),
        "strange": sum([one > 200 for one in odds]) / count,
        "invented": min(1.0, len(invented) / 3),
        "rich_words": max(0.0, math.log1p(own / 100) - 2.0),
        "unlike": max(0.0, 0.6 - like_card) if heard.sentences else 0.0,
    }


def _compute_likeness(moment: Moment) -> tuple[float, float, float]:
    card, past, heard = moment
    if not heard.sentences:
        return 0.0, 0.0, 0.0
    last = float(heard.vectors[-1] @ past.last.vectors[-1]) / _UNIT
    own = heard.vectors[:-1]
    told = (own @ past.told_vectors.T).max(1) if len(past.told_vectors) else np.zeros(1)
    story = (own @ card.story.T).max(1)
    return max(0.0, last), max(0.0, float(told.mean()) / _UNIT), float(story.mean()) / _UNIT


def _compute_acts(moment: Moment, need: HiddenNeed) -> dict[str, float]:
    card, past, heard = moment
    wants = _load_needs()[need]
    reach = min(1.0, weigh(heard.tokens & past.told) / 300)
    near, touched, anchored = _compute_meeting(moment, wants["kinds"])
    evidence = heard.evidence
    mean = np.tanh(evidence.mean(0) / 3).tolist()
    sure = (
        (1 / (1 + np.exp(-np.minimum(20, (2 * evidence + evidence.mean(0)) / 3)))).max(0).tolist()
    )
    label = heard.labels.max(0).tolist()
    heeds = 0.3 + 0.7 * reach
    feelings = [word for word in heard.words if word in FEELING_OF]
    asks = [one for one in heard.sentences if one.ask]
    count = len(heard.words)
    takes_up = not heard.tokens.isdisjoint(past.told - past.own)
    asked_before = any(
        len(one.tokens & other) >= 0.7 * len(one.tokens | other)
        for one in asks
        if one.tokens
        for other in past.asked
    )
    wanted = sum([share * sure[ACT[name]] for name, share in wants["wanted"].items()])
    return {
        "offtopic": label[LABEL["offtopic"]],
        "reflects": max(0.0, mean[ACT["reflect_feeling"]] - _LEVELS["reflects"]),
        "feeling": (1.0 if past.told_words.isdisjoint(feelings) else 0.5) * heeds
        if feelings
        else 0.0,
        "validates": sure[ACT["validate"]] * heeds,
        "sides": sure[ACT["side"]] * heeds,
        "praises": sure[ACT["praise"]] * heeds,
        "near": near,
        "touched": touched,
        "anchored": anchored,
        "wanted": wanted,
        "wanted_fresh": wanted * reach * takes_up,
        "ends_asking": float(heard.text.rstrip().endswith("?")),
        "asks_fresh": float(bool(asks) and takes_up and not asked_before),
        "asks_brief": float(
            0 < len(asks) == len(heard.sentences) and count <= 9 and not asked_before
        ),
        "lets_talk": sure[ACT["invite"]],
        "asked_past": min(3, past.asked_without_uptake) / 3 if asks and not takes_up else 0.0,
        "asks_many": min(2.0, max(0, len(asks) - 1)) / 2,
        "asked_before": float(asked_before),
        "advises": max(0.0, mean[ACT["advice"]] - _LEVELS["advises"]),
        "unwanted": sum([share * sure[ACT[name]] for name, share in wants["unwanted"].items()]),
        "lectures": label[LABEL["explain"]],
        "guesses": float(any(one.ask == "yes" and one.words[0] not in _ASKING for one in asks)),
        "cliche": max(0.0, mean[ACT["cliche"]] - _LEVELS["cliche"]),
        "stock_phrase": float(_STOCK.search(heard.text) is not None),
        "sympathy_alone": label[LABEL["sympathy"]] * (1 - reach),
        "blames": max(0.0, mean[ACT["blame"]] - _LEVELS["blames"]),
        "belittles": max(
            label[LABEL["belittle"]], float(_BELITTLES.search(heard.text) is not None)
        ),
        "insults": label[LABEL["insult"]],
        "commands": label[LABEL["advise"]] * (1 - sure[ACT["invite"]]),
        "confides": label[LABEL["confide"]],
        "turns": min(len(past.own_runs), 8) / 8,
    }


def _compute_meeting(moment: Moment, kinds: list[float]) -> tuple[float, float, float]:
    """How near a sentence comes to what would do this person good, whether it has its words, and
    how many of the card's own marks it hits.
    """
    card, past, heard = moment
    if not heard.sentences or not len(card.anchor_kinds):
        return 0.0, 0.0, 0.0
    worth = np.array(kinds)[card.anchor_kinds]
    like = (heard.vectors[:-1] @ card.anchors.T).max(0) / _UNIT
    near = float((np.maximum(0.0, like - 0.35) * worth).max())
    touched, hits = 0.0, 0.0
    for at, value in enumerate(worth.tolist()):
        if value >= 0.5:
            shared = card.anchor_tokens[at] & heard.tokens
            if len(shared) >= 2:
                touched = max(touched, weigh(shared) / (weigh(card.anchor_tokens[at]) or 1))
        groups = card.anchor_groups[at]
        count = sum([not group.isdisjoint(heard.tokens) for group in groups])
        if count >= max(2, len(groups) - 1):
            hits += value
    return max(0.0, near), touched, max(0.0, min(2.0, hits))


@lru_cache(maxsize=1)
def _load_needs() -> dict:
    return load_json(DATA, "needs.json")


def _compute_form(past: Past, heard: Heard) -> dict[str, float]:
    text, words = heard.text, heard.words
    count = len(words)
    mine = sum([word in _MINE for word in words])
    yours = sum([word in _YOURS for word in words])
    table = load_score().words
    distinct = frozenset(words)
    kind = sum([table.get(word, 0.0) for word in distinct]) / max(2.5, len(distinct) ** 0.5)
    return {
        "short": float(0 < count < 4),
        "list": min(1.0, len(_LIST_ITEM.findall(text)) / 3 + ("**" in text) / 2),
        "exclaims": min(1.0, text.count("!") / 3),
        "long": min(1.0, max(0.0, count - 60) / 60),
        "speaks_of_itself": min(1.0, max(0, mine - yours - 1) / 4),
        "bare": max(0.0, 1 - len(heard.tokens) / 6),
        "shouted": sum([word.isupper() and len(word) > 1 for word in text.split()]) / max(5, count),
        "plain_words": kind,
    }


def _compute_copies(past: Past, heard: Heard) -> dict[str, float]:
    runs = heard.runs
    size = max(4, len(runs))
    shares = [
        sum([run in past.told_runs for run in one.runs]) / len(one.runs)
        for one in heard.sentences
        if one.runs
    ]
    repeats = [len(runs & one) / size for one in past.own_runs] if past.own_runs else []
    return {
        "copied": max(0.0, len(runs & past.told_runs) / size - 0.2),
        "copied_most": max(0.0, max(shares, default=0.0) - 0.5),
        "repeated": max(repeats, default=0.0),
        "said_again": sum([one > 0.2 for one in repeats]) / 3,
        "parroted": float(any(one >= 0.99 for one in shares)),
    }
