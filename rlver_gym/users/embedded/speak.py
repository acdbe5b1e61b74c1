"""Speak: the person's answer, in named steps: what the words do, what they ask, what is wrong in them, a reaction, what comes next, a hint. Never the same sentence twice."""

import re
from collections.abc import Sequence

from rlver_gym.conversation.names import introduce, without_introductions
from rlver_gym.conversation.parse import Parsed, gives_advice, parse_utterance
from rlver_gym.dialogue import Appraisal, Dialogue, Reason
from rlver_gym.emotion import Band, Outcome, Tone
from rlver_gym.persona import Manner
from rlver_gym.users.base import Scene
from rlver_gym.users.embedded.answer import (
    Found,
    Heard,
    asks_for_the_inner,
    best_wording,
    is_invitation,
    is_told,
    says_yes_or_no,
    take_in,
    truth_of,
    wordings,
    yes_or_no,
)
from rlver_gym.users.embedded.choose import choose, draw
from rlver_gym.users.embedded.hear import hear
from rlver_gym.users.embedded.lines import cut, each_cut
from rlver_gym.users.embedded.react import choose_reaction, manner_of_act
from rlver_gym.users.embedded.reactions import reaction_to
from rlver_gym.users.embedded.tell import tell_next
from rlver_gym.users.trust import disclosure_depth
from rlver_gym.words import content, split_words

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
_PLAIN = {
    "greets": "puzzled", "thanked": "cold", "apologised": "cold", "shouted": "hurt", "foreign": "puzzled", "silence": "puzzled", "farewell": "goodbye_content",
    "unknown": "puzzled", "not_yet": "cold",
}  # fmt: skip
"""Which older manner stands in where a card has none of a newer one."""
_NO = ("No.", "No, that's not right.")
_AGAIN = ("As I said", "Like I said")
_MOST_HINTS = 3
_FULL = 100
"""Characters after which nothing is added."""
_LONG = 14
"""Words of an answer after which nothing more is told."""
_OF_ONE_CASE = re.compile(r"\b(?:is|isn't|was|wasn't|did|didn't|were|it|way|round|this)\b", re.IGNORECASE)
"""A line of yes, no or correction that fits only some questions."""


def thought(scene: Scene, dialogue: Dialogue, reasons: tuple[Reason, ...], change: int) -> str:
    """What the person thinks and does not say; empty when they have thought all that they have."""
    kind = _THOUGHT_OF[reaction_to(reasons, change)]
    if kind in ("touched", "eased") or change > 0:
        kind = "touched" if change >= 4 else "eased" if change > 0 else "missed"
    had = {turn.appraisal.thought for turn in dialogue.turns}
    others = ("eased", "touched") if change > 0 else ("missed", "cold", "puzzled")
    for each in (kind, *others):
        fresh = [line for line in getattr(scene.persona.person.thoughts, each) if line not in had]
        if fresh:
            return choose(scene, len(dialogue.turns), "thought", (), fresh)
    return ""


def opening(scene: Scene, emotion: int) -> str:
    """The first words, in the tone of the start emotion."""
    said = scene.persona.situation.openings.said(Band.of(emotion).tone)
    return introduce(scene.persona.situation, said, "")


def answer(scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal) -> str:
    """What they say: answers, corrections, a reaction, what they tell next, a hint at the need; or goodbye."""
    speech = _Speech(scene, emotion, dialogue, appraisal)
    outcome = scene.card.outcome(emotion, len(dialogue.turns) + 1)
    if outcome is Outcome.CONTENT or outcome is Outcome.LEFT:
        speech.take_leave(outcome)
    elif not speech.answer_the_act():
        speech.correct()
        speech.answer_questions()
        speech.react()
        speech.tell()
        speech.hint()
    return speech.text()


