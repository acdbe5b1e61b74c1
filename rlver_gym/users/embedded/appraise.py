"""Appraise: what a reply is worth to this person, as a sum of named inputs times fitted weights,
each held to the sign that its name promises, and of rules that must cost. Knows no speech.
"""

import math
import re
from functools import lru_cache
from itertools import accumulate
from operator import mul
from typing import NamedTuple

import numpy as np

from rlver_gym.core.dialogue import ReasonCode
from rlver_gym.core.persona import HiddenNeed
from rlver_gym.users.embedded.compile import Card
from rlver_gym.users.embedded.english import (
    ACT,
    DATA,
    FEELING_OF,
    LABEL,
    RAREST,
    RELATIONS,
    SLIP,
    UNIT,
    load_weights,
    weigh,
    word_set,
)
from rlver_gym.users.embedded.hear import Heard
from rlver_gym.users.embedded.recall import Moment, Past
from rlver_gym.users.embedded.rules import Contribution, find_rules, find_void
from rlver_gym.util.files import load_json
from rlver_gym.util.frozen import cache_by_identity

_LIST_ITEM = re.compile(r"(?m)^\s*(?:[-*•]|\d+[.)])")
_ASKING = word_set("aux words")
_STATING = RELATIONS.union(*map(word_set, ("weekdays", "months", "numbers to nineteen", "tens")))
"""Words with which something is said that is so or not."""
_LEVELS = {"reflect_feeling": -0.81, "advice": -0.83, "cliche": -0.86, "blame": -0.86}
"""Evidence of an act, as a tanh, that half of the honest replies have; above it speaks for the act,
below it for none.
"""
_ALIEN = 700
"""Hundredths of a nat, from where an utterance tells of matters that are nobody's here."""
_FEELINGS = frozenset(FEELING_OF)

GROUPS: dict[str, tuple[str, ...]] = {
    "taken_up": ("like_last", "like_told", "asks_fresh"),
    "elsewhere": ("alien", "strange", "invented", "rich_words"),
    "feeling": ("reflects", "feeling"),
    "on_side": ("validates", "sides", "praises", "accuses_nobody"),
    "meets": ("near", "touched", "anchored", "wanted", "wanted_fresh"),
    "asks": ("ends_asking", "asks_brief", "lets_talk", "leaves_free"),
    "presses": ("asked_past", "asks_many", "asked_before", "advises", "unwanted", "guesses"),
    "stock": ("cliche", "short", "names_no_feeling"),
    "hurts": ("blames", "insults"),
    "form": ("list", "exclaims"),
    "manner": ("plain_words", "own_words", "confides", "turns", "after_much"),
    "copies": ("copied", "copied_most", "repeated", "said_again"),
}  # fmt: skip
"""Inputs by what a person would call them."""
SIGNS = {
    "taken_up": 1, "elsewhere": -1, "feeling": 1, "on_side": 1, "meets": 1, "asks": 1,
    "presses": -1, "stock": -1, "hurts": -1, "form": -1, "manner": 1, "copies": -1,
}  # fmt: skip
INPUTS = tuple(name for names in GROUPS.values() for name in names)
_ENDS = list(accumulate(map(len, GROUPS.values()), initial=0))
_PLACES = list(zip(GROUPS, _ENDS, _ENDS[1:], strict=False))
"""Groups, with where their inputs begin and end."""
_NOTES: dict[str, tuple[str, str]] = {
    name: (note, note) if isinstance(note, str) else tuple(note)
    for name, note in load_json(DATA, "notes.json").items()
}
"""By input, what is said where it adds, and where it takes off."""


@lru_cache(maxsize=1)
def load_score() -> tuple[list[float], float]:
    """The weights of INPUTS, and the intercept."""
    data = load_json(DATA, "score.json")
    return [data["weights"][name] for name in INPUTS], data["intercept"]


@lru_cache(maxsize=1)
def load_worth() -> dict[str, float]:
    """What words are worth beside others."""
    return load_json(DATA, "worth.json")


