"""Speak: the person's answer. What is wrong is put right, what was asked is answered, else a reaction
by the true reason comes first; then what comes next in the story. Never the same sentence twice.
"""

import hashlib
from collections.abc import Sequence

from rlver_gym.core.dialogue import Appraisal, Dialogue, Reason, ReasonCode
from rlver_gym.core.emotion import Band, Outcome
from rlver_gym.core.persona import Disposition
from rlver_gym.core.user import Scene, disclosure_depth
from rlver_gym.core.words import split_sentences, split_words
from rlver_gym.users.embedded.compile import compile_card
from rlver_gym.users.embedded.english import DATA, SCALE
from rlver_gym.users.embedded.hear import asks_preference
from rlver_gym.users.embedded.names import add_introductions
from rlver_gym.users.embedded.recall import recall
from rlver_gym.users.embedded.retrieve import (
    find_suggestion,
    find_whom,
    rank_answers,
    read_line,
    was_said,
    weigh_tokens,
)
from rlver_gym.users.embedded.rules import find_wrong
from rlver_gym.users.embedded.typed import apply_typing_style
from rlver_gym.util.files import load_json

PHRASES: dict = load_json(DATA, "phrases.json")
REACTIONS: dict[str, str] = load_json(DATA, "reactions.json")
"""By the note of a reason, or by its code, a field of `rlver_gym.core.persona.Manner`."""
STANDS_FOR: dict[str, str] = REACTIONS["stands_for"]  # type: ignore[assignment]
_ALONE = frozenset(("hurt", "belittled", "puzzled", "repeated", "machine", "foreign"))
_SILENT = frozenset((ReasonCode.WHOLE, ReasonCode.ROUNDING, ReasonCode.LIMIT, ReasonCode.SCALE_END))
_BRIEF, _REACTS, _HINTS, _MOST_HINTS = 10, 0.35, 0.25, 3
_BY_PLACE, _BY_CHANCE, _NEAR = 0.3, 4.0, 6.5
"""Nats that each place further down the card's order costs, how far chance moves, and from where on
something lies near to what was said.
"""
_UNIT = float(SCALE * SCALE)


def compose_opening(scene: Scene, emotion: int) -> str:
    said = scene.persona.situation.openings.in_tone(Band.of(emotion).tone)
    return apply_typing_style(scene.persona, add_introductions(scene.persona.situation, said, ""))


def choose_thought(
    scene: Scene, dialogue: Dialogue, reasons: tuple[Reason, ...], change: int
) -> str:
    """What the person thinks and does not say; empty when they have thought all that they have."""
    kind = "touched" if change >= 4 else "eased" if change > 0 else "missed"
    if change <= 0:
        codes = {reason.code for reason in reasons if reason.points < 0}
        if change <= -7:
            kind = "hurt"
        elif codes & {ReasonCode.NONSENSE, ReasonCode.BROKEN, ReasonCode.SILENCE}:
            kind = "puzzled"
        elif change > -3:
            kind = "cold"
    had = {turn.appraisal.thought for turn in dialogue.turns}
    others = ("eased", "touched") if change > 0 else ("missed", "cold", "puzzled")
    for each in (kind, *others):
        fresh = [line for line in getattr(scene.persona.person.thoughts, each) if line not in had]
        if fresh:
            return fresh[int(draw_uniform(scene, len(dialogue.turns), "thought", "") * len(fresh))]
    return ""


def draw_uniform(scene: Scene, turn: int, purpose: str, text: str) -> float:
    """A number in [0, 1), the same on every machine."""
    key = f"{scene.seed}/{scene.persona.id}/{turn}/{purpose}/{text[:200]}"
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big") / 2**64


def compose_reply(scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal) -> str:
    return _Speaker(scene, emotion, dialogue, appraisal).reply()


