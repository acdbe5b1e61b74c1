"""How far a user agrees with readers on rated replies, and what it may be used for."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.resources import files
from itertools import combinations
from statistics import fmean, median_low
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlver_gym.bench.appraise import Failure, attempt_many
from rlver_gym.core.cards import env_card
from rlver_gym.core.dialogue import Dialogue
from rlver_gym.core.user import Scene
from rlver_gym.library.personas import library
from rlver_gym.users.llm import LLMUser
from rlver_gym.util.correlation import (
    correlate_draws_within,
    correlation,
    correlation_within,
    draw_places,
)
from rlver_gym.util.errors import RunError
from rlver_gym.util.event_loop import gather_all
from rlver_gym.util.interval import Interval
from rlver_gym.util.json_text import parse_json

PAYS, RANKS = 0.6, 0.5
"""The least lower ends with which a user may pay a learner and may rank agents."""
ALL_REPLIES, FEWEST_REPLIES = 217, 60
CLEAR = 1.5
"""Points from which a reader's change has a sign."""
_SIGNS, _SWAP, _MOST_FAILED = 0.8, 0.1, 0.05
_APART = 2
"""Points from which readers tell two replies apart."""
_FEWEST = 2
_DRAWS = 1_000
TIMES_A_MOMENT = 3
"""Two orders, and once with another card."""


class Place(NamedTuple):
    """A whole dialogue, or a moment with several replies to it."""

    persona: str
    dialogue: Dialogue
    """Whole, or up to the moment."""
    texts: tuple[str, ...]
    """What was said: the dialogue's utterances, or the replies to the moment."""
    readers: tuple[tuple[float, ...], ...]
    """What each reader made of each."""
    is_moment: bool


def read_places(replies: int = ALL_REPLIES) -> list[Place]:
    """The shipped places, a dialogue and a moment in turn, up to so many replies."""
    text = (files("rlver_gym.bench") / "calibration.json").read_text(encoding="utf-8")
    places, count = [], 0
    for place in map(_parse_place, parse_json(text)):
        count += len(place.texts)
        if count <= replies:
            places.append(place)
    return places


def _parse_place(line: dict[str, Any]) -> Place:
    said = ((words, answer) for words, _, answer in line["turns"])
    dialogue = Dialogue.of_words(line["opening"], said, 0)
    judged = line.get("replies") or [(words, changes) for words, changes, _ in line["turns"]]
    texts = tuple(text for text, _ in judged)
    readers = tuple(tuple(map(float, changes)) for _, changes in judged)
    return Place(line["persona"], dialogue, texts, readers, "replies" in line)


class Judged(NamedTuple):
    """A place with the user's changes."""

    place: Place
    orders: tuple[tuple[float, ...], ...] = ()
    """By order in which the replies were shown, then by reply; empty when the user failed."""
    swapped: tuple[float, ...] = ()
    """With another person's card; of moments alone."""
    failure: str = ""

    @property
    def changes(self) -> list[float]:
        return [fmean(values) for values in zip(*self.orders, strict=True)]


def judge_places(user: LLMUser, places: Sequence[Place]) -> Iterator[Judged]:
    """Every place by the user, many at once. Raises the ChatErrors that stop a run."""
    moments = [place.persona for place in places if place.is_moment]
    strangers = dict(zip(moments, [*moments[1:], *moments[:1]], strict=True))
    answers = attempt_many(partial(_judge_place, user, strangers), places)
    for place, answer in zip(places, answers, strict=True):
        yield Judged(place, failure=answer.why) if isinstance(answer, Failure) else answer


async def _judge_place(user: LLMUser, strangers: Mapping[str, str], place: Place) -> Judged:
    people, card, who = library(), env_card("SAGE-Sentient-v0"), place.persona
    scene, other = (Scene(people.get(x), card, 0) for x in (who, strangers.get(who, who)))
    if not place.is_moment:
        appraisals = await user.aappraise_dialogue(scene, place.dialogue)
        return Judged(place, (tuple(float(x.unclipped_change) for x in appraisals),))
    orders, (swapped,) = await gather_all(
        (
            _judge_replies(user.with_options(orders=2), scene, place),
            _judge_replies(user.with_options(orders=1), other, place),
        )
    )
    return Judged(place, orders, swapped)


async def _judge_replies(
    user: LLMUser, scene: Scene, place: Place
) -> tuple[tuple[float, ...], ...]:
    judged = await user.judge_replies(scene, place.dialogue, list(place.texts))
    by_order = zip(*(judged[text] for text in place.texts), strict=True)
    return tuple(
        tuple(float(median_low(x.change for x in samples)) for samples in order)
        for order in by_order
    )


