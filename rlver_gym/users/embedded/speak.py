"""Speak: the person's answer, from their own lines and disclosures, in the tone of their emotion. Never the same sentence twice."""

import hashlib

from rlver_gym.dialogue import Appraisal, Dialogue, Reason
from rlver_gym.emotion import Band, Outcome
from rlver_gym.persona import Disclosure
from rlver_gym.users.base import Scene
from rlver_gym.words import content, sentences

_REACTION_TO = {
    "anchor:deeds": "warmed", "anchor:wrongs": "warmed", "anchor:motives": "thinking", "anchor:other_side": "thinking",
    "anchor:insights": "thinking", "anchor:options": "helped", "anchor:unspoken": "heard",
    "act:told_back": "heard", "act:reflect_feeling": "heard", "act:validate": "heard", "act:side": "warmed", "act:praise": "warmed",
    "act:motives": "thinking", "act:other_side": "thinking", "act:reflect_prompt": "thinking", "act:invite": "asked", "act:open_question": "asked",
    "act:blame": "hurt", "act:insult": "hurt", "act:threat": "hurt", "act:minimise": "hurt", "act:advice": "pushed", "act:command": "pushed", "too_soon": "pushed",
    "list": "pushed", "copying": "repeated", "repetition": "repeated", "silence": "puzzled", "nonsense": "puzzled", "act:meta": "puzzled", "act:ai": "cold",
}  # fmt: skip
_THOUGHT_OF = {
    "heard": "touched", "warmed": "touched", "thinking": "touched", "helped": "touched", "asked": "eased",
    "hurt": "hurt", "pushed": "missed", "repeated": "missed", "puzzled": "puzzled", "cold": "cold",
}  # fmt: skip
_LAST_RESORT = ("I don't know what else to say.", "I've said what I had to say, I think.", "Let me sit with that for a moment.", "It's late.", "That's all there is.")


def reaction_to(reasons: tuple[Reason, ...], change: int) -> str:
    """Which of the person's manners answers this: that of the reason that weighed most in the direction of the change.

    The agent's doing decides; temper, momentum and the like are nobody's doing.
    """
    felt = [(reason.points, _REACTION_TO.get(_family(reason.code))) for reason in reasons]
    felt = [(points, manner) for points, manner in felt if manner]
    ups = [pair for pair in felt if pair[0] > 0]
    downs = [pair for pair in felt if pair[0] < 0]
    if downs and (change < 0 or not ups):
        return min(downs, key=lambda pair: pair[0])[1] or "cold"
    if ups and change > 0:
        return max(ups, key=lambda pair: pair[0])[1] or "heard"
    return "asked" if any(manner == "asked" for _, manner in ups) else "cold"


def _family(code: str) -> str:
    return code.split("/")[0]


def thought(scene: Scene, dialogue: Dialogue, reasons: tuple[Reason, ...], change: int) -> str:
    """What the person thinks and does not say."""
    kind = _THOUGHT_OF[reaction_to(reasons, change)]
    if kind == "touched" and change < 4:
        kind = "eased"
    thoughts = getattr(scene.persona.person.thoughts, kind)
    had = {turn.appraisal.thought for turn in dialogue.turns}
    return _pick(scene, dialogue, "thought", [line for line in thoughts if line not in had] or thoughts)


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
    told = _next_disclosure(scene, emotion, dialogue, appraisal, kind)
    parts = [reaction, told.told(Band.of(emotion).tone) if told else None, _hint(scene, dialogue, appraisal, said)]
    return _joined(parts, said) or _fresh(scene, dialogue, "last", _LAST_RESORT, said) or "…"


def _said(dialogue: Dialogue) -> set[str]:
    return {sentence.casefold() for line in dialogue.user_lines for sentence in sentences(line)}


def _joined(parts: list[str | None], said: set[str]) -> str:
    """The parts as one text, without any sentence that was said before."""
    said = set(said)
    kept = []
    for sentence in (sentence for part in parts if part for sentence in sentences(part)):
        if sentence.casefold() not in said:
            said.add(sentence.casefold())
            kept.append(sentence)
    return " ".join(kept)


def _fresh(scene: Scene, dialogue: Dialogue, purpose: str, lines: tuple[str, ...], said: set[str]) -> str | None:
    unused = [line for line in lines if not any(sentence.casefold() in said for sentence in sentences(line))]
    return _pick(scene, dialogue, purpose, unused) if unused else None


def _next_disclosure(scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal, kind: str) -> Disclosure | None:
    """What they tell next: on a question, what it asks for; else the next in order, as deep as they trust by now."""
    if kind in ("hurt", "puzzled", "repeated") and emotion < 25:
        return None
    told = set(dialogue.user_lines)
    untold = [item for item in scene.persona.situation.disclosures if not _was_told(item, told)]
    depth = _depth(emotion, dialogue, appraisal)
    open_to = [item for item in untold if item.depth <= depth]
    asked = content(dialogue.utterance or "")
    about = [(len(asked & content(f"{item.high} {item.normal} {item.low}")), item) for item in open_to]
    best = max((count for count, _ in about), default=0)
    if "?" in (dialogue.utterance or "") and best >= 2:
        return next(item for count, item in about if count == best)
    return open_to[0] if open_to else None


def _was_told(item: Disclosure, lines: set[str]) -> bool:
    return any(version in line for line in lines for version in (item.high, item.normal, item.low))


def _depth(emotion: int, dialogue: Dialogue, appraisal: Appraisal) -> int:
    if emotion >= 65 or (appraisal.change >= 5 and len(dialogue.turns) >= 3):
        return 3
    return 2 if appraisal.change > 0 or emotion >= 45 or len(dialogue.turns) >= 4 else 1


def _hint(scene: Scene, dialogue: Dialogue, appraisal: Appraisal, said: set[str]) -> str | None:
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
