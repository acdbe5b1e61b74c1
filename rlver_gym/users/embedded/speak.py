"""Speak: the person's answer, from their own lines and disclosures, in the tone of their emotion. Never the same sentence twice."""

import hashlib

from rlver_gym.dialogue import Appraisal, Dialogue, Reason
from rlver_gym.emotion import Band, Outcome
from rlver_gym.persona import Disclosure
from rlver_gym.users.base import Scene
from rlver_gym.users.embedded.hear import hear
from rlver_gym.users.embedded.lines import cut, each_cut, tellings
from rlver_gym.users.embedded.reactions import reaction_to

_THOUGHT_OF = {
    "heard": "touched", "warmed": "touched", "thinking": "touched", "helped": "touched", "asked": "eased",
    "hurt": "hurt", "pushed": "missed", "repeated": "missed", "puzzled": "puzzled", "cold": "cold",
}  # fmt: skip
_LAST_RESORT = (
    "I don't know what else to say.",
    "I've said what I had to say, I think.",
    "Let me sit with that for a moment.",
    "It's late.",
    "That's all there is.",
)


def thought(scene: Scene, dialogue: Dialogue, reasons: tuple[Reason, ...], change: int) -> str:
    """What the person thinks and does not say."""
    kind = _THOUGHT_OF[reaction_to(reasons, change)]
    if kind in ("touched", "eased") or change > 0:
        kind = "touched" if change >= 4 else "eased" if change > 0 else "missed"
    thoughts = getattr(scene.persona.person.thoughts, kind)
    had = [turn.appraisal.thought for turn in dialogue.turns]
    fresh = [line for line in thoughts if line not in had] or [line for line in thoughts if line != had[-1]]
    return _pick(scene, dialogue, "thought", fresh)


def opening(scene: Scene, emotion: int) -> str:
    """The first words, in the tone of the start emotion."""
    return scene.persona.situation.openings.said(Band.of(emotion).tone)


def answer(scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal) -> str:
    """Reaction, then what they tell next, then a hint at the need; or goodbye."""
    said = _said(dialogue)
    manner = scene.persona.person.manner
    kind = reaction_to(appraisal.reasons, appraisal.change)
    reaction = _fresh(scene, dialogue, kind, getattr(manner, kind), said)
    outcome = scene.card.outcome(emotion, len(dialogue.turns) + 1)
    if outcome in (Outcome.CONTENT, Outcome.LEFT):
        goodbyes = manner.goodbye_content if outcome is Outcome.CONTENT else manner.goodbye_left
        return _joined([reaction, _pick(scene, dialogue, "goodbye", goodbyes)], said)
    told = _next_disclosure(scene, emotion, dialogue, appraisal, kind, said)
    parts = [reaction, told.told(Band.of(emotion).tone) if told else None, _hint(scene, dialogue, appraisal, said)]
    return _joined(parts, said) or _fresh(scene, dialogue, "last", _LAST_RESORT, said) or "…"


def _said(dialogue: Dialogue) -> frozenset[str]:
    return frozenset().union(*[cut(line).folded for line in dialogue.user_lines])


def _joined(parts: list[str | None], said: frozenset[str]) -> str:
    """The parts as one text, without any sentence that was said before."""
    once = {folded: sentence for part in reversed(parts) if part for folded, sentence in cut(part).backwards}
    return " ".join([sentence for folded, sentence in reversed(once.items()) if folded not in said])


def _fresh(scene: Scene, dialogue: Dialogue, purpose: str, lines: tuple[str, ...], said: frozenset[str]) -> str | None:
    unused = [text for text, folded, _ in each_cut(lines) if said.isdisjoint(folded)]
    return _pick(scene, dialogue, purpose, unused) if unused else None


def _next_disclosure(
    scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal, kind: str, said: frozenset[str]
) -> Disclosure | None:
    """What they tell next: on a question, what it asks for; else the next in order, as deep as they trust by now."""
    if kind in ("hurt", "puzzled", "repeated") and emotion < 25:
        return None
    depth, utterance = _depth(emotion, dialogue, appraisal), dialogue.utterance or ""
    asked = hear(utterance).content if "?" in utterance else None
    first, closest, shared = None, None, 1
    for item, folded, about in tellings(scene.persona.situation):
        if item.depth <= depth and said.isdisjoint(folded):
            if asked is None:
                return item
            first = first or item
            if len(asked & about) > shared:
                closest, shared = item, len(asked & about)
    return closest or first


def _depth(emotion: int, dialogue: Dialogue, appraisal: Appraisal) -> int:
    if emotion >= 65 or (appraisal.change >= 5 and len(dialogue.turns) >= 3):
        return 3
    return 2 if appraisal.change > 0 or emotion >= 45 or len(dialogue.turns) >= 4 else 1


def _hint(scene: Scene, dialogue: Dialogue, appraisal: Appraisal, said: frozenset[str]) -> str | None:
    """A hint at the need: in the first answer, whenever they feel missed, and every third turn."""
    number = len(dialogue.turns)
    if number and appraisal.change > 0 and number % 3:
        return None
    return _fresh(scene, dialogue, "hint", scene.persona.situation.hints.of(scene.persona.need), said)


def _pick(scene: Scene, dialogue: Dialogue, purpose: str, lines: tuple[str, ...] | list[str]) -> str:
    """One of the lines, chosen by seed, persona, turn and purpose: the same on every machine."""
    key = f"{scene.seed}/{scene.persona.id}/{len(dialogue.turns)}/{purpose}"
    number = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big")
    return lines[number % len(lines)]
