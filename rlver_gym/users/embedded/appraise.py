"""Appraise: a sum of named inputs, each weight held to its sign, and of rules. Knows no speech."""

import math
import re
from functools import lru_cache
from itertools import compress

import numpy as np

from rlver_gym.core.dialogue import ReasonCode
from rlver_gym.core.persona import HiddenNeed
from rlver_gym.users.embedded import english
from rlver_gym.users.embedded.compile import Card
from rlver_gym.users.embedded.english import ACT, ACTS, DATA, LABEL, UNIT, weigh_rare, word_set
from rlver_gym.users.embedded.hear import Heard
from rlver_gym.users.embedded.recall import Moment
from rlver_gym.users.embedded.rules import MINE, Contribution, find_rules, find_void
from rlver_gym.util.files import load_json

_LIST_ITEM = re.compile(r"(?m)^[^\S\n]*(?:[-*•]|\d+[.)])")
_ASKING, _FEELINGS = word_set("aux words"), frozenset(english.FEELING_OF)
_STATING = word_set("relations", "weekdays", "months", "numbers to nineteen", "tens")  # facts
_LEVELS = {"reflect_feeling": -0.81, "advice": -0.83, "cliche": -0.86, "blame": -0.86}
"""Evidence of an act, as a tanh, that half of the honest replies have: neither for nor against."""
_ALIEN = 700  # hundredths of a nat, from where an utterance tells of matters that are nobody's here
_INPUTS: dict[str, dict] = load_json(DATA, "inputs.json")  # by what a person would call them
GROUPS = {group: tuple(data["inputs"]) for group, data in _INPUTS.items()}
INPUTS = tuple(name for names in GROUPS.values() for name in names)
# what each claims, from where it is sure (research/sure_reasons.py), and what is weighed below that
_CLAIMS = {name: claim for data in _INPUTS.values() for name, claim in data["inputs"].items()}


@lru_cache(maxsize=3)
def _load(name: str) -> dict:
    """What was fitted: score.json, worth.json (what words are worth beside others), needs.json."""
    return load_json(DATA, name)


def appraise_moment(moment: Moment, need: HiddenNeed, gain: float) -> list[Contribution]:
    """What an utterance is worth, part by part, to somebody for whom good counts `gain`."""
    if void := find_void(moment):
        return [void]
    inputs, score = compute_inputs(moment, need), _load("score.json")
    contributions = [Contribution(ReasonCode.WHOLE, score["intercept"], "on the whole")]
    for group, names in GROUPS.items():
        parts = [score["weights"][name] * inputs[name] for name in names]
        points = sum(parts)
        if abs(points) >= 0.125:
            strongest = max(parts) if points > 0 else min(parts)
            name = names[parts.index(strongest)]
            claim, sure_from, what = _CLAIMS[name]
            is_sure = inputs[name] >= sure_from
            note = claim if is_sure else f"its words, weighed for {what} (not sure)"
            contributions.append(Contribution(group, points, note))
    rules, garble = find_rules(moment)
    gained = sum([one.points * (gain if one.points > 0 else 1.0) for one in contributions])
    lost = max(inputs["other_story"], garble)
    if gained > 0 and lost:
        note = "nothing in it counts: it is about another story, or hangs together badly"
        contributions.append(Contribution("elsewhere", -gained * lost, note))
    return [*contributions, *rules]