class _Speech:
    """One answer while it is put together. `parts` grow step by step."""

    def __init__(self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal) -> None:
        self.scene, self.emotion, self.dialogue, self.appraisal = scene, emotion, dialogue, appraisal
        self.tone: Tone = Band.of(emotion).tone
        self.turn = len(dialogue.turns)
        self.utterance = dialogue.utterance or ""
        self.words = split_words(self.utterance[:2_000])
        self.parsed: Parsed = parse_utterance(self.utterance)
        self.manner: Manner = scene.persona.person.manner
        situation = scene.persona.situation
        self.said = frozenset().union(
            *[
                cut(text).folded
                for line in dialogue.user_lines
                for text in {line, without_introductions(situation, line)}
            ]
        )
        self.parts: list[str] = []
        self.is_done = False
        """Whether nothing more is told this time."""

    @property
    def depth(self) -> int:
        """How deep they tell: 1 to anyone, 2 when heard, 3 when trusted."""
        return disclosure_depth(self.emotion, self.appraisal.change, self.turn)

    def take_leave(self, outcome: Outcome) -> None:
        """Say goodbye, having got what they came for or having had enough."""
        goodbyes = self.manner.goodbye_content if outcome is Outcome.CONTENT else self.manner.goodbye_left
        reaction = choose_reaction(self.appraisal, self._done(), suggests=self._suggests())
        if reaction:
            self._say(reaction)
        self.parts.append(self._choose("goodbye", goodbyes))

    def answer_the_act(self) -> bool:
        """Answer silence, a greeting, a farewell and their kind; whether that was all there is to answer."""
        manner = manner_of_act(self.parsed, self.parsed.word_count > 12 or self.parsed.wants_more)
        if manner is None and not self.parsed.questions and self._hurts():
            manner = "hurt"
        if manner is None:
            return False
        self._say(manner)
        if manner in ("greets", "apologised", "thanked") and self.emotion >= 25:
            self.tell()
        return True

    def _hurts(self) -> bool:
        done = self._done()
        return self.appraisal.change < 0 and max(done.get("insult", 0.0), done.get("threat", 0.0)) >= 0.6

    def _done(self) -> dict[str, float]:
        """How surely each act was heard in the utterance."""
        if self.scene.persona.language != "en":
            return {code.removeprefix("act:"): 1.0 for code, _, _ in self.appraisal.reasons}
        found: dict[str, float] = {}
        for sentence in hear(self.utterance).sentences:
            for act, sure in sentence.sure.items():
                found[act] = max(sure, found.get(act, 0.0))
        return found

    def _suggests(self) -> bool:
        return self.parsed.suggests or (not self.parsed.questions and gives_advice(self.utterance))

    def _heard(self) -> Heard:
        return take_in(self.scene.persona, self.parsed, self.dialogue, self.said)

    def correct(self) -> None:
        """Put right what is wrong about their story."""
        self.heard = self._heard()
        mistake = self.heard.mistake
        if mistake is None:
            return
        truth = truth_of(self.scene.persona, mistake, self.tone)
        if not truth:
            return
        frames = _general(self.manner.corrects) or _NO
        self.parts.append(self._choose("corrects", self._unsaid(frames) or self._unsaid(_NO) or ["No."]))
        self.parts.append(truth)
        self.is_done = True

    def answer_questions(self) -> None:
        """Answer what was asked, or say that they don't know or won't say."""
        for found in self.heard.answers:
            if found.match is None:
                self._decline(found)
            elif found.match.entry.depth > self.depth + 1 or (self.emotion < 15 and found.match.entry.depth > 1):
                self._say("not_yet")
                self.is_done = True
            else:
                self._give(found)

    def _give(self, found: Found) -> None:
        assert found.match is not None
        ways = wordings(found.match.entry, self.tone)
        persona = self.scene.persona
        fresh = [text for text in ways if not is_told(persona, text, self.said) and text not in self.parts]
        if fresh:
            text = self._choose("answer", best_wording(persona, found.question, fresh))
        else:
            again = [
                f"{frame.rstrip(',:.')}: {_first_sentence(ways[-1])}" for frame in self.manner.asked_again or _AGAIN
            ]
            text = self._choose("asked again", self._unsaid(again) or again)
        if found.verdict is not None and not says_yes_or_no(text) and self.heard.mistake is None:
            plain = yes_or_no(found, text)
            if plain is not None:
                lines = _general(self.manner.yes if plain else self.manner.no) or (("Yes.",) if plain else ("No.",))
                self._say_one_of("yes or no", lines)
        self.parts.append(text)
        self.is_done = len(split_words(text)) >= _LONG or self._chance("after an answer") < 0.85

    def _decline(self, found: Found) -> None:
        verdict = found.verdict
        if found.question.is_guess and self.heard.mistake is not None:
            return
        if found.question.is_guess or self.parsed.wants_more:
            if verdict is not None and yes_or_no(found, ""):
                self._say_one_of("yes or no", _general(self.manner.yes) or ("Yes.",))
            return
        if self.parts or is_invitation(found.question):
            return
        if asks_for_the_inner(found.question):
            self.hint(0.7)
            return
        self._say("not_yet" if {"you", "your"} & set(found.question.words) else "unknown")
        self.is_done = self._chance("after not knowing") < 0.5

    def react(self) -> None:
        """A line that fits what the agent did, unless there was something to answer."""
        if self.parts:
            return
        manner = choose_reaction(self.appraisal, self._done(), suggests=self._suggests())
        if manner:
            self._say(manner)
            self.is_done = manner == "hurt" or (manner in ("puzzled", "repeated") and self.emotion < 25)

    def tell(self) -> None:
        """Go on telling, from what is nearest to what was spoken about."""
        if self.is_done:
            return
        spoken = (*self.words, *split_words(self.dialogue.user_lines[-1]), *split_words(" ".join(self.parts)))
        if sum(map(len, self.parts)) > _FULL:
            return
        told = tell_next(self.scene, self.turn, spoken, self.depth, self.said, self.tone)
        if told and not self._is_in_parts(told):
            self.parts.append(told)

    def _is_in_parts(self, told: str) -> bool:
        """Whether most of it was just said in other words."""
        about = content(told)
        return len(about & content(" ".join(self.parts))) >= 0.4 * len(about)

    def hint(self, chance: float | None = None) -> None:
        """Let the need show: rather when they feel missed, never in every turn. `chance`: of this time."""
        hints = self.scene.persona.situation.hints.of(self.scene.persona.need)
        given = sum(not self.said.isdisjoint(folded) for _, folded, _ in each_cut(hints))
        if chance is None:
            chance = 0.45 if self.turn == 0 or self.appraisal.change <= 0 else 0.2
        if (
            given < _MOST_HINTS
            and sum(map(len, self.parts)) < 220
            and not self.is_done
            and self._chance("hint") < chance
        ):
            self._say_one_of("hint", hints)

    def text(self) -> str:
        """The parts as one text, names introduced, without any sentence that was said before."""
        once = {folded: sentence for part in reversed(self.parts) for folded, sentence in cut(part).backwards}
        fresh = [sentence for folded, sentence in reversed(once.items()) if folded not in self.said]
        if not fresh:
            lines = [line for line in _LAST_RESORT if line.casefold() not in self.said]
            return self._choose("last", lines) if lines else "…"
        heard = "\n".join([*self.dialogue.user_lines, *self.dialogue.earlier_utterances, self.utterance])
        return introduce(self.scene.persona.situation, " ".join(fresh), heard)

    def _say(self, manner: str) -> None:
        """A line of that manner that was not said yet, or of the one that stands in for it."""
        lines = getattr(self.manner, manner) or getattr(self.manner, _PLAIN.get(manner, manner))
        self._say_one_of(manner, lines)

    def _say_one_of(self, purpose: str, lines: Sequence[str]) -> None:
        unused = self._unsaid(lines)
        if unused:
            self.parts.append(self._choose(purpose, unused))

    def _unsaid(self, lines: Sequence[str]) -> list[str]:
        return [text for text, folded, _ in each_cut(tuple(lines)) if self.said.isdisjoint(folded)]

    def _choose(self, purpose: str, lines: Sequence[str]) -> str:
        return choose(self.scene, self.turn, purpose, self.words, lines)

    def _chance(self, purpose: str) -> float:
        return draw(self.scene, self.turn, purpose, self.words)


def _general(lines: tuple[str, ...]) -> tuple[str, ...]:
    """The lines that fit any question."""
    return tuple(line for line in lines if not _OF_ONE_CASE.search(line))


def _first_sentence(text: str) -> str:
    return cut(text).backwards[-1][1] if cut(text).backwards else text
