"""Fit, touch, temper, feel: from what was heard to points, each with its reason. Pure; the weights are data."""

from functools import lru_cache
from typing import Any

from rlver_gym.anchors import Touch
from rlver_gym.dialogue import Dialogue, Reason
from rlver_gym.emotion import MAX_CHANGE, moved
from rlver_gym.persona import Persona
from rlver_gym.users.embedded.gates import Gates, gates
from rlver_gym.users.embedded.hear import Heard, Remembered, hear, remember
from rlver_gym.users.embedded.lexicon import load_data
from rlver_gym.users.embedded.world import touched_keys, touches, world
from rlver_gym.words import content

KIND_IN_WORDS = {
    "deeds": "named something they really did",
    "wrongs": "saw what was unfair to them",
    "motives": "offered a reason for what somebody did",
    "options": "found a step that fits",
    "other_side": "showed how it looks from the other side",
    "insights": "pointed at something about themselves",
    "unspoken": "put an unspoken feeling into words",
}
ACT_IN_WORDS = {
    "reflect_feeling": "spoke of their feelings",
    "validate": "found their reaction natural",
    "side": "took their side",
    "praise": "gave credit",
    "invite": "invited them to go on",
    "open_question": "asked an open question",
    "motives": "looked for the others' reasons",
    "other_side": "looked at the other side",
    "reflect_prompt": "turned the question to themselves",
    "advice": "suggested what to do",
    "cliche": "said what one says to anyone",
    "referral": "sent them to somebody else",
    "minimise": "made it small",
    "blame": "blamed them",
    "insult": "insulted them",
    "threat": "threatened",
    "ai": "spoke as a machine",
    "meta": "spoke to the score, not to the person",
    "promise": "promised what nobody can",
    "agree_all": "agreed without looking",
    "command": "told them what to do",
    "hedge": "stayed vague",
}


class Ledger:
    """Reasons as they come up, in quarter points, without the empty ones."""

    def __init__(self) -> None:
        """Empty."""
        self.reasons: list[Reason] = []

    def add(self, code: str, points: float, note: str) -> None:
        """One more reason, rounded to quarter points."""
        quarters = round(points * 4)
        if quarters:
            self.reasons.append(Reason(code, quarters / 4, note))

    @property
    def total(self) -> float:
        """The exact sum so far."""
        return sum(reason.points for reason in self.reasons)


@lru_cache(maxsize=4)
def weights(language: str) -> dict[str, Any]:
    """The shipped weights of a language."""
    return load_data(f"weights_{language}.json")


def reasons_for(persona: Persona, emotion: int, dialogue: Dialogue, *, challenging: bool) -> tuple[Reason, ...]:
    """Why the emotion changes; the points add up to a whole number in [-10, 10] that keeps the emotion within [0, 100]."""
    w = weights(persona.language)
    heard = hear(dialogue.utterance or "", persona.language)
    earlier = tuple(remember(text, persona.language) for text in dialogue.earlier_utterances)
    ledger = Ledger()
    ledger.add(
        "base",
        w["base"] + (w["challenging"]["base"] if challenging else 0),
        "another turn of a talk that is not easy for them",
    )
    if not _is_language(heard, dialogue):
        _not_language(ledger, w, heard)
    else:
        gate = gates(w, world(persona), heard, earlier, dialogue)
        _untrue(ledger, w, heard, gate)
        warming = w["challenging"]["warming"] if challenging else 1.0
        _anchors(ledger, w, persona, heard, dialogue, gate, warming)
        _acts(ledger, w, persona, heard, earlier, gate, warming)
        _bad_acts(ledger, w, persona, heard, earlier)
        _shape(ledger, w, persona, heard)
    _temper(ledger, w, persona, emotion, dialogue)
    _settle(ledger, emotion)
    return tuple(ledger.reasons)


def _is_language(heard: Heard, dialogue: Dialogue) -> bool:
    if heard.word_count == 0:
        return False
    if heard.word_count < 4:
        return heard.function_share > 0 or any(heard.content & content(line) for line in dialogue.user_lines)
    return heard.function_share >= 0.2