def appraise_moment(moment: Moment, need: HiddenNeed) -> list[Contribution]:
    """What an utterance is worth, part by part."""
    void = find_void(moment)
    if void is not None:
        return [void.cost()]
    about, (weights, intercept) = _measure_relevance(moment), load_score()
    inputs = compute_inputs(moment, need, about)
    contributions = [Contribution(ReasonCode.WHOLE, intercept, "on the whole")]
    weighed = list(map(mul, weights, map(inputs.__getitem__, INPUTS)))
    for group, first, last in _PLACES:
        parts = weighed[first:last]
        points = sum(parts)
        if abs(points) >= 0.125:
            strongest = max(parts) if points > 0 else min(parts)
            good, bad = _NOTES[INPUTS[first + parts.index(strongest)]]
            contributions.append(Contribution(group, points, good if points > 0 else bad))
    rules = find_rules(moment)
    gained = sum([contribution.points for contribution in contributions])
    lost = max([about.other_story, *[rule.share for rule in rules if rule.name == "garble"]])
    if gained > 0 and lost:
        note = "nothing in it counts: it is about another story, or hangs together badly"
        contributions.append(Contribution("elsewhere", -gained * lost, note))
    return [*contributions, *[rule.cost() for rule in rules]]


def compute_inputs(
    moment: Moment, need: HiddenNeed, about: "Relevance | None" = None
) -> dict[str, float]:
    """Every input of INPUTS, not below 0 but `plain_words`; most at most 1."""
    _, past, heard = moment
    about = about or _measure_relevance(moment)
    count = len(heard.words)
    distinct = frozenset(heard.words)
    wants = _load_needs()[need]
    reach = min(1.0, about.told / 300)
    heeds = 0.3 + 0.7 * reach
    spares = need != HiddenNeed.PRACTICAL_ADVICE  # whom advice is pressure
    near, touched, anchored = _measure_meeting(moment, wants)
    sure = [
        1 / (1 + math.exp(-(2 * a + b) / 3)) for a, b in zip(heard.most, heard.mean, strict=True)
    ]
    above = {act: math.tanh(heard.mean[ACT[act]] / 3) - level for act, level in _LEVELS.items()}
    label = np.maximum.reduce(heard.labels, 0)
    like_last, like_told = _measure_likeness(past, heard)
    asks = [sentence.tokens for sentence in heard.sentences if sentence.ask]
    feelings = _FEELINGS & distinct
    wanted = sum([share * sure[at] for at, share in wants.wanted])
    is_new = not (past.asked and any(_is_asked(tokens, past) for tokens in asks if tokens))
    copied, copied_most, repeated, said_again = _measure_copies(past, heard)
    worth = load_worth().get
    return {
        "like_last": like_last,
        "like_told": like_told,
        "asks_fresh": float(bool(asks) and about.fresh > 0 and is_new),
        "alien": about.alien / about.own,
        "strange": about.strange,
        "invented": about.invented,
        "rich_words": max(0.0, math.log1p(about.own / 100) - 2.0),
        "reflects": max(0.0, above["reflect_feeling"]),
        "feeling": (1.0 if past.told_words.isdisjoint(feelings) else 0.5) * heeds * bool(feelings),
        "validates": sure[ACT["validate"]] * heeds,
        "sides": sure[ACT["side"]] * heeds,
        "praises": sure[ACT["praise"]] * heeds,
        "accuses_nobody": max(0.0, -above["blame"]),
        "near": near,
        "touched": touched,
        "anchored": anchored,
        "wanted": wanted,
        "wanted_fresh": wanted * reach * (about.fresh > 0),
        "ends_asking": float(heard.text.rstrip()[-1:] == "?"),
        "asks_brief": float(0 < len(asks) == len(heard.sentences) and count <= 9 and is_new),
        "lets_talk": sure[ACT["invite"]],
        "leaves_free": spares * max(0.0, -above["advice"]),
        "asked_past": min(3, past.asked_without_uptake) / 3 if asks and not about.fresh else 0.0,
        "asks_many": min(2, max(0, len(asks) - 1)) / 2,
        "asked_before": float(not is_new),
        "advises": spares * max(0.0, above["advice"]),
        "unwanted": sum([share * sure[at] for at, share in wants.unwanted]),
        "guesses": float(
            any(s.ask == "yes" and s.words[0] not in _ASKING for s in heard.sentences)
        ),
        "cliche": max(0.0, above["cliche"]),
        "short": float(0 < count < 4),
        "names_no_feeling": max(0.0, -above["reflect_feeling"]),
        "blames": max(0.0, above["blame"]),
        "insults": float(label[LABEL["insult"]]),
        "list": min(1.0, len(_LIST_ITEM.findall(heard.text)) / 3 + ("**" in heard.text) / 2),
        "exclaims": min(1.0, heard.text.count("!") / 3),
        "plain_words": sum([worth(word, 0.0) for word in distinct])
        / max(2.5, len(distinct) ** 0.5),
        "own_words": max(0.0, -above["cliche"]),
        "confides": float(label[LABEL["confide"]]),
        "turns": min(len(past.own_runs), 8) / 8,
        "after_much": min(1.0, len(past.last.words) / 40),
        "copied": copied,
        "copied_most": copied_most,
        "repeated": repeated,
        "said_again": said_again,
    }


