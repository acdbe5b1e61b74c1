"""Appraise: what an utterance does to a person by measured weights, every point after the gain
factors as a reason. One engine for all languages. Pure.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

from rlver_gym.core.dialogue import Dialogue, Reason, ReasonCode
from rlver_gym.core.ledger import ACT_IN_WORDS, Ledger, quote, round_and_clip
from rlver_gym.core.persona import Persona
from rlver_gym.users.embedded.chat import weigh_chat
from rlver_gym.users.embedded.english import Worth, weigh_reply
from rlver_gym.users.embedded.features import (
    DialogueContext,
    SurfaceFeatures,
    build_context,
    compute_features,
    compute_nearness,
    extract_surface_features,
    find_own_words,
    ramp,
    share,
)
from rlver_gym.users.embedded.perception import perceive
from rlver_gym.users.embedded.priors import load_priors
from rlver_gym.users.embedded.weights import NEARNESS, Preset, Relevance, Weights

FORM_IN_WORDS = {
    "length": "as long as it is",
    "over": "longer than they can take in",
    "far_over": "a lecture",
    "under": "hardly more than a word",
    "list": "points instead of talk",
    "questions": "asked",
    "many_questions": "one question after the other",
    "first_person": "spoke of itself",
    "overlap": "took up their last words",
    "repetition": "said the same before",
    "exclamations": "spoke with warmth in the voice",
}


class GainFactors(NamedTuple):
    """How much of what is good counts, each a share in [0, 1]."""

    relevance: float
    """Whether it is about this person: their last words, their story."""
    nearness: float
    """The same, more gradually; it costs points, but scales no gain."""
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


FULL_GAIN = GainFactors(1.0, 1.0, 1.0, 1.0, 1.0, 1.0)


def compute_relevance_logit(
    rule: Relevance, surface: SurfaceFeatures, context: DialogueContext
) -> float:
    """The logit that it is meant for this person rather than for somebody else."""
    logit = rule.intercept
    for name, value in zip(NEARNESS, compute_nearness(surface, context), strict=True):
        logit += rule.weights[name] * value
    return logit


def compute_gain_factors(
    known: Relevance | None, surface: SurfaceFeatures, context: DialogueContext
) -> GainFactors:
    """Compare an utterance with the story and with everything said before.

    As long as the person has told little, nobody can speak to the point: then relevance does not
    count yet.
    """
    rule = load_priors()
    copied = share(surface.grams & context.their_grams, surface.grams)
    repeated = max(
        (share(surface.grams & one.grams, surface.grams) for one in context.earlier), default=0.0
    )
    if not surface.grams:
        repeated = float(
            any(
                one.about == surface.about and one.length == surface.length
                for one in context.earlier
            )
        )
    cues = 100 * sum(surface.counts.values()) / max(60.0, surface.length)
    open_to, near = _compute_relevance_factors(known, surface, context) if known else (1.0, 1.0)
    return GainFactors(
        relevance=open_to,
        nearness=near,
        own_words=1 - ramp(copied, *rule.copying.ramp),
        novelty=1 - ramp(repeated, *rule.reuse.ramp),
        readable=surface.readable if surface.length >= rule.empty.characters else 0.0,
        room=1 - ramp(cues, *rule.crowded.ramp),
    )


def _compute_relevance_factors(
    known: Relevance, surface: SurfaceFeatures, context: DialogueContext
) -> tuple[float, float]:
    rule, logit = load_priors().touch, compute_relevance_logit(known, surface, context)
    told_enough = ramp(len(context.said), *rule.told)
    touch = ramp(_count_story_words(surface, context), *rule.words)
    return (
        1 - told_enough * (1 - ramp(logit, known.low, (known.high + known.home) / 2) * touch),
        ramp(logit, known.low, known.home) * (1 - told_enough * (1 - touch)),
    )


def _count_story_words(surface: SurfaceFeatures, context: DialogueContext) -> float:
    """How many of the words of their story it takes up in its own sentences; one that the agent
    took up before counts for little.
    """
    rule, home = (
        load_priors().touch,
        find_own_words(surface, context) & (context.said | context.story),
    )
    fresh = len(home.difference(*(one.about for one in context.earlier)))
    return fresh + min(rule.again_most, rule.again * (len(home) - fresh))


def compute_worth(
    weights: Weights,
    persona: Persona,
    surface: SurfaceFeatures,
    context: DialogueContext,
) -> Iterable[Worth]:
    """What the reply is worth, in points before gain and gain factors, feature by feature."""
    points = {
        name: weights.features[name].of(persona.need) * value
        for name, value in compute_features(surface, context).items()
        if name in weights.features
    }
    return [
        Worth(
            f"act:{name}" if name in ACT_IN_WORDS else name,
            points[name],
            _describe_feature(name, surface),
        )
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
    is_chat: bool = False,
) -> tuple[Reason, ...]:
    """Why the emotion changes; the points add up to a whole number in [-10, 10] that keeps the
    emotion within [0, 100].

    `gated=False` leaves out all that recordings cannot teach, to measure what it costs.
    `is_chat`: they have an interest and no burden; in English.
    """
    ledger = Ledger()
    warmth = load_priors().challenging.warming if challenging else 1.0
    if weights.features:
        _add_by_features(ledger, weights, preset, persona, dialogue, warmth, gated)
    else:
        ledger.add(ReasonCode.BASE, preset.base, "somebody talks with them")
        weigh = weigh_chat if is_chat else weigh_reply
        for code, points, note in weigh(perceive(persona, dialogue)):
            ledger.add(code, points * preset.gain * (warmth if points > 0 else 1.0), note)
    _add_mood_reasons(ledger, preset, persona, emotion, dialogue)
    round_and_clip(ledger, emotion)
    return tuple(ledger.reasons)


def _add_by_features(
    ledger: Ledger,
    weights: Weights,
    preset: Preset,
    persona: Persona,
    dialogue: Dialogue,
    warmth: float,
    gated: bool,
) -> None:
    """By named features and gates, as recordings were fitted."""
    surface, context = (
        extract_surface_features(dialogue.utterance or "", persona.language),
        build_context(persona, dialogue),
    )
    factors = compute_gain_factors(weights.relevance, surface, context) if gated else FULL_GAIN
    ledger.add(
        ReasonCode.BASE,
        preset.base * (factors.base if preset.base > 0 else 1.0),
        "somebody talks with them",
    )
    for code, points, note in compute_worth(weights, persona, surface, context):
        gain = preset.gain * (factors.all * warmth if points > 0 else 1.0)
        ledger.add(code, points * gain, note)
    if gated:
        _add_off_topic_reasons(ledger, factors, surface, context)
        _add_repetition_reasons(ledger, factors)
        for act, points in load_priors().acts[persona.language].items():
            if act in surface.heard:
                note = f"{ACT_IN_WORDS[act]}: “{quote(surface.heard[act], 40)}”"
                ledger.add(f"prior:{act}", points, note)


def _describe_feature(name: str, surface: SurfaceFeatures) -> str:
    if name in ACT_IN_WORDS:
        return f"{ACT_IN_WORDS[name]}: “{quote(surface.heard.get(name, ''), 40)}”"
    return FORM_IN_WORDS[name]


def _add_off_topic_reasons(
    ledger: Ledger, factors: GainFactors, surface: SurfaceFeatures, context: DialogueContext
) -> None:
    """What recorded changes cannot teach, because nobody in them does it: noise, and speaking past
    them.
    """
    rule = load_priors()
    if surface.length < rule.empty.characters:
        ledger.add(ReasonCode.SILENCE, rule.empty.points, "the agent said next to nothing")
    else:
        ledger.add(
            ReasonCode.NONSENSE,
            rule.unreadable.points * (1 - factors.readable),
            "no talk that they could follow",
        )
        ledger.add(
            ReasonCode.FOREIGN,
            rule.relevance.points * (1 - factors.nearness),
            "not about them or their story",
        )
    strangers = sorted(surface.names - context.story - context.said)
    if strangers:
        names = quote(", ".join(strangers))
        ledger.add(
            ReasonCode.STRANGERS,
            rule.strangers.points,
            f"named people they do not know: {names}",
        )


def _add_repetition_reasons(ledger: Ledger, factors: GainFactors) -> None:
    """Copying, repeating, and cues in heaps."""
    rule = load_priors()
    ledger.add(
        ReasonCode.COPYING,
        rule.copying.points * (1 - factors.own_words),
        "gave their own words back",
    )
    ledger.add(
        ReasonCode.REPETITION,
        rule.reuse.points * (1 - factors.novelty),
        "said what was already said",
    )
    ledger.add(
        ReasonCode.CROWDED,
        rule.crowded.points * (1 - factors.room),
        "one kind word after the other, and nothing in between",
    )


def _add_mood_reasons(
    ledger: Ledger, preset: Preset, persona: Persona, emotion: int, dialogue: Dialogue
) -> None:
    disposition = persona.person.disposition
    ledger.add(f"temper:{disposition}", preset.temper[disposition], f"their nature: {disposition}")
    if dialogue.turns:
        ledger.add(
            ReasonCode.MOMENTUM,
            preset.momentum * dialogue.turns[-1].appraisal.change,
            "the last turn still works in them",
        )
    ledger.add(
        ReasonCode.MOOD, preset.pull * (emotion - 40) / 20, "how they feel colours what they hear"
    )
