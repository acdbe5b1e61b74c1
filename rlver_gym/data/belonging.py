"""What tells a reply to this person from one to somebody else: learned from replies put where
another person spoke. It needs no ratings of those.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from rlver_gym.data.fit import sklearn
from rlver_gym.data.replies import DescribedPair, DescribedReply, Place
from rlver_gym.users.embedded.belonging import extract_clues
from rlver_gym.users.embedded.english import Described, describe
from rlver_gym.users.embedded.weights import DESCRIBED_CLUES, MASSES, Belonging

COUNT = 1_000
"""Replies of each sort that are displaced."""
_GOOD = 2.0
"""Points from which a reply is good for somebody, so that it is worth less to somebody else."""
_C = 0.1
"""Inverse strength of the logistic regression's penalty."""
_PlacedReply = tuple[Described, Place, str]
"""A reply, where it was given, and by whom."""
_RARELY = (2.0, 12.0)
"""Percentiles of utterances meant for their person, by the logit, at which nothing counts and all
does.
"""


def displace(
    rows: Sequence[DescribedReply], kinds: Sequence[str], pairs: Sequence[DescribedPair]
) -> list[DescribedPair]:
    """Good replies of roles, and the better ones of pairs, beside the same words to another person
    who spoke of something else.

    By lot, and the same every time.
    """
    of_roles = [one for one, kind in zip(rows, kinds, strict=True) if kind == "role"]
    good = [(one.described, one.place, one.supporter) for one in of_roles if one.change >= _GOOD]
    better = [(one.better, one.place, "") for one in pairs]
    return [
        *_displace(good, [one.place for one in of_roles]),
        *_displace(better, [one.place for one in pairs]),
    ]


def _displace(replies: Sequence[_PlacedReply], places: Sequence[Place]) -> Iterator[DescribedPair]:
    chance = random.Random("displaced")
    for described, place, supporter in chance.sample(replies, min(COUNT, len(replies))):
        elsewhere = [there for there in places if _situation(there) != _situation(place)]
        if elsewhere:
            there = chance.choice(elsewhere)
            misplaced = describe(there.persona, there.dialogue.with_utterance(described.text))
            yield DescribedPair(described, misplaced, place, there, supporter)


def _situation(place: Place) -> str:
    return place.persona.situation.id


def fit_belonging(
    rows: Sequence[DescribedReply], kinds: Sequence[str], displaced: Sequence[DescribedPair]
) -> Belonging:
    """Logistic regression of replies in their place against the same ones elsewhere."""
    situations, spread = _spread(rows, kinds)
    own, strange = (
        np.array(
            [
                list(extract_clues(one.values, one.overlap, situations, spread).values())
                for one in described
            ]
        )
        for described in ([one.better for one in displaced], [one.worse for one in displaced])
    )
    x = np.vstack([own, strange])
    mean, width = x.mean(axis=0), x.std(axis=0) + 1e-9
    is_own = np.repeat([1, 0], len(displaced))
    model = (
        sklearn("linear_model")
        .LogisticRegression(C=_C, tol=1e-8, max_iter=5000)
        .fit((x - mean) / width, is_own)
    )
    slope = np.round(model.coef_[0] / width, 3)
    intercept = round(float(model.intercept_[0] - (model.coef_[0] / width) @ mean), 3)
    low, high = np.percentile(own @ slope + intercept, _RARELY)
    return Belonging(
        situations=situations,
        spread=spread,
        intercept=intercept,
        weights={
            name: float(value) + 0.0
            for name, value in zip((*DESCRIBED_CLUES, *MASSES), slope, strict=True)
        },
        low=round(float(low), 2),
        high=round(float(high), 2),
    )


def _spread(rows: Sequence[DescribedReply], kinds: Sequence[str]) -> tuple[int, dict[str, int]]:
    """How many situations there are, and in how many of them each word is said; machines do not
    count, for they paste.
    """
    said_in: dict[str, set[str]] = defaultdict(set)
    for one, kind in zip(rows, kinds, strict=True):
        if kind == "role":
            for token in one.described.overlap.own:
                said_in[token].add(one.persona.situation.id)
    situations = len({one.persona.situation.id for one in rows})
    return situations, {token: len(where) for token, where in sorted(said_in.items())}