def _is_asked(tokens: frozenset[int], past: Past) -> bool:
    """Whether the agent has asked something much like it."""
    return any(len(tokens & other) >= 0.7 * len(tokens | other) for other in past.asked)


class Relevance(NamedTuple):
    """What an utterance is about, in hundredths of a nat."""

    told: float  # of what they told
    fresh: float  # of that, what is taken up for the first time
    alien: float  # of what neither they nor their card say
    own: float  # all of it, and three nats
    strange: float  # the share of sentences that would suit another story
    invented: float  # names, numbers, relations and days that they did not tell; three are 1
    other_story: float  # how far it is about matters of nobody here, beside little of theirs


def _measure_relevance(moment: Moment) -> Relevance:
    card, past, heard = moment
    weight = load_weights().get
    told = fresh = theirs = alien = 0
    suits: dict[int, float] = {}
    for token in heard.tokens:
        if token in past.told:
            points = weight(token, RAREST)
            told += points
            fresh += points * (token not in past.own)
            suits[token] = -0.5 * points
        elif token in card.vocabulary:
            points = weight(token, RAREST)
            theirs += points
            suits[token] = -0.5 * points
        else:
            suits[token] = points = weight(token, SLIP)
            alien += points
    strange = [sum([suits[t] for t in s.topics]) > 200 for s in heard.sentences] if alien else []
    stated = [word for word in heard.words if word in _STATING and word not in past.told_words]
    names = heard.names.union(card.names.intersection(heard.words)) - past.told_words
    excess = alien - 1.5 * (told + 0.5 * theirs) - 0.5 * _ALIEN if len(heard.words) >= 6 else 0.0
    return Relevance(
        told,
        fresh,
        alien,
        told + theirs + alien + 300,
        sum(strange) / max(1, len(strange)),
        min(1.0, (len(stated) + len(names)) / 3),
        min(1.0, max(0.0, excess / _ALIEN)),
    )


def _measure_likeness(past: Past, heard: Heard) -> tuple[float, float]:
    """How like the whole is to their last words, and each sentence to what they told."""
    last = float(heard.vectors[-1] @ past.last.vectors[-1])
    like = heard.vectors[:-1] @ past.told_vectors.T
    if not like.size:
        return max(0.0, last / UNIT), 0.0
    told = float(np.add.reduce(np.maximum.reduce(like, 1))) / len(like)
    return max(0.0, last / UNIT), max(0.0, told / UNIT)


class _Wants(NamedTuple):
    """What somebody with a need wants."""

    wanted: tuple[tuple[int, float], ...]  # acts by number
    unwanted: tuple[tuple[int, float], ...]
    kinds: tuple[float, ...]  # of what a good answer could say


@lru_cache(maxsize=1)
def _load_needs() -> dict[str, _Wants]:
    def read(acts: dict[str, float]) -> tuple[tuple[int, float], ...]:
        return tuple([(ACT[act], share) for act, share in acts.items()])

    return {
        need: _Wants(read(data["wanted"]), read(data["unwanted"]), tuple(data["kinds"]))
        for need, data in load_json(DATA, "needs.json").items()
    }