def _not_language(ledger: Ledger, w: dict[str, Any], heard: Heard) -> None:
    if heard.word_count == 0 and not heard.sentences:
        ledger.add("silence", w["silence"], "the agent said nothing")
    else:
        ledger.add("nonsense", w["nonsense"], "that was no sentence that they could follow")


def _untrue(ledger: Ledger, w: dict[str, Any], heard: Heard, gate: Gates) -> None:
    """What is not meant for this person: their own words back, the agent's again, somebody else's story."""
    ledger.add("copying", w["copying"]["points"] * (1 - gate.own_words), "gave their own words back")
    ledger.add("repetition", w["reuse"]["points"] * (1 - gate.novelty), "said what was already said")
    if gate.foreign:
        text = heard.sentences[min(gate.foreign)].text
        points = max(w["foreign"]["most"], w["foreign"]["points"] * len(gate.foreign))
        ledger.add("foreign", points, f"spoke of things that are not theirs: “{_quote(text)}”")
    if gate.strangers:
        points = max(w["strangers"]["most"], w["strangers"]["points"] * len(gate.strangers))
        ledger.add("strangers", points, f"named people they do not know: {', '.join(sorted(gate.strangers))[:60]}")


def _anchors(
    ledger: Ledger, w: dict[str, Any], persona: Persona, heard: Heard, dialogue: Dialogue, gate: Gates, warming: float
) -> None:
    """Touch: anchors named for the first time. The dearest counts whole, the next ones less."""
    index = world(persona).anchors
    known = {touch for before in dialogue.earlier_utterances for touch in touched_keys(index, before, persona.language)}
    worth = w["anchors"][persona.need]
    touched = [
        (
            worth[touch.kind]
            * _framed(w, touch, heard)
            * (w["quote"]["share"] if touch.sentence in gate.quoted else 1.0),
            touch,
        )
        for touch in touches(index, dialogue.utterance or "", persona.language)
        if touch.key not in known and heard.sentences[touch.sentence].fluent
    ]
    touched.sort(key=lambda pair: -pair[0])
    for number, (points, touch) in enumerate(touched):
        share = w["saturation"][min(number, len(w["saturation"]) - 1)] if points > 0 else 1.0
        points *= share * gate.own_words * gate.novelty * warming if points > 0 else 1.0
        ledger.add(
            f"anchor:{touch.key}",
            points,
            f"{KIND_IN_WORDS[touch.kind]}: “{_quote(heard.sentences[touch.sentence].text)}”",
        )


def _framed(w: dict[str, Any], touch: Touch, heard: Heard) -> float:
    """1 when the anchor is used for what it is (a deed in praise, an option as a suggestion), less when it is only mentioned."""
    return w["unframed"] if heard.acts.keys().isdisjoint(w["frames"][touch.kind]) else 1.0


def _acts(
    ledger: Ledger,
    w: dict[str, Any],
    persona: Persona,
    heard: Heard,
    earlier: tuple[Remembered, ...],
    gate: Gates,
    warming: float,
) -> None:
    """Fit: what the agent did, by what this need rewards or punishes.

    What is good counts in full only when it takes up what this person told; said to anyone it is worth little, and less each time. What is not
    wanted is not wanted every time.
    """
    fit = w["acts"][persona.need]
    whole = gate.own_words * gate.novelty * warming
    gains = [(w["told_back"][persona.need] * gate.touch * whole, "told_back")]
    for act, text in heard.acts.items():
        points = fit.get(act, 0.0)
        if points > 0 and not _only_in(act, heard, gate.stale | gate.foreign):
            times = sum(act in before.acts for before in earlier)
            meant = gate.touch * w["touch"]["wear"] ** times
            for_anyone = (1 - gate.touch) * w["touch"]["floor"] * w["touch"]["wear_for_anyone"] ** times
            gains.append((points * (meant + for_anyone) * whole, act))
        elif points < 0:
            ledger.add(f"act:{act}", points, f"{ACT_IN_WORDS[act]}, which they do not want: “{_quote(text)}”")
    left = w["act_cap"]
    for points, act in sorted(gains, reverse=True):
        points = min(points, left)
        left -= points
        note = (
            "took up what they had told" if act == "told_back" else f"{ACT_IN_WORDS[act]}: “{_quote(heard.acts[act])}”"
        )
        ledger.add(f"act:{act}", points, note)
    _stage(ledger, w, persona, heard, len(earlier))


