"""What readers would say of a reply in English: a small fitted network from what was perceived to
the six factors that readers rate, and what each is worth. Whole numbers inside; pure.
"""

import json
from enum import StrEnum
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from rlver_gym.core.dialogue import ReasonCode
from rlver_gym.core.ledger import ACT_IN_WORDS, quote
from rlver_gym.core.persona import HiddenNeed
from rlver_gym.users.embedded.perception import FEATURES, Perception


class Factor(StrEnum):
    """What readers of rated replies say of a reply, in the rubric's words: 0 to 4 each, `false` 0
    or 1.
    """

    UNDERSTOOD = "understood"
    ABOUT = "about"
    GIVES = "gives"
    HUMAN = "human"
    PRESSURE = "pressure"
    FALSE = "false"


FACTORS = tuple(Factor)
IN_WORDS = {
    Factor.UNDERSTOOD: ("did not feel understood", "felt understood"),
    Factor.ABOUT: ("little of this was about them", "it was about them and their story"),
    Factor.GIVES: ("gave little of what they need", "gave something of what they need"),
    Factor.HUMAN: ("sounded like a script", "sounded like a real person"),
    Factor.PRESSURE: ("left them free", "felt pushed, or judged"),
    Factor.FALSE: ("nothing in it was wrong", "something in it was not true"),
}
"""Of each factor, what is said when it is low and when it is high."""
VOID = (ReasonCode.SILENCE, ReasonCode.NONSENSE)
"""Evidence beside which nothing else counts."""
LIMIT = 3.0
"""Of an input, in standard deviations: what is unlike all that was rated counts no more."""
NEEDS = tuple(sorted(HiddenNeed))
_NEED = dict(zip(NEEDS, np.eye(len(NEEDS)), strict=True))
_HIGHEST = np.array([4.0] * 5 + [1.0])
_PLAIN_ACTS = {"insult": -5.0, "threat": -6.0, "meta": -6.0, "blame": -4.0, "minimise": -4.0}
"""What nobody in the corpus does often enough to be fitted: points of experts."""
_PLAIN_WORDS = 12
_NOT_PLAIN = frozenset({"not", "never", "no", "were", "was"})
_WRONG, _AS_OWN, _AGAIN = -3.0, -3.0, -2.0
"""Points for a fact that is surely wrong, their story told as the agent's own, a sentence again."""
_WRONG_NUMBER = -1.5
"""A number may count something else than theirs."""
_VOID = {ReasonCode.SILENCE: -4.5, ReasonCode.NONSENSE: -5.0}
_BROKEN, _TORN, _COPIED, _REPEATED, _REFRAIN, _CUT = -2.5, -1.25, -2.5, -3.0, -1.5, -1.5
"""Points for words that do not hang together, for each sentence torn, for all copied, for all said
again, for each more utterance that had it, for a sentence that stops in the middle.
"""
_WHOLE_SHARE = 0.3
"""Of a change, what may at most be said of the reply as a whole where causes are known."""


class _Network(NamedTuple):
    mean: np.ndarray
    spread: np.ndarray
    inner: np.ndarray
    inner_bias: np.ndarray
    outer: np.ndarray
    outer_bias: np.ndarray
    worth: np.ndarray
    """Points per unit of each factor."""
    neutral: np.ndarray
    """The level of each at which nothing changes."""
    low: dict[str, float]
    """The prediction up to which four of five replies were rated low, by factor."""
    high: dict[str, float]


@lru_cache(maxsize=1)
def _load_network() -> _Network:
    path = files("rlver_gym.users.embedded").joinpath("english.npz")
    with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
        meta = json.loads(bytes(data["meta"]).decode())
        if meta["features"] != [*FEATURES, *NEEDS]:
            raise ValueError(
                "english.npz was fitted to other features: run research/fit_english.py"
            )
        arrays: dict[str, Any] = {
            name: data[name].astype(np.float64) for name in _Network._fields[:8]
        }
        return _Network(**arrays, low=meta["low"], high=meta["high"])


def order_network_inputs(perceived: Perception) -> np.ndarray:
    return np.concatenate([perceived.values, _NEED[perceived.need]])


def predict_reader_ratings(perceived: Perception) -> np.ndarray:
    """Each factor's rating, in the order of FACTORS, within its scale.

    Weights and inputs are whole multiples of small powers of two, so that sums are exact, and what
    comes out is rounded: the same on every machine.
    """
    net = _load_network()
    inputs = (order_network_inputs(perceived) - net.mean) * net.spread
    inputs = np.rint(np.minimum(np.maximum(inputs, -LIMIT), LIMIT) * 256) / 256
    drive = inputs @ net.inner + net.inner_bias
    inner = np.rint(drive / (1 + np.abs(drive)) * 4096) / 4096
    rated = np.rint((inner @ net.outer + net.outer_bias) * 256) / 256
    return np.minimum(np.maximum(rated, 0.0), _HIGHEST)


