"""Belonging: whether a reply is meant for this person or would suit somebody else's story as well.
Pure.

Rated replies alone do not teach it, for few supporters speak past the person. What does is a reply
put where another person had spoken (`calibration.belonging`): a logistic regression tells the two
apart by what they have in common with the story and by the words that they have not.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from rlver_gym.users.embedded.weights import DESCRIBED_CLUES, MASSES, Belonging

_LITTLE = 2.0
"""Nats beside which the shares of short replies stay small."""
_ALIEN = (0.4, 1.2)
"""Mass of alien words up to which a reply suits anybody, and from which it has to belong to this
story.
"""


class Overlap(NamedTuple):
    """The words of a reply as tokens, by where this person's story has them."""

    own: frozenset[str]
    """All of the reply's."""
    alien: frozenset[str]
    """Those that neither the person nor their card has."""
    told: frozenset[str]
    """Those that the person said."""
    last: frozenset[str]
    """Those that they said last."""
    untold: frozenset[str]
    """Those of their card that they have not said yet."""


def compute_masses(overlap: Overlap, situations: int, spread: Mapping[str, int]) -> Iterator[float]:
    """How much each part says, in the order of `MASSES`, in nats or as a share.

    A word says log(situations / those in which supporters use it): words that fit everywhere say
    nothing, nor do those that no supporter used: they may be slips of the keys.
    """

    def weigh(tokens: Collection[str]) -> float:
        return math.fsum(
            math.log(situations / spread[token]) for token in tokens if token in spread
        )

    own, alien, told = weigh(overlap.own), weigh(overlap.alien), weigh(overlap.told)
    yield math.log1p(alien)
    yield math.log1p(told)
    yield math.log1p(weigh(overlap.last))
    yield math.log1p(weigh(overlap.untold))
    yield alien / (own + _LITTLE)
    yield told / (own + _LITTLE)
    yield math.log1p(own)


def extract_clues(
    values: Mapping[str, float], overlap: Overlap, situations: int, spread: Mapping[str, int]
) -> dict[str, float]:
    """Everything by which it is told, by name: features of the description, and masses."""
    described = {name: values.get(name, 0.0) for name in DESCRIBED_CLUES}
    return described | dict(zip(MASSES, compute_masses(overlap, situations, spread), strict=True))


def belonging(known: Belonging, values: Mapping[str, float], overlap: Overlap) -> float:
    """How far a reply belongs to this person, in [0, 1], in steps of 1/256: all that it is worth to
    them is multiplied by it.

    What has no words of another story belongs to anybody, however little it takes up.
    """
    found = extract_clues(values, overlap, known.situations, known.spread)
    logit = known.intercept + math.fsum(
        known.weights[name] * value for name, value in found.items()
    )
    free, all_ = _ALIEN
    strange = (found["alien"] - free) / (all_ - free)
    return (
        round(
            256
            * max(0.0, min(1.0, max((logit - known.low) / (known.high - known.low), 1 - strange)))
        )
        / 256
    )