def _measure_meeting(moment: Moment, wants: _Wants) -> tuple[float, float, float]:
    """How near a sentence comes to what would do this person good, whether it has its words, and
    how many of the card's own marks it hits.
    """
    card, heard = moment.card, moment.heard
    if not heard.sentences or not card.anchor_kinds:
        return 0.0, 0.0, 0.0
    value = _weigh_anchors(card, wants)
    like = np.maximum.reduce(heard.vectors[:-1] @ card.anchors.T, 0).tolist()
    near = [(a - 0.35 * UNIT) * b for a, b in zip(like, value, strict=True) if a > 0.35 * UNIT]
    shared: dict[int, int] = {}
    marks: dict[int, int] = {}
    for token in heard.tokens:
        for at in card.anchors_with.get(token, ()):
            shared[at] = shared.get(at, 0) + 1
        for at, bit in card.marks.get(token, ()):
            marks[at] = marks.get(at, 0) | bit
    sizes, needed = card.anchor_sizes, card.marks_needed
    touches = [n / sizes[at] for at, n in shared.items() if n >= 2 and value[at] >= 0.5]
    hits = sum([value[at] for at, bits in marks.items() if bits.bit_count() >= needed[at]])
    return max(0.0, *near, 0.0) / UNIT, max(touches, default=0.0), max(0.0, min(2.0, hits))


@cache_by_identity
def _weigh_anchors(card: Card, wants: _Wants) -> list[float]:
    """How much each of the card's anchors does somebody good who wants this."""
    return [wants.kinds[kind] for kind in card.anchor_kinds]


def _measure_copies(past: Past, heard: Heard) -> tuple[float, float, float, float]:
    """What is theirs, of all runs and of one sentence; what the agent said before, at most of one
    utterance, and how many had a fifth of it.
    """
    runs = heard.runs
    size = max(4, len(runs))
    theirs = runs & past.told_runs
    most = 0.0
    if theirs:
        each = [sentence.runs for sentence in heard.sentences if sentence.runs]
        most = max([sum([run in theirs for run in own]) / len(own) for own in each], default=0.0)
    repeats = [len(runs & own) / size for own in past.own_runs if not runs.isdisjoint(own)]
    return (
        max(0.0, len(theirs) / size - 0.2),
        max(0.0, most - 0.5),
        max(repeats, default=0.0),
        sum([share > 0.2 for share in repeats]) / 3,
    )


# Chit-chat, by rule: whether a reply takes up what interests them, asks, and brings something of
# its own. Fitted to nothing.

_TAKEN_UP, _COPIED, _CLEAR = 60, 0.5, 0.5
"""Hundredths of a nat of theirs; the share of runs of theirs; how sure an act must be."""
_MINE = frozenset("i me my mine myself we our us i'm i've i'd i'll".split())
_IT = frozenset("it that this them one".split())
_LEAST_OWN, _MOST_QUESTIONS = 5, 2


def weigh_chat(moment: Moment) -> list[Contribution]:
    """At most 8 points; a reply with nothing of it in it costs 4."""
    _, past, heard = moment
    void = find_void(moment)
    if void is not None:
        return [void.cost()]
    found = [rule.cost() for rule in find_rules(moment)]
    copied = len(heard.runs & past.told_runs) / max(4, len(heard.runs))
    takes_up = weigh(heard.tokens & past.told - past.own) >= _TAKEN_UP and copied < _COPIED
    asked = [one.words for one in heard.sentences if one.ask]
    asks = any(takes_up or not (_IT | {"you", "your"}).isdisjoint(words) for words in asked)
    sympathy = heard.labels[:, LABEL["sympathy"]]
    comforts = [
        one.text
        for at, one in enumerate(heard.sentences)
        if sympathy[at] >= _CLEAR or heard.evidence[at, ACT["cliche"]] > 1
    ]
    has_own = not comforts and any(
        len(one.words) >= _LEAST_OWN
        and (takes_up or not _IT.isdisjoint(one.words))
        and not _MINE.isdisjoint(one.words)
        for one in heard.sentences
    )
    good = [
        Contribution("chat:taken_up", 3.0 * takes_up, "took up what interests them"),
        Contribution("chat:asked", 2.0 * asks, "asked about it"),
        Contribution("chat:own", 3.0 * has_own, "had something of their own to say about it"),
    ]
    if not any(one.points for one in good):
        found.append(Contribution("chat:nothing", -4.0, "nothing in it about what they like"))
    if comforts:
        note = f"took it for a trouble: “{comforts[0][:40]}”"
        found.append(Contribution("chat:trouble", -4.0, note))
    if len(asked) > _MOST_QUESTIONS:
        found.append(Contribution("chat:questions", -2.0, "one question after the other"))
    return [*good, *found]