class Worth(NamedTuple):
    """What a part of a reply is worth."""

    code: str
    points: float
    note: str


def weigh_reply(perceived: Perception) -> list[Worth]:
    """What the reply is worth, by named causes and factors, and the rest as a whole."""
    if perceived.void:
        return weigh_causes(perceived)
    net = _load_network()
    rated, neutral = predict_reader_ratings(perceived), net.neutral.tolist()
    points = (net.worth * (rated - net.neutral)).tolist()
    rated = rated.tolist()
    told: list[Worth] = []
    rest = 0.0
    for at, name in enumerate(FACTORS):
        above = rated[at] - neutral[at]
        is_high = above > 0 and rated[at] >= net.high.get(name, 9.0)
        is_low = above < 0 and rated[at] <= net.low.get(name, -9.0)
        if is_high or is_low:
            told.append(Worth(name.value, points[at], IN_WORDS[name][is_high]))
        else:
            rest += points[at]
    return [*_distribute_rest(told, rest), *weigh_causes(perceived)]


def _distribute_rest(told: list[Worth], rest: float) -> list[Worth]:
    """What is not known surely by itself goes to what is told and points the same way, but for a
    small part that is said of the whole.
    """
    same = [at for at, one in enumerate(told) if one.points * rest > 0]
    total = sum(one.points for one in told) + rest
    whole = rest
    if same and abs(rest) > _WHOLE_SHARE * abs(total):
        whole = _WHOLE_SHARE * abs(total) * (1 if rest > 0 else -1)
        of_same = sum(told[at].points for at in same)
        for at in same:
            one = told[at]
            told[at] = one._replace(points=one.points * (1 + (rest - whole) / of_same))
    note = "on the whole it did them " + ("good" if whole > 0 else "no good")
    return [*told, Worth(ReasonCode.WHOLE, whole, note)]


def weigh_causes(perceived: Perception) -> list[Worth]:
    """What can be pointed at and costs by rule."""
    if perceived.void:
        code, note = perceived.void
        return [Worth(code, _VOID[code], note)]
    found = _find_form_faults(perceived)
    wrong = next((one for one in perceived.claims if one.verdict == "false" and one.is_sure), None)
    if wrong is not None:
        right = f", not “{quote(wrong.right, 30)}”" if wrong.right else ""
        cost = _WRONG_NUMBER if wrong.kind == "number" else _WRONG
        found.append(Worth("fact", cost, f"got it wrong: “{quote(wrong.said, 30)}”{right}"))
    for act, points in _PLAIN_ACTS.items():
        text = next((one.text for one in perceived.pieces if act in one.phrases), None)
        if text is not None and _is_plain_text(text):
            found.append(Worth(f"prior:{act}", points, f"{ACT_IN_WORDS[act]}: “{quote(text, 40)}”"))
    return found


def _find_form_faults(perceived: Perception) -> list[Worth]:
    copies, pieces, found = perceived.copies, perceived.pieces, []
    size = max(1, sum([len(one.words) for one in pieces]))
    broken = sum([len(one.words) for one in pieces if one.is_broken]) / size
    if broken:
        note = "could not follow all of it: words that do not hang together"
        found.append(Worth(ReasonCode.BROKEN, _BROKEN * broken, note))
    cut = [one.text for one in pieces if one.is_cut]
    if cut:
        note = f"left a sentence unfinished: “{quote(cut[0])}”"
        found.append(Worth(ReasonCode.BROKEN, _CUT * min(2, len(cut)), note))
    if copies.torn:
        text = pieces[min(copies.torn)].text
        note = f"tore a piece out of their words: “{quote(text)}”"
        found.append(Worth(ReasonCode.TORN, _TORN * min(2, len(copies.torn)), note))
    if copies.share > _MUCH_COPIED:
        much = min(1.0, (copies.share - _MUCH_COPIED) / (1 - _MUCH_COPIED))
        found.append(Worth(ReasonCode.COPYING, _COPIED * much, "gave their own words back"))
    if copies.as_own:
        note = f"told their story as its own: “{quote(copies.as_own)}”"
        found.append(Worth("as_own", _AS_OWN, note))
    again = max(0.0, min(1.0, (copies.repeated_most - 0.15) / 0.35)) * _REPEATED
    again += _REFRAIN * max(0, min(3, copies.repeated_times) - 1)
    stale = pieces[min(copies.stale)].text if copies.stale else ""
    if stale or again <= -0.25:
        note = f"said what was already said: “{quote(stale)}”" if stale else "said that before"
        found.append(Worth(ReasonCode.REPETITION, min(again, _AGAIN if stale else 0.0), note))
    return found


_MUCH_COPIED = 0.4


def _is_plain_text(text: str) -> bool:
    words = text.lower().replace("won't", "not").split()
    return len(words) <= _PLAIN_WORDS and _NOT_PLAIN.isdisjoint(words) and '"' not in text