class _Speaker:
    """One person about to answer."""

    def __init__(
        self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal
    ) -> None:
        self.scene, self.emotion, self.dialogue, self.appraisal = (
            scene,
            emotion,
            dialogue,
            appraisal,
        )
        self.moment = recall(compile_card(scene.persona), dialogue)
        self.card, self.heard = self.moment.card, self.moment.heard
        self.manner = scene.persona.person.manner
        self.turn = len(dialogue.turns)
        self.tone = Band.of(emotion).tone
        self.depth = disclosure_depth(emotion, appraisal.change, self.turn)

    def reply(self) -> str:
        outcome = self.scene.card.outcome(self.emotion, self.turn + 1)
        if outcome is Outcome.CONTENT or outcome is Outcome.LEFT:
            lines = (
                self.manner.goodbye_content
                if outcome is Outcome.CONTENT
                else self.manner.goodbye_left
            )
            return self._join([self._pick("goodbye", lines)])
        for act, manner in (("silence", "silence"), ("foreign", "foreign"), ("shouts", "shouted")):
            if act in self.heard.acts:
                return self._join(self._react(manner))
        parts = self._greet()
        if parts is None:
            correction = self._correct()
            answers = [] if correction else self._answer()
            parts = correction or answers or [*self._react_by_reason(), *self._go_on()]
        return self._join(parts)

    # Reactions.

    def _greet(self) -> list[str] | None:
        """To a greeting, thanks, an apology or a goodbye and not much else."""
        if self.heard.asks or len(self.heard.words) > 14:
            return None
        acts = {one.act for one in self.heard.sentences}
        for act, manner in _COURTESIES.items():
            if act in acts:
                more = self._go_on() if act != "bye" and self.emotion >= 20 else []
                return [*self._react(manner), *more]
        return None

    def _react(self, manner: str) -> list[str]:
        lines = getattr(self.manner, manner) or getattr(self.manner, STANDS_FOR.get(manner, "cold"))
        fresh = [line for line in lines if not was_said(self.moment, line)]
        return [self._pick(manner, fresh)] if fresh else []

    def _find_manner(self) -> str:
        """The manner that answers the strongest reason that points where the change does."""
        change = self.appraisal.change
        told = [
            one
            for one in self.appraisal.reasons
            if (one.code not in _SILENT and one.points * change > 0 and ":" not in one.code[:7])
            or one.code.startswith("prior:")
        ]
        if not told or not change:
            return ""
        worst = max(told, key=lambda one: abs(one.points))
        manner = REACTIONS.get(worst.note) or REACTIONS.get(worst.code, "")
        if manner == "suggested":
            return "pushed" if change <= -3 else "suggested"
        return manner

    def _react_by_reason(self) -> list[str]:
        for at, one in enumerate(self.heard.sentences):
            if one.suggests or one.act == "advise":
                topic = find_suggestion(self.moment, at)
                if topic is not None:
                    fresh = self._fresh(self.card.topics[topic].lines)
                    if fresh:
                        return [fresh[0]]
        manner = self._find_manner()
        if not manner or (abs(self.appraisal.change) < 2 and self._draw("react") > _REACTS):
            return []
        said = self._react(manner)
        self.is_done = manner in _ALONE and bool(said)
        return said

    is_done = False

    # Answers.

    def _correct(self) -> list[str]:
        wrong = find_wrong(self.moment)
        if wrong is None:
            return []
        kind = "right_name" if wrong.name == "name" else "right_value"
        said = self._phrase(kind, right=wrong.right, said=wrong.said)
        openers = self._fresh(self.manner.corrects or PHRASES["correct_first"])
        return [*openers[:1], *said] if said else []

    def _answer(self) -> list[str]:
        """Answers to the questions, at most two, in their order."""
        parts: list[str] = []
        asked = [at for at, one in enumerate(self.heard.sentences) if one.ask]
        for at in asked[-3:]:
            said = self._answer_one(at)
            if said and said not in parts and len(parts) < 2:
                parts.append(said)
        if parts:
            if len(split_words(" ".join(parts))) <= _BRIEF and self._draw("hint") < _HINTS:
                parts += self._hint()
            return parts
        return self._decline(asked[-1]) if asked else []

    def _answer_one(self, at: int) -> str:
        sentence = self.heard.sentences[at]
        if asks_preference(sentence.text):
            is_veiled = self.scene.persona.person.disposition is Disposition.AVOIDANT
            lines = PHRASES["preference_veiled" if is_veiled else "preference"]
            fresh = self._fresh(lines[self.scene.persona.need])
            return self._pick("preference", fresh) if fresh else ""
        personal = self._answer_about_self(sentence.text.lower())
        if personal:
            return personal
        for one in rank_answers(self.moment, at):
            topic = self.card.topics[one.topic]
            if topic.depth > self.depth + 1 and self.emotion < 30:
                continue
            lines = self._wordings(one.topic)
            if topic.kind not in ("fact", "disclosure", "background"):
                lines = [topic.lines[one.line], *lines]
            fresh = self._fresh(lines)
            if fresh:
                return fresh[0]
        return ""

    def _answer_about_self(self, text: str) -> str:
        person = self.scene.persona.person
        if "your name" in text or "who am i talking" in text or "call you" in text:
            return PHRASES["name"][0].format(name=person.name)
        if "how old are you" in text or "your age" in text:
            return PHRASES["age"][0].format(age=person.age)
        return ""

    def _decline(self, at: int) -> list[str]:
        """Nothing on the card answers it: what lies near is told, and once it is said that they do
        not know.
        """
        sentence = self.heard.sentences[at]
        near = self._disclose(_NEAR)
        if near or sentence.act in ("more", "happened", "listen") or not sentence.tokens:
            return near or self._go_on()
        unknown = self.manner.unknown or PHRASES["no_answer"]
        if sentence.ask in _FACTUAL and not any(was_said(self.moment, one) for one in unknown):
            return [self._pick("unknown", unknown), *self._go_on()]
        return [*self._react("asked"), *self._go_on()]

    # What comes next.

    def _go_on(self) -> list[str]:
        if self.is_done:
            return []
        chance = 0.35 if self.turn == 0 or self.appraisal.change <= 0 else 0.2
        if self._draw("hint") < chance:
            hint = self._hint()
            if hint:
                return hint
        return self._disclose(-1e9) or self._tell_more()

    def _hint(self) -> list[str]:
        hints = self.scene.persona.situation.hints.of(self.scene.persona.need)
        fresh = self._fresh(hints)
        if not fresh or len(hints) - len(fresh) >= _MOST_HINTS:
            return []
        return [self._pick("hint", fresh)]

    def _disclose(self, least: float) -> list[str]:
        """The untold piece of the story that lies nearest to what was said; of a lean card, the
        next one where none lies near.
        """
        card, heard = self.card, self.heard
        spoken, before = heard.tokens, self.moment.past.last.tokens - heard.tokens
        is_in_order = self.scene.persona.situation.is_lean
        whom = find_whom(self.moment, heard.words)
        best, found, place = least, "", 0
        for number in card.disclosures:
            topic = card.topics[number]
            line = self._wordings(number)[0]
            if topic.depth > self.depth or was_said(self.moment, topic.lines[0]):
                continue
            own = read_line(topic.lines[0]).tokens
            like = float(card.lines[card.line_starts[number]] @ heard.vectors[-1]) / _UNIT
            near = weigh_tokens(card, spoken & own) + 2.5 * like + 2.0 * bool(whom and whom in line)
            if least > 0:
                value = near
            elif is_in_order:
                value = near * (near >= _NEAR) - _BY_PLACE * place
            else:
                value = near - _BY_PLACE * place + 0.4 * weigh_tokens(card, before & own)
                value += _BY_CHANCE * self._draw(f"tell {topic.key}")
            place += 1
            if value > best and not was_said(self.moment, line):
                best, found = value, line
        return [found] if found else []

    def _tell_more(self) -> list[str]:
        """Something beside the story, where all of it was told."""
        for topic in self.card.topics:
            if topic.kind in ("thread", "fact") and topic.depth <= self.depth:
                fresh = [one for one in self._fresh(topic.lines) if len(one.split()) >= 6]
                if fresh and not topic.is_personal:
                    return fresh[:1]
        return []

    # Lines.

    def _wordings(self, number: int) -> list[str]:
        topic = self.card.topics[number]
        toned = {"high": topic.toned[0], "low": topic.toned[1]}.get(self.tone)
        return [*([toned] if toned else []), *topic.lines]

    def _fresh(self, lines: Sequence[str]) -> list[str]:
        return [line for line in lines if not was_said(self.moment, line)]

    def _phrase(self, name: str, **given: str) -> list[str]:
        lines = [line.format(**given) for line in PHRASES[name]]
        fresh = self._fresh([line[:1].upper() + line[1:] for line in lines])
        return [self._pick(name, fresh)] if fresh else []

    def _draw(self, purpose: str) -> float:
        return draw_uniform(self.scene, self.turn, purpose, self.heard.text)

    def _pick(self, purpose: str, lines: Sequence[str]) -> str:
        return lines[int(self._draw(purpose) * len(lines)) % len(lines)]

    def _join(self, parts: Sequence[str]) -> str:
        """The parts as one text, names introduced, without a sentence that was said before."""
        fresh: list[str] = []
        for part in parts:
            for sentence in split_sentences(part):
                is_long = len(split_words(sentence)) > 3
                if sentence not in fresh and not (is_long and was_said(self.moment, sentence)):
                    fresh.append(sentence)
        if not fresh:
            fresh = self._phrase("last") or ["…"]
        said = "\n".join(
            (
                *self.dialogue.user_lines,
                *self.dialogue.earlier_utterances,
                self.heard.text,
            )
        )
        text = add_introductions(self.scene.persona.situation, " ".join(fresh), said)
        return apply_typing_style(self.scene.persona, text)


_COURTESIES = {"greet": "greets", "thanks": "thanked", "sorry": "apologised", "bye": "farewell"}
_FACTUAL = frozenset(
    (
        "who",
        "when",
        "where",
        "how long",
        "how many",
        "how old",
        "how much",
        "how often",
        "what time",
    )
)
