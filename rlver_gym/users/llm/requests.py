"""From a moment of a dialogue to what is asked of the model.

Pure: equal dialogues give equal requests.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlver_gym.core.dialogue import Appraisal, Dialogue
from rlver_gym.core.emotion import MAX_CHANGE
from rlver_gym.core.languages import Language
from rlver_gym.core.user import Scene
from rlver_gym.llm_client.values import ChatMessage, ChatRequest, make_object_schema
from rlver_gym.users.llm.judgements import CHECKS
from rlver_gym.users.llm.material import MAX_OFFERED
from rlver_gym.users.llm.options import LLMOptions
from rlver_gym.users.llm.profile import (
    Step,
    build_judged_state,
    build_state,
    build_whole_state,
    known_line,
    profile_line,
)
from rlver_gym.users.llm.prompts import Words, fill_prompt, words
from rlver_gym.util.lookalikes import strip_invisible

JUDGED_FIELDS = ("meant_for", *CHECKS, "thought", "feeling", "change")
"""What is asked of an utterance, in this order: what is looked at before what follows from it."""
_SPEAK_FIELDS = ("attitude", "aim", "tone", "reply", "told")
FIELDS: dict[Step, tuple[str, ...]] = {
    "appraise": JUDGED_FIELDS,
    "speak": _SPEAK_FIELDS,
    "both": JUDGED_FIELDS + _SPEAK_FIELDS,
    "open": ("reply",),
}
"""What each step is asked for."""
_CHOICES = {
    "meant_for": ("person", "machine"),
    "took_up": ("none", "side", "point", "deeper"),
    "attitude": ("positive", "neutral", "negative"),
}
_PROMPTS: dict[Step, tuple[str, ...]] = {
    "appraise": ("appraise",),
    "speak": ("speak",),
    "both": ("appraise", "speak", "both"),
    "open": ("open",),
}
_TOKENS_A_REPLY = 300
"""What a judgement more may take of an answer."""
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
        if step == "appraise" and dialogue is not None:
            state = self._judged_state(dialogue)
        else:
            state = build_state(step, self.scene, emotion, self.words, dialogue, appraisal)
        turn = 0 if dialogue is None else len(dialogue.turns) + 1
        return ChatRequest(
            model=(options.speak_model if speaks else None) or self.model,
            messages=self._write(f"{self._instructions(step)}\n\n{self._form(step)}", state),
            temperature=options.temperature if warmer is None else warmer,
            max_tokens=options.max_tokens,
            seed=_derive_seed(self.scene.seed, turn, sample),
            sample=sample,
            schema=schema(FIELDS[step], options.max_field_chars) if options.structured else None,
            options=options.to_body() or None,
        )

    def build_side_by_side(
        self, dialogue: Dialogue, replies: Mapping[str, str], sample: int = 0
    ) -> ChatRequest:
        """One request for several replies, by letter, to what the person said last."""
        state = self._judged_state(dialogue, replies)
        return self._build_many("target_many", state, list(replies), len(dialogue.turns), sample)

    def build_whole(
        self, dialogue: Dialogue, numbers: Sequence[int], sample: int = 0
    ) -> ChatRequest:
        """One request for these utterances of a dialogue, counted from 1; the others are not
        shown.
        """
        withheld = set(range(1, len(dialogue.turns) + 1)) - set(numbers)
        state = build_whole_state(dialogue, self.words, withheld)
        return self._build_many("target_whole", state, list(map(str, numbers)), 0, sample)

    def _build_many(
        self, target: str, state: str, keys: Sequence[str], turn: int, sample: int
    ) -> ChatRequest:
        options = self.options
        form = fill_prompt(
            self.language,
            "form_many",
            replies=_list_keys(keys),
            keys=_list_keys(JUDGED_FIELDS),
            but=self.words.but,
        )
        more = _TOKENS_A_REPLY * (len(keys) - 1)
        return ChatRequest(
            model=self.model,
            messages=self._write(f"{self._instructions('appraise', target)}\n\n{form}", state),
            temperature=options.temperature,
            max_tokens=None if options.max_tokens is None else options.max_tokens + more,
            seed=_derive_seed(self.scene.seed, turn, sample),
            sample=sample,
            schema=self._schema_of_many(keys),
            options=options.to_body() or None,
        )

    def _schema_of_many(self, keys: Sequence[str]) -> dict[str, Any] | None:
        if not self.options.structured:
            return None
        item = schema(JUDGED_FIELDS, self.options.max_field_chars)
        return make_object_schema(dict.fromkeys(keys, item))

    def _judged_state(self, dialogue: Dialogue, replies: Mapping[str, str] | None = None) -> str:
        with_texts = self.options.prompt == "short"
        return build_judged_state(
            self.scene.persona, dialogue, self.words, replies, with_texts=with_texts
        )

    def _write(self, instructions: str, state: str) -> tuple[ChatMessage, ...]:
        return (
            ChatMessage("system", instructions),
            ChatMessage("user", fill_prompt(self.language, "ask", state=state)),
        )

    def repair_some(self, request: ChatRequest, raw: str, missing: Sequence[str]) -> ChatRequest:
        """The same request for the keys that an answer held nothing usable for."""
        keys = _list_keys(missing)
        text = fill_prompt(
            self.language,
            "repair_some",
            reason=f"{self.words.unreadable['incomplete']} {keys}",
            raw=json.dumps(strip_invisible(raw[:_MAX_RAW]), ensure_ascii=False),
            replies=keys,
        )
        messages = (*request.messages, ChatMessage("user", text))
        return replace(request, messages=messages, schema=self._schema_of_many(missing))

    def repair(self, request: ChatRequest, raw: str, code: str) -> ChatRequest:
        """The same request once more, after an answer that could not be used; the answer is shown
        as data.
        """
        shown = json.dumps(strip_invisible(raw[:_MAX_RAW]), ensure_ascii=False)
        text = fill_prompt(self.language, "repair", reason=self.words.unreadable[code], raw=shown)
        return replace(request, messages=(*request.messages, ChatMessage("user", text)))

    def _instructions(self, step: Step, target: str = "target_one") -> str:
        """Who the person is, and what to do.

        The same in every turn, so that servers can keep it.
        """
        difficulty, language = self.scene.card.difficulty, self.language
        who = fill_prompt(
            language,
            "who",
            profile=profile_line(self.scene.persona, self.words),
            difficulty=self.words.difficulty[difficulty],
        )
        is_short = self.options.prompt == "short"
        known = "" if is_short else known_line(self.scene.persona)
        texts = {
            "hints": self.words.hints[difficulty],
            "reached_by": self.words.reached_by[self.scene.persona.need],
            "target": fill_prompt(language, target),
            "facts": f"\n{fill_prompt(language, 'facts', known=known)}\n" if known else "",
        }
        names = ["appraise_short" if is_short and x == "appraise" else x for x in _PROMPTS[step]]
        return "\n\n".join((who, *(fill_prompt(language, name, **texts) for name in names)))

    def _form(self, step: Step) -> str:
        fields, said = FIELDS[step], self.words
        if self.options.structured:
            notes = said.but if "change" in fields else ""
            notes += said.and_told if "told" in fields else ""
            return fill_prompt(self.language, "form_json", keys=_list_keys(fields), but=notes)
        special = {"change": said.change_line, "meant_for": said.meant_for_line}
        special["took_up"] = said.took_up_line
        special["told"] = said.told_line
        lines = [f"{said.labels[one]}: {special.get(one, said.rest_of_line)}" for one in fields]
        return fill_prompt(self.language, "form_text", lines="\n".join(lines))


def schema(fields: Sequence[str], max_chars: int | None = None) -> dict[str, Any]:
    """The JSON schema of an answer with these fields, such as strict servers take; with `max_chars`
    and limits for all values, such as grammars take.
    """
    text: dict[str, Any] = (
        {"type": "string"} if max_chars is None else {"type": "string", "maxLength": max_chars}
    )
    kinds = {field: dict(text) for field in fields}
    if "change" in kinds:
        bounds = {} if max_chars is None else {"minimum": -MAX_CHANGE, "maximum": MAX_CHANGE}
        kinds["change"] = {"type": "integer", **bounds}
    if "told" in kinds:
        bounds = {} if max_chars is None else {"maxItems": MAX_OFFERED}
        kinds["told"] = {"type": "array", "items": dict(text), **bounds}
    for field in _CHOICES.keys() & kinds.keys():
        kinds[field] = {"type": "string", "enum": list(_CHOICES[field])}
    return make_object_schema(kinds)


def _list_keys(keys: Iterable[str]) -> str:
    return ", ".join(f"`{key}`" for key in keys)


def _derive_seed(scene_seed: int, turn: int, sample: int) -> int:
    """A number in [0, 2**31) of its own for every dialogue, turn and sample."""
    digest = hashlib.blake2b(f"{scene_seed}/{turn}/{sample}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1
