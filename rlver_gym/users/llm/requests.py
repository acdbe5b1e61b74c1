"""From a moment of a dialogue to what is asked of the model.

Pure: equal dialogues give equal requests.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

from rlver_gym.core.dialogue import Appraisal, Dialogue
from rlver_gym.core.emotion import MAX_CHANGE
from rlver_gym.core.languages import Language
from rlver_gym.core.user import Scene
from rlver_gym.llm_client.values import ChatMessage, ChatRequest
from rlver_gym.users.llm.material import MAX_OFFERED
from rlver_gym.users.llm.options import LLMOptions
from rlver_gym.users.llm.profile import Step, build_state, profile_line
from rlver_gym.users.llm.prompts import Words, fill_prompt, words
from rlver_gym.util.lookalikes import strip_invisible

_APPRAISE_FIELDS = ("meant_for", "reading", "fit", "thought", "feeling", "change")
_SPEAK_FIELDS = ("attitude", "aim", "tone", "reply", "told")
FIELDS: dict[Step, tuple[str, ...]] = {
    "appraise": _APPRAISE_FIELDS,
    "speak": _SPEAK_FIELDS,
    "both": _APPRAISE_FIELDS + _SPEAK_FIELDS,
    "open": ("reply",),
}
"""What each step is asked for, in this order: reasons before what follows from them."""
_CHOICES = {"meant_for": ("person", "machine"), "attitude": ("positive", "neutral", "negative")}
_PROMPTS: dict[Step, tuple[str, ...]] = {
    "appraise": ("appraise",),
    "speak": ("speak",),
    "both": ("appraise", "speak", "both"),
    "open": ("open",),
}
_MAX_RAW = 2_000
"""How much of an unusable answer is shown again."""


@dataclass(frozen=True)
class RequestBuilder:
    """Writes the requests of one user in one scene."""

    model: str
    options: LLMOptions
    scene: Scene

    @property
    def language(self) -> Language:
        return self.options.language or self.scene.persona.language

    @property
    def words(self) -> Words:
        return words(self.language, is_chat=self.scene.card.is_chat)

    def build(
        self,
        step: Step,
        emotion: int,
        dialogue: Dialogue | None = None,
        appraisal: Appraisal | None = None,
        sample: int = 0,
    ) -> ChatRequest:
        """What is asked for a step of a dialogue, which "open" has none of yet; "speak" follows an
        appraisal. `sample`: which of several judgements is meant.
        """
        options, speaks = self.options, step in ("speak", "open")
        warmer = options.speak_temperature if speaks else None
        state = build_state(step, self.scene, emotion, self.words, dialogue, appraisal)
        turn = 0 if dialogue is None else len(dialogue.turns) + 1
        return ChatRequest(
            model=(options.speak_model if speaks else None) or self.model,
            messages=(
                ChatMessage("system", self._instructions(step)),
                ChatMessage("user", fill_prompt(self.language, "ask", state=state)),
            ),
            temperature=options.temperature if warmer is None else warmer,
            max_tokens=options.max_tokens,
            seed=_derive_seed(self.scene.seed, turn, sample),
            sample=sample,
            schema=schema(step, options.max_field_chars) if options.structured else None,
            options=options.to_body() or None,
        )

    def repair(self, request: ChatRequest, raw: str, code: str) -> ChatRequest:
        """The same request once more, after an answer that could not be used; the answer is shown
        as data.
        """
        shown = json.dumps(strip_invisible(raw[:_MAX_RAW]), ensure_ascii=False)
        text = fill_prompt(self.language, "repair", reason=self.words.unreadable[code], raw=shown)
        return replace(request, messages=(*request.messages, ChatMessage("user", text)))

    def _instructions(self, step: Step) -> str:
        """Who the person is, what to do, and in which form to answer.

        The same in every turn, so that servers can keep it.
        """
        difficulty = self.scene.card.difficulty
        who = fill_prompt(
            self.language,
            "who",
            profile=profile_line(self.scene.persona, self.words),
            difficulty=self.words.difficulty[difficulty],
        )
        texts = {
            "hints": self.words.hints[difficulty],
            "reached_by": self.words.reached_by[self.scene.persona.need],
        }
        what = [fill_prompt(self.language, name, **texts) for name in _PROMPTS[step]]
        return "\n\n".join((who, *what, self._form(step)))

    def _form(self, step: Step) -> str:
        fields, said = FIELDS[step], self.words
        if self.options.structured:
            notes = said.but if "change" in fields else ""
            notes += said.and_told if "told" in fields else ""
            keys = ", ".join(f"`{field}`" for field in fields)
            return fill_prompt(self.language, "form_json", keys=keys, but=notes)
        special = {"change": said.change_line, "meant_for": said.meant_for_line}
        special["told"] = said.told_line
        lines = [f"{said.labels[one]}: {special.get(one, said.rest_of_line)}" for one in fields]
        return fill_prompt(self.language, "form_text", lines="\n".join(lines))


def schema(step: Step, max_chars: int | None = None) -> dict[str, Any]:
    """The JSON schema of a step's answer, such as strict servers take; with `max_chars` and limits
    for all values, such as grammars take.
    """
    text: dict[str, Any] = (
        {"type": "string"} if max_chars is None else {"type": "string", "maxLength": max_chars}
    )
    kinds = {field: dict(text) for field in FIELDS[step]}
    if "change" in kinds:
        bounds = {} if max_chars is None else {"minimum": -MAX_CHANGE, "maximum": MAX_CHANGE}
        kinds["change"] = {"type": "integer", **bounds}
    if "told" in kinds:
        bounds = {} if max_chars is None else {"maxItems": MAX_OFFERED}
        kinds["told"] = {"type": "array", "items": dict(text), **bounds}
    for field in _CHOICES.keys() & kinds.keys():
        kinds[field] = {"type": "string", "enum": list(_CHOICES[field])}
    return {
        "type": "object",
        "properties": kinds,
        "required": list(kinds),
        "additionalProperties": False,
    }


def _derive_seed(scene_seed: int, turn: int, sample: int) -> int:
    """A number in [0, 2**31) of its own for every dialogue, turn and sample."""
    digest = hashlib.blake2b(f"{scene_seed}/{turn}/{sample}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1