def compute_inputs(moment: Moment, need: HiddenNeed) -> dict[str, float]:
    """Every input of INPUTS, and `other_story`: how far it is about matters of nobody here."""
    card, heard = moment.card, moment.heard
    parts, label = heard.sentences, np.maximum.reduce(heard.labels, 0)
    count, own, distinct = len(heard.words), moment.utterances, frozenset(heard.words)
    told, fresh, elsewhere = _measure_relevance(moment)
    reach = min(1.0, told / 300)
    heeds = 0.3 + 0.7 * reach
    wants, worth = _load("needs.json")[need], _load("worth.json").get
    spares = need != HiddenNeed.PRACTICAL_ADVICE  # whom advice is pressure
    mean = [odds / max(1, len(parts)) for odds in np.add.reduce(heard.evidence).tolist()]
    odds = zip(ACTS, np.maximum.reduce(heard.evidence).tolist(), mean, strict=True)
    sure = {act: 1 / (1 + math.exp(-(2 * most + mean) / 3)) for act, most, mean in odds}
    above = {act: math.tanh(mean[ACT[act]] / 3) - level for act, level in _LEVELS.items()}
    feelings = _FEELINGS & distinct
    wanted = sum([share * sure[act] for act, share in wants["wanted"].items()])
    asks = [sentence.tokens for sentence in parts if sentence.ask]
    before = [tokens for utterance in own for tokens in utterance.asked] if asks else ()
    is_new = not any(
        len(tokens & other) >= 0.7 * len(tokens | other)
        for tokens in filter(None, asks)
        for other in before
    )
    like_last = float(heard.vectors[-1] @ moment.last.vectors[-1]) / UNIT
    like = heard.vectors[:-1] @ moment.told_vectors.T
    like_told = float(np.add.reduce(np.maximum.reduce(like, 1))) / len(like) if like.size else 0.0
    return {
        "like_last": max(0.0, like_last),
        "like_told": max(0.0, like_told / UNIT),
        "asks_fresh": float(bool(asks) and fresh > 0 and is_new),
        **elsewhere,
        "reflects": max(0.0, above["reflect_feeling"]),
        "feeling": heeds * bool(feelings) * (0.5 + 0.5 * moment.told_words.isdisjoint(feelings)),
        "validates": sure["validate"] * heeds,
        "sides": sure["side"] * heeds,
        "praises": sure["praise"] * heeds,
        "accuses_nobody": max(0.0, -above["blame"]),
        **_measure_meeting(card, heard, need),
        "wanted": wanted,
        "wanted_fresh": wanted * reach * (fresh > 0),
        "ends_asking": float(heard.text.rstrip()[-1:] == "?"),
        "asks_brief": float(0 < len(asks) == len(parts) and count <= 9 and is_new),
        "lets_talk": sure["invite"],
        "leaves_free": spares * max(0.0, -above["advice"]),
        "asked_past": min(3, moment.asked_without_uptake) / 3 * bool(asks and not fresh),
        "asks_many": min(2, max(0, len(asks) - 1)) / 2,
        "asked_before": float(not is_new),
        "advises": spares * max(0.0, above["advice"]),
        "unwanted": sum([share * sure[act] for act, share in wants["unwanted"].items()]),
        "guesses": float(any(one.ask == "yes" and one.words[0] not in _ASKING for one in parts)),
        "cliche": max(0.0, above["cliche"]),
        "short": float(0 < count < 4),
        "names_no_feeling": max(0.0, -above["reflect_feeling"]),
        "blames": max(0.0, above["blame"]),
        "insults": float(label[LABEL["insult"]]),
        "list": min(1.0, len(_LIST_ITEM.findall(heard.text)) / 3 + ("**" in heard.text) / 2),
        "exclaims": min(1.0, heard.text.count("!") / 3),
        "plain_words": sum([worth(word, 0) for word in distinct]) / max(2.5, len(distinct) ** 0.5),
        "own_words": max(0.0, -above["cliche"]),
        "confides": float(label[LABEL["confide"]]),
        "turns": min(len(own), 8) / 8,
        "after_much": min(1.0, len(moment.last.words) / 40),
        **_measure_copies(moment, heard),
    }


def _measure_relevance(moment: Moment) -> tuple[float, float, dict[str, float]]:
    """What it has of theirs, and for the first time (hundredths of a nat), and of other matters."""
    card, heard = moment.card, moment.heard
    weight = english.load_weights().get
    told = fresh = theirs = alien = 0
    suits: dict[int, float] = {}
    for token in heard.tokens:
        is_told = token in moment.told
        if is_told or token in card.story.vocabulary:
            points = weight(token, english.RAREST)
            told += points * is_told
            fresh += points * (is_told and token not in moment.own)
            theirs += points * (not is_told)
            suits[token] = -0.5 * points
        else:
            suits[token] = points = weight(token, english.SLIP)
            alien += points
    own = told + theirs + alien + 300
    # sentences that would suit another story
    strange = [sum([suits[t] for t in s.topics]) > 200 for s in heard.sentences] if alien else []
    stated = [word for word in heard.words if word in _STATING and word not in moment.told_words]
    names = heard.names.union(card.story.names.intersection(heard.words)) - moment.told_words
    excess = alien - 1.5 * (told + 0.5 * theirs) - 0.5 * _ALIEN if len(heard.words) >= 6 else 0.0
    elsewhere = {
        "alien": alien / own,
        "strange": sum(strange) / max(1, len(strange)),
        "invented": min(1.0, (len(stated) + len(names)) / 3),
        "rich_words": max(0.0, math.log1p(own / 100) - 2.0),
        "other_story": min(1.0, max(0.0, excess / _ALIEN)),
    }
    return told, fresh, elsewhere