def _only_in(act: str, heard: Heard, sentences: frozenset[int]) -> bool:
    """Whether an act is done in none but these sentences."""
    return all(act not in one.acts or number in sentences for number, one in enumerate(heard.sentences))


def _stage(ledger: Ledger, w: dict[str, Any], persona: Persona, heard: Heard, turn: int) -> None:
    """What fits the beginning of a talk: questions do, solutions do not (good human support asks first and suggests later)."""
    if turn < w["asked_first"]["turns"] and heard.acts.keys() & {"question", "invite"}:
        ledger.add("asked_first", w["asked_first"]["points"], "wanted to know more before saying much")
    if turn < w["too_soon"]["turns"] and "advice" in heard.acts and persona.need != "practical_advice":
        ledger.add("too_soon", w["too_soon"]["points"], "had a solution before hearing the story")


def _bad_acts(
    ledger: Ledger, w: dict[str, Any], persona: Persona, heard: Heard, earlier: tuple[Remembered, ...]
) -> None:
    relief = w["relief"].get(persona.need, {})
    for act, points in w["bad_acts"].items():
        if act in heard.acts:
            points *= relief.get(act, 1.0)
            count = min(3, sum(act in sentence.acts for sentence in heard.sentences))
            again = any(act in before.acts for before in earlier)
            ledger.add(
                f"act:{act}",
                points * (1 + 0.5 * (count - 1)) * (1.25 if again else 1),
                f"{ACT_IN_WORDS[act]}: “{_quote(heard.acts[act])}”",
            )


def _shape(ledger: Ledger, w: dict[str, Any], persona: Persona, heard: Heard) -> None:
    shape = w["shape"]
    if heard.word_count < shape["few_words"]:
        ledger.add("short", shape["few"], f"only {heard.word_count} words")
    over = heard.word_count - shape["many_words"]
    if over > 0:
        ledger.add("long", max(shape["most"], over * shape["per_word"]), f"a speech of {heard.word_count} words")
    if heard.list_items >= shape["list_items"]:
        points = shape["list_advice"] if persona.need == "practical_advice" else shape["list"]
        ledger.add("list", points, f"a list of {heard.list_items} points instead of talk")
    if heard.questions >= shape["questions"]:
        ledger.add("interrogation", shape["interrogation"], f"{heard.questions} questions at once")


def _temper(ledger: Ledger, w: dict[str, Any], persona: Persona, emotion: int, dialogue: Dialogue) -> None:
    """Who they are, how the last turn left them, and how they feel now."""
    disposition = persona.person.disposition
    ledger.add(f"temper:{disposition}", w["temper"][disposition], f"their nature: {', '.join(persona.person.traits)}")
    if dialogue.turns:
        ledger.add("momentum", w["momentum"] * dialogue.turns[-1].appraisal.change, "the last turn still works in them")
    ledger.add("mood", w["pull"] * (emotion - 40) / 20, "how they feel colours what they hear")


def _settle(ledger: Ledger, emotion: int) -> None:
    """Round to whole points, keep the change within ±10 and the emotion within its scale; each as a reason."""
    whole = int(abs(ledger.total) + 0.5) * (1 if ledger.total > 0 else -1)
    ledger.add("rounding", whole - ledger.total, "rounded to a whole point")
    clipped = max(-MAX_CHANGE, min(MAX_CHANGE, whole))
    ledger.add("limit", clipped - whole, f"one turn moves them by at most {MAX_CHANGE}")
    kept = moved(emotion, clipped) - emotion
    ledger.add("scale_end", kept - clipped, "the scale ends here")


def _quote(text: str, limit: int = 90) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"
