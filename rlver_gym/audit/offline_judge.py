"""A judge without a server: the capabilities of English dialogues as readers rated others, by a fit
to their ratings (research/fit_capabilities.py). The readers were a language model in that role.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from rlver_gym.audit.judge import Heard, Judged, find_addressed
from rlver_gym.audit.judge_answer import Judgement
from rlver_gym.core.capabilities import DIMENSIONS, HIGHEST, JUDGED, LOWEST
from rlver_gym.core.dialogue import Appraisal, Dialogue, Message, Turn
from rlver_gym.core.persona import Persona
from rlver_gym.io.errors import CardError
from rlver_gym.io.files import load_json
from rlver_gym.users.embedded.english import predict
from rlver_gym.users.embedded.perception import FEATURES, perceive
from rlver_gym.users.embedded.weights import FACTORS

OFFLINE = "offline"
WHAT = "a fit to readers, a language model in that role"
MIN_R = 0.6
"""Of a dimension, over dialogues of unseen supporters: what reaches less is not offered."""
BEST_TURNS = 3
MEANS = ("repeated", "touched", "like_last_most", "cut", "near:unspoken")
SPREADS = ("last_covered", "like_own_mean", "names:told")
"""Of what the embedded user perceives in each turn; chosen on train supporters."""
_ACTS = tuple(one for one in FEATURES if one.startswith("logit:"))
_COLUMN = {name: at for at, name in enumerate(FEATURES)}
INPUTS = (
    *(f"mean {one}" for one in (*FACTORS, *_ACTS, *MEANS)),
    *(f"best {one}" for one in FACTORS),
    *(f"spread {one}" for one in SPREADS),
)
"""What a dialogue is described by."""


class Agreement(NamedTuple):
    """How far the fit agrees with readers about a dimension, on supporters that it had not seen."""

    r: float
    """Pearson's, over dialogues."""
    fluent_r: float
    """The same without the dialogues of small trained models, which are all rated near 1."""
    supporters_r: float
    """Over supporters' means."""
    mae: float
    """Mean absolute error, in points."""
    readers_r: float
    """Of the two readers of the same dialogues, both the same language model."""

    @property
    def is_enough(self) -> bool:
        """Whether the dimension is offered."""
        return min(self.r, self.fluent_r) >= MIN_R


class Fit(NamedTuple):
    """Kernel ridge regression; as the file holds it."""

    version: str
    agreement: dict[str, Agreement]
    """By dimension and axis."""
    low: np.ndarray
    high: np.ndarray
    """The range of each input where readers rated: nothing outside of it counts for more."""
    mean: np.ndarray
    spread: np.ndarray
    gamma: float
    points: np.ndarray
    """Rated dialogues, standardised."""
    weights: np.ndarray
    """Of each of them for each of JUDGED."""
    centre: np.ndarray

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """Marks from 1 to 5 in the order of JUDGED, for inputs of shape (D, len(INPUTS))."""
        seen = (np.clip(inputs, self.low, self.high) - self.mean) / self.spread
        marks = compute_kernel(seen, self.points, self.gamma) @ self.weights + self.centre
        return np.clip(marks, LOWEST, HIGHEST)


def compute_kernel(a: np.ndarray, b: np.ndarray, gamma: float) -> np.ndarray:
    """exp(-gamma d²), d² the mean squared difference over inputs; of each row with each."""
    squares = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T
    return np.exp(-gamma * squares / a.shape[1])


@lru_cache(maxsize=1)
def shipped_fit() -> Fit:
    """The fit that comes with the package."""
    data: dict[str, Any] = load_json("rlver_gym.audit", "offline_judge.json")
    if tuple(data.pop("inputs")) != INPUTS:
        raise ValueError("offline_judge.json has other inputs: run research/fit_capabilities.py")
    agreement = {name: Agreement(**one) for name, one in data.pop("agreement").items()}
    arrays = {name: np.array(one) for name, one in data.items() if isinstance(one, list)}
    return Fit(**{**data, **arrays}, agreement=agreement)


def describe_dialogue(persona: Persona, messages: Sequence[Message]) -> np.ndarray:
    """The INPUTS of a dialogue of one turn or more: what the embedded user perceives, over its
    turns.
    """
    opening, *rest = (one.text for one in messages)
    turns: list[Turn] = []
    values, factors = [], []
    for said, reply in zip(rest[::2], [*rest[1::2], ""], strict=False):
        perceived = perceive(persona, Dialogue(opening, tuple(turns), said))
        values.append(perceived.values)
        factors.append(predict(perceived))
        turns.append(Turn(said, Appraisal(0, "", ()), 0, 0.0, None, reply))
    values_NF, factors_NK = np.array(values), np.array(factors)
    means = values_NF[:, [_COLUMN[one] for one in (*_ACTS, *MEANS)]].mean(0)
    best = np.sort(factors_NK, axis=0)[-BEST_TURNS:].mean(0)
    spreads = values_NF[:, [_COLUMN[one] for one in SPREADS]].std(0)
    return np.concatenate([factors_NK.mean(0), means, best, spreads])


def list_offered() -> list[str]:
    """The dimensions and axes that readers' ratings could be fitted for."""
    return [name for name in JUDGED if shipped_fit().agreement[name].is_enough]


def judge_offline(dialogues: Iterable[tuple[Heard, Persona]]) -> Iterator[Judged]:
    """Each dialogue with one judgement, of the offered dimensions, in hundredths of a point.

    A reply that speaks to whoever judges is heard as silence, and takes its share of what the
    capabilities are above the lowest. CardError for a person whose language is not English.
    """
    for heard, persona in dialogues:
        if persona.language != "en":
            raise CardError(
                f"{persona.id} speaks another language than English, which the offline judge does"
                " not read. Have a model judge: --judge openai:MODEL."
            )
        yield Judged(heard, (Judgement(_rate(heard, persona), {}, 0),))


def _rate(heard: Heard, persona: Persona) -> dict[str, float]:
    addressed = find_addressed(heard.messages)
    count = len(heard.messages) // 2
    kept = [
        one._replace(text="") if at in addressed else one
        for at, one in enumerate(heard.messages, 1)
    ]
    marks = np.full(len(JUDGED), float(LOWEST))
    if count:
        (marks,) = shipped_fit().predict(describe_dialogue(persona, kept)[None])
    share = 1 - len(addressed) / max(1, count)
    found = dict(zip(JUDGED, marks.tolist(), strict=True))
    found |= {name: LOWEST + share * (found[name] - LOWEST) for name in DIMENSIONS}
    return {name: round(found[name], 2) for name in list_offered()}