def _measure_meeting(card: Card, heard: Heard, need: HiddenNeed) -> dict[str, float]:
    """How near it comes to what would do this person good, in its words, and by its marks."""
    kinds, limit = _load("needs.json")[need]["kinds"], 0.35 * UNIT
    value = [kinds[kind] for kind in card.story.anchor_kinds]  # how much each does them good
    likes = heard.vectors[:-1] @ card.story.anchors.T
    like = np.maximum.reduce(likes, 0).tolist() if likes.size else ()
    near = [(a - limit) * b for a, b in zip(like, value, strict=False) if a > limit]
    shared: dict[int, int] = {}
    marks: dict[int, int] = {}
    for token in heard.tokens:
        for at in card.story.anchors_with.get(token, ()):
            shared[at] = shared.get(at, 0) + 1
        for at, bit in card.story.marks.get(token, ()):
            marks[at] = marks.get(at, 0) | bit
    sizes, needed = card.story.anchor_sizes, card.story.marks_needed
    touches = [n / sizes[at] for at, n in shared.items() if n >= 2 and value[at] >= 0.5]
    hits = sum([value[at] for at, bits in marks.items() if bits.bit_count() >= needed[at]])
    return {
        "near": max(0.0, *near, 0.0) / UNIT,
        "touched": max(touches, default=0.0),
        "anchored": max(0.0, min(2.0, hits)),
    }


def _measure_copies(moment: Moment, heard: Heard) -> dict[str, float]:
    """Runs of theirs, in all and in one sentence; of the agent's own, at most and how often."""
    runs, size = heard.runs, max(4, len(heard.runs))
    theirs = runs & moment.told_runs
    each = [sentence.runs for sentence in heard.sentences if sentence.runs] if theirs else []
    most = max([sum([run in theirs for run in own]) / len(own) for own in each], default=0.0)
    repeats = [len(runs.intersection(utterance.runs)) / size for utterance in moment.utterances]
    return {
        "copied": max(0.0, len(theirs) / size - 0.2),
        "copied_most": max(0.0, most - 0.5),
        "repeated": max(repeats, default=0.0),
        "said_again": sum([share > 0.2 for share in repeats]) / 3,
    }


_CHAT: dict[str, tuple[float, str]] = load_json(DATA, "rules.json")["chat"]
_TAKEN_UP, _COPIED, _CLEAR, _LEAST_OWN = 60, 0.5, 0.5, 5  # hundredths of a nat, shares, words
_IT = frozenset("it that this them one".split())


def weigh_chat(moment: Moment) -> list[Contribution]:
    """Chit-chat, fitted to nothing: does it take it up, ask, bring something of its own?"""
    heard = moment.heard
    if void := find_void(moment):
        return [void]
    copied = len(heard.runs & moment.told_runs) / max(4, len(heard.runs))
    takes_up = weigh_rare(heard.tokens & moment.told - moment.own) >= _TAKEN_UP and copied < _COPIED
    asked = [part.words for part in heard.sentences if part.ask]
    asks = any(takes_up or not (_IT | {"you", "your"}).isdisjoint(words) for words in asked)
    is_sorry, is_stock = heard.labels[:, LABEL["sympathy"]], heard.evidence[:, ACT["cliche"]]
    is_comfort = (is_sorry >= _CLEAR) | (is_stock > 1)
    comforts = [part.text[:40] for part in compress(heard.sentences, is_comfort)]
    has_own = not comforts and any(
        len(part.words) >= _LEAST_OWN
        and (takes_up or not _IT.isdisjoint(part.words))
        and not MINE.isdisjoint(part.words)
        for part in heard.sentences
    )
    is_empty = not (takes_up or asks or has_own)
    holds = (takes_up, asks, has_own, is_empty, bool(comforts), len(asked) > 2)
    parts = [
        Contribution(f"chat:{name}", points, note.format(*comforts))
        for (name, (points, note)), is_so in zip(_CHAT.items(), holds, strict=True)
        if is_so
    ]
    return [*parts, *find_rules(moment)[0]]
