"""Appraise: what an utterance does to a person by measured weights, every point after gates as a reason. One engine for all languages. Pure."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from rlver_gym.core.dialogue import Dialogue, Reason
from rlver_gym.core.persona import Persona
from rlver_gym.users.embedded.english import describe, plain_acts
from rlver_gym.users.embedded.factors import Worth, factor_model
from rlver_gym.users.embedded.features import Listened, Told, features, listen, nearness, own_words, ramp, share, told
from rlver_gym.users.embedded.ledger import ACT_IN_WORDS, Ledger, quote, settle
from rlver_gym.users.embedded.weights import NEARNESS, Preset, Relevance, Weights, priors

FORM_IN_WORDS = {
    "length": "as long as it is", "over": "longer than they can take in", "far_over": "a lecture", "under": "hardly more than a word",
    "list": "points instead of talk", "questions": "asked", "many_questions": "one question after the other", "first_person": "spoke of itself",
    "overlap": "took up their last words", "repetition": "said the same before", "exclamations": "spoke with warmth in the voice",
}  # fmt: skip


class Gates(NamedTuple):
    """How much of what is good counts, each a share in [0, 1]."""

    relevance: float
    """Whether it is about this person: their last words, their story."""
    nearness: float
    """The same, more gradually; it is felt, but gates nothing."""
    own_words: float
    """0 when it gives their words back."""
    novelty: float
    """0 when the agent said it before."""
    readable: float
    """0 when it is no talk in their language."""
    room: float
    """0 when one cue stands beside the other without anything in between."""

    @property
    def talk(self) -> float:
        """All but the relevance: whether it is talk at all."""
        return math.prod(self._replace(relevance=1.0, nearness=1.0))

    @property
    def base(self) -> float:
        """What is left of the worth of being talked to: saying the same again takes half of it."""
        return self._replace(novelty=0.5 + 0.5 * self.novelty).all

    @property
    def all(self) -> float:
        """All of them together."""
        return self.relevance * self.talk


OPEN = Gates(1.0, 1.0, 1.0, 1.0, 1.0, 1.0)


def relevance(rule: Relevance, listened: Listened, context: Told) -> float:
    """The logit that it is meant for this person rather than for somebody else."""
    logit = rule.intercept
    for name, value in zip(NEARNESS, nearness(listened, context), strict=True):
        logit += rule.weights[name] * value
    return logit


def gates(known: Relevance | None, listened: Listened, context: Told) -> Gates:
    """Compare an utterance with the story and with everything said before.

    As long as the person has told little, nobody can speak to the point: then relevance does not count yet.
    """
    rule = priors()
    copied = share(listened.grams & context.their_grams, listened.grams)
    repeated = max((share(listened.grams & one.grams, listened.grams) for one in context.earlier), default=0.0)
    if not listened.grams:
        repeated = float(any(one.about == listened.about and one.length == listened.length for one in context.earlier))
    cues = 100 * sum(listened.counts.values()) / max(60.0, listened.length)
    open_to, near = _relevance_gates(known, listened, context) if known else (1.0, 1.0)
    return Gates(
        relevance=open_to,
        nearness=near,
        own_words=1 - ramp(copied, *rule["copying"]["ramp"]),
        novelty=1 - ramp(repeated, *rule["reuse"]["ramp"]),
        readable=listened.readable if listened.length >= rule["empty"]["characters"] else 0.0,
        room=1 - ramp(cues, *rule["crowded"]["ramp"]),
    )


def _relevance_gates(known: Relevance, listened: Listened, context: Told) -> tuple[float, float]:
    rule, logit = priors()["touch"], relevance(known, listened, context)
    told_enough = ramp(len(context.said), *rule["told"])
    touch = ramp(_taken_up(listened, context), *rule["words"])
    return (
        1 - told_enough * (1 - ramp(logit, known.low, (known.high + known.home) / 2) * touch),
        ramp(logit, known.low, known.home) * (1 - told_enough * (1 - touch)),
    )


def _taken_up(listened: Listened, context: Told) -> float:
    """How many of the words of their story it takes up in its own sentences; one that the agent took up before counts for little."""
    rule, home = priors()["touch"], own_words(listened, context) & (context.said | context.story)
    fresh = len(home.difference(*(one.about for one in context.earlier)))
    return fresh + min(rule["again_most"], rule["again"] * (len(home) - fresh))


def worth(weights: Weights, persona: Persona, dialogue: Dialogue, listened: Listened, context: Told) -> Iterable[Worth]:
    """What the reply is worth, in points before gain and gates: by factors where they were measured, else feature by feature."""
    if weights.factors:
        return factor_model(weights.factors).worth(describe(persona, dialogue), persona.need)
    points = {
        name: weights.features[name].of(persona.need) * value
        for name, value in features(listened, context).items()
        if name in weights.features
    }
    return [
        Worth(f"act:{name}" if name in ACT_IN_WORDS else name, points[name], _note(name, listened))
        for name in sorted(points, key=lambda name: -abs(points[name]))
    ]


def reasons_for(
    weights: Weights,
    preset: Preset,
    persona: Persona,
    emotion: int,
    dialogue: Dialogue,
    *,
    challenging: bool = False,
    gated: bool = True,
) -> tuple[Reason, ...]:
    """Why the emotion changes; the points add up to a whole number in [-10, 10] that keeps the emotion within [0, 100].

    `gated=False` leaves out all that recordings cannot teach, to measure what it costs.
    """
    listened, context, ledger = listen(dialogue.utterance or "", persona.language), told(persona, dialogue), Ledger()
    gate = gates(weights.relevance, listened, context) if gated else OPEN
    if weights.factors:
        gate = gate._replace(readable=1.0)  # whether it is talk stands among the evidence
    warming = preset.gain * gate.all * (priors()["challenging"]["warming"] if challenging else 1.0)
    ledger.add("base", preset.base * (gate.base if preset.base > 0 else 1.0), "somebody talks with them")
    for code, points, note in worth(weights, persona, dialogue, listened, context):
        ledger.add(code, points * (warming if points > 0 else preset.gain), note)
    if gated:
        if not weights.factors:
            _foreign(ledger, gate, listened, context)
        _untrue(ledger, gate)
        heard = plain_acts(describe(persona, dialogue)) if weights.factors else listened.heard
        for act, points in priors()["acts"][persona.language].items():
            if act in heard:
                ledger.add(f"prior:{act}", points, f"{ACT_IN_WORDS[act]}: “{quote(heard[act], 40)}”")
    _temper(ledger, preset, persona, emotion, dialogue)
    settle(ledger, emotion)
    return tuple(ledger.reasons)


def _note(name: str, listened: Listened) -> str:
    if name in ACT_IN_WORDS:
        return f"{ACT_IN_WORDS[name]}: “{quote(listened.heard.get(name, ''), 40)}”"
    return FORM_IN_WORDS[name]


def _foreign(ledger: Ledger, gate: Gates, listened: Listened, context: Told) -> None:
    """What recorded changes cannot teach, because nobody in them does it: noise, and speaking past them."""
    rule = priors()
    if listened.length < rule["empty"]["characters"]:
        ledger.add("silence", rule["empty"]["points"], "the agent said next to nothing")
    else:
        ledger.add("nonsense", rule["unreadable"]["points"] * (1 - gate.readable), "no talk that they could follow")
        ledger.add("foreign", rule["relevance"]["points"] * (1 - gate.nearness), "not about them or their story")
    strangers = sorted(listened.names - context.story - context.said)
    if strangers:
        names = quote(", ".join(strangers))
        ledger.add("strangers", rule["strangers"]["points"], f"named people they do not know: {names}")


def _untrue(ledger: Ledger, gate: Gates) -> None:
    """Copying, repeating, and cues in heaps."""
    rule = priors()
    ledger.add("copying", rule["copying"]["points"] * (1 - gate.own_words), "gave their own words back")
    ledger.add("repetition", rule["reuse"]["points"] * (1 - gate.novelty), "said what was already said")
    ledger.add(
        "crowded", rule["crowded"]["points"] * (1 - gate.room), "one kind word after the other, and nothing in between"
    )


def _temper(ledger: Ledger, preset: Preset, persona: Persona, emotion: int, dialogue: Dialogue) -> None:
    disposition = persona.person.disposition
    ledger.add(f"temper:{disposition}", preset.temper[disposition], f"their nature: {disposition}")
    if dialogue.turns:
        ledger.add(
            "momentum", preset.momentum * dialogue.turns[-1].appraisal.change, "the last turn still works in them"
        )
    ledger.add("mood", preset.pull * (emotion - 40) / 20, "how they feel colours what they hear")