class Calibration(NamedTuple):
    """How far a user agrees with readers; intervals are of 90 %, over places."""

    replies: int
    places: int
    failed: int
    """Places that the user failed at; left out of the rest."""
    within: Interval
    """Pearson's r of its changes with readers', each place's means taken out."""
    within_dialogues: Interval
    within_moments: Interval
    readers_within: float
    """The same of the two readers of each reply."""
    between: Interval
    """Pearson's r of the mean changes of whole dialogues, each of another supporter."""
    sign: float
    """The share of replies with its sign right, where readers' is clear."""
    bias: float
    """How much higher than readers it pays a reply, in points."""
    ties: float
    """Of pairs of replies to a moment that readers tell apart, the share that it pays alike."""
    top_one: float
    """What its favourite of each moment is worth to readers: 0 a reply drawn by lot, 1 the best."""
    flips: float
    """Of those pairs, the share whose order turns when the replies are shown in reverse."""
    swapped: float
    """`within_moments` with somebody else's card: what of it does not come of the person."""
    length: float
    """Pearson's r, within moments, of its changes with the number of words."""
    readers_length: float

    @property
    def verdict(self) -> str:
        """ "pay", "rank" or "neither": the most that it may do."""
        reads_the_card = self.swapped <= self.within_moments.mean - _SWAP
        holds = self.failed <= _MOST_FAILED * (self.failed + self.places)
        if holds and reads_the_card and self.within.low >= PAYS and self.sign >= _SIGNS:
            return "pay"
        return "rank" if holds and self.between.low >= RANKS else "neither"


def summarise(judged: Sequence[Judged]) -> Calibration:
    """The figures of all places; RunError when the user failed at nearly every one."""
    whole = [x for x in judged if not x.failure]
    dialogues = [x for x in whole if not x.place.is_moment]
    moments = [x for x in whole if x.place.is_moment]
    if len(dialogues) < _FEWEST or len(moments) < _FEWEST:
        raise RunError(
            f"the model could not be used for {len(judged) - len(whole)} of {len(judged)} places:"
            f" {next((x.failure for x in judged if x.failure), 'too few were asked for')}"
        )
    readers = [list(map(fmean, x.place.readers)) for x in whole]
    pairs = [pair for x in moments for pair in _list_pairs(x)]
    clear = [
        (own, theirs)
        for x, values in zip(whole, readers, strict=True)
        for own, theirs in zip(x.changes, values, strict=True)
        if abs(theirs) >= CLEAR
    ]
    errors = [fmean(x.changes) - fmean(values) for x, values in zip(whole, readers, strict=True)]
    words = [[float(len(text.split())) for text in x.place.texts] for x in moments]
    felt = [list(map(fmean, x.place.readers)) for x in moments]
    return Calibration(
        replies=sum(len(x.place.texts) for x in whole),
        places=len(whole),
        failed=len(judged) - len(whole),
        within=_bootstrap(whole),
        within_dialogues=_bootstrap(dialogues),
        within_moments=_bootstrap(moments),
        readers_within=_within(
            [[first for first, _ in x.place.readers] for x in whole],
            [[second for _, second in x.place.readers] for x in whole],
        ),
        between=_bootstrap_between(dialogues),
        sign=fmean((own > 0) == (theirs > 0) and own != 0 for own, theirs in clear),
        bias=fmean(errors),
        ties=fmean(first[0] == second[0] for first, second in pairs),
        top_one=_measure_top_one(moments),
        flips=fmean((first[1] - second[1]) * (first[2] - second[2]) < 0 for first, second in pairs),
        swapped=_within([list(x.swapped) for x in moments], felt),
        length=_within([x.changes for x in moments], words),
        readers_length=_within(felt, words),
    )


def _list_pairs(judged: Judged) -> Iterator[tuple[tuple[float, ...], tuple[float, ...]]]:
    """Replies that readers tell apart, each by its mean change and that of each order."""
    rows = [
        (change, *in_order)
        for change, *in_order in zip(judged.changes, *judged.orders, strict=True)
    ]
    values = list(map(fmean, judged.place.readers))
    for first, second in combinations(range(len(rows)), 2):
        if abs(values[first] - values[second]) >= _APART:
            yield rows[first], rows[second]


def _measure_top_one(moments: Sequence[Judged]) -> float:
    """Over all moments: what its favourites are worth above the mean, over what the best are."""
    gained = possible = 0.0
    for moment in moments:
        values = list(map(fmean, moment.place.readers))
        best = max(moment.changes)
        liked = [x for x, change in zip(values, moment.changes, strict=True) if change == best]
        gained += fmean(liked) - fmean(values)
        possible += max(values) - fmean(values)
    return gained / possible if possible else 0.0


def _within(own: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> float:
    place = np.repeat(np.arange(len(own)), [len(values) for values in own])
    return correlation_within(np.concatenate(own), np.concatenate(other), place)


def _bootstrap(judged: Sequence[Judged]) -> Interval:
    """r within places over draws of places; 0 where nothing varies."""
    pairs = [(np.array(x.changes), np.array(list(map(fmean, x.place.readers)))) for x in judged]
    return _make_interval(np.nan_to_num(correlate_draws_within(pairs, _DRAWS)))


def _bootstrap_between(judged: Sequence[Judged]) -> Interval:
    own = np.array([fmean(x.changes) for x in judged])
    readers = np.array([fmean(map(fmean, x.place.readers)) for x in judged])
    draws = np.vstack([np.arange(len(judged)), draw_places(len(judged), _DRAWS)])
    return _make_interval(np.array([correlation(own[at], readers[at]) for at in draws]))


def _make_interval(values: NDArray[np.float64]) -> Interval:
    low, high = np.quantile(values[1:], [0.05, 0.95])
    return Interval(float(values[0]), float(low), float(high))
