"""Answers for a `ChatServer` from the embedded user, so that whole benchmarks of an LLM user run
over real HTTP, offline, with sensible numbers.
"""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from rlver_gym.agents.baselines import Listener
from rlver_gym.core.cards import DEFAULT_ENV, EnvCard, env_card
from rlver_gym.core.dialogue import Appraisal, Dialogue, Message, Turn
from rlver_gym.core.emotion import Band, apply_change
from rlver_gym.core.persona import Persona
from rlver_gym.core.user import Scene
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser
from rlver_gym.users.llm.profile import profile_line
from rlver_gym.users.llm.prompts import LANGUAGES, words
from rlver_gym.users.llm.requests import FIELDS
from rlver_gym.util.errors import UserFailed

_SPEECHLESS = "…"
"""In any language."""


class EmbeddedAnswers:
    """What to answer to a chat request: `ChatServer(EmbeddedAnswers())`. To an `LLMUser` about one
    of the personas as the embedded user feels and speaks, in the form that was asked for; to all
    others as an agent that listens. The same request always gets the same answer.
    """

    def __init__(
        self,
        personas: Iterable[Persona] | None = None,
        card: str | EnvCard = DEFAULT_ENV,
        seed: int = 0,
    ) -> None:
        """`personas`: None for all that are shipped. `seed` chooses among their lines."""
        self._card, shipped = env_card(card), library()
        known = [shipped.get(one) for one in shipped.ids()] if personas is None else personas
        self._personas = {
            profile_line(one, words(language, is_chat=self._card.is_chat)): one
            for one in known
            for language in LANGUAGES
        }
        self._by_id = {one.id: one for one in self._personas.values()}
        self._seed = seed
        self._user = EmbeddedUser()
        self._felt = lru_cache(maxsize=4_096)(self._replay_dialogue)

    def __call__(self, body: Mapping[str, Any]) -> str:
        """The text of the answer. KeyError for a body without messages."""
        messages = [(message["role"], str(message["content"])) for message in body["messages"]]
        persona = next(
            (self._personas[line] for line in messages[0][1].split("\n") if line in self._personas),
            None,
        )
        if messages[0][0] != "system" or persona is None:
            return Listener(self._seed).reply(_to_agent_messages(messages))
        state = next(
            json.loads(line) for line in messages[1][1].split("\n") if line.startswith('{"step"')
        )
        answer = self._answer(persona, state)
        if "response_format" in body:
            return json.dumps(answer, ensure_ascii=False)
        return "\n".join(f"{name.capitalize()}: {value}" for name, value in answer.items())

    def _answer(self, persona: Persona, state: dict[str, Any]) -> dict[str, Any]:
        scene, step = Scene(persona, self._card, self._seed), state["step"]
        lines = tuple(line["text"] for line in state["conversation"])
        if not lines:
            return {"reply": self._user.open(scene, state["mood_points"]) or _SPEECHLESS}
        if step == "whole":
            numbers = range(1, len(lines), 2)
            return {str(x // 2 + 1): self._judge(persona, lines[: x + 1]) for x in numbers}
        if "replies" in state:
            replies = state["replies"].items()
            return {key: self._judge(persona, (*lines, text)) for key, text in replies}
        dialogue, appraisal, emotion = self._felt(persona.id, lines)
        answer = self._judge(persona, lines) | {
            "attitude": "neutral",
            "aim": "go on",
            "tone": "their own",
        }
        if "reply" in FIELDS[step]:
            if step == "speak":
                emotion = state["mood_points"]
            answer["reply"] = reply = self._speak(scene, emotion, dialogue, appraisal)
            told, tone = persona.situation.disclosures, Band.of(emotion).tone
            answer["told"] = [one.id for one in told if one.in_tone(tone) in reply]
        return {name: answer[name] for name in FIELDS[step]}

    def _judge(self, persona: Persona, lines: tuple[str, ...]) -> dict[str, Any]:
        appraisal = self._felt(persona.id, lines).appraisal
        strongest = max(appraisal.reasons, key=lambda reason: abs(reason.points), default=None)
        return {
            "meant_for": "person",
            "took_up": "point" if appraisal.change > 0 else "none",
            "wrong": "",
            "again": "",
            "new": strongest.note if strongest else "nothing in particular",
            "thought": appraisal.thought,
            "feeling": "better than before" if appraisal.change > 0 else "no better than before",
            "change": appraisal.change,
        }

    def _speak(self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal) -> str:
        try:
            return self._user.speak(scene, emotion, dialogue, appraisal)
        except UserFailed:  # a profile without lines
            return _SPEECHLESS

    def _replay_dialogue(self, persona_id: str, lines: tuple[str, ...]) -> "_DialogueState":
        scene = Scene(self._by_id[persona_id], self._card, self._seed)
        if len(lines) == 2:
            dialogue, emotion = Dialogue(lines[0]).with_utterance(lines[1]), self._card.start
        else:
            before, appraisal, emotion = self._felt(persona_id, lines[:-2])
            reward = float(appraisal.change)
            turn = Turn(lines[-3], appraisal, emotion, reward, None, lines[-2])
            dialogue = before.with_turn(turn).with_utterance(lines[-1])
        appraisal = self._user.appraise(scene, emotion, dialogue)
        return _DialogueState(dialogue, appraisal, apply_change(emotion, appraisal.change))


class _DialogueState(NamedTuple):
    """A dialogue up to an utterance, what that did, and the emotion after it."""

    dialogue: Dialogue
    appraisal: Appraisal
    after: int


def _to_agent_messages(messages: list[tuple[str, str]]) -> list[Message]:
    said = (one for one in messages if one[0] != "system")
    return [Message("agent" if role == "assistant" else "user", text) for role, text in said]
