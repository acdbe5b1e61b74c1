"""RLVER's capabilities of dialogues, by a language model that sees the words alone."""

import asyncio
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

from rlver_gym.answers.fields import Vocabulary, read_fields
from rlver_gym.bench.judge.answer import (
    Judgement,
    UnusableAnswer,
    format_field_name,
    read_judgement,
)
from rlver_gym.core.capabilities import HIGHEST, JUDGED, LOWEST
from rlver_gym.core.dialogue import Message
from rlver_gym.llm_client.body_fields import BodyFields
from rlver_gym.llm_client.values import Chat, ChatMessage, ChatRequest, make_object_schema
from rlver_gym.users.llm import LLMOptions, find_judge_address, words
from rlver_gym.util.errors import STOPPING, ChatError
from rlver_gym.util.event_loop import run_many
from rlver_gym.util.json_text import dump_line
from rlver_gym.util.lookalikes import strip_invisible
from rlver_gym.util.request_origin import make_requests_for, number_dialogue
from rlver_gym.util.yaml_file import Prompts, load_yaml

_PROMPTS = Prompts(load_yaml("rlver_gym.bench.judge", "judge.yaml"))

_CODE = "1"
"""Counts up whenever the code, not the prompt, would judge otherwise."""
_MAX_RAW = 2_000
"""How much of an unusable answer is shown again."""
_PLAIN = Vocabulary.of({name: f"{name}|{name.replace('_', ' ')}" for name in JUDGED})
_OWN_OPTIONS = ("temperature", "max_tokens", "structured")
HEEDED = frozenset((*_OWN_OPTIONS, *BodyFields.model_fields))
"""Of the options of an LLM user, beside the number of samples."""


class JudgeInput(NamedTuple):
    """A dialogue that is judged."""

    key: str
    """No other dialogue has it."""
    agent: str
    persona: str
    final: float
    """The final emotion, which the judge is not shown."""
    messages: tuple[Message, ...]


class JudgedDialogue(NamedTuple):
    """A dialogue with all judgements of it, or why there are none."""

    heard: JudgeInput
    judgements: tuple[Judgement, ...]
    failure: str = ""


@dataclass(frozen=True)
class Judge:
    """A model in the judge's role. Equal words, seeds and options give equal requests."""

    chat: Chat
    model: str
    options: LLMOptions
    seed: int = 0
    """Of the order of dialogues, and of dimensions in each request."""

    @property
    def version(self) -> str:
        """Of the prompt, the reading of answers and what the model is asked with."""
        own, body = self.options.model_dump(include=set(_OWN_OPTIONS)), self.options.to_body()
        content = repr((_PROMPTS, own, *([json.dumps(body, sort_keys=True)] if body else [])))
        return f"{_CODE}+{hashlib.sha256(content.encode()).hexdigest()[:12]}"

    def judge(self, dialogues: Sequence[JudgeInput], at_once: int = 16) -> Iterator[JudgedDialogue]:
        """Every dialogue judged, or failed. Raises the ChatErrors that stop a run."""
        shuffled = Random(self.seed).sample(list(dialogues), len(dialogues))
        yield from run_many(self._judge_dialogue, shuffled, at_once)

    async def _judge_dialogue(self, heard: JudgeInput) -> JudgedDialogue:
        number = number_dialogue()
        work = (self._judge_once(heard, sample, number) for sample in range(self.options.samples))
        outcomes = await asyncio.gather(*work, return_exceptions=True)
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        for error in errors:
            if isinstance(error, STOPPING) or not isinstance(error, ChatError):
                raise error
        judgements = tuple(outcome for outcome in outcomes if isinstance(outcome, Judgement))
        return JudgedDialogue(heard, () if errors else judgements, str(errors[0]) if errors else "")

    async def _judge_once(self, heard: JudgeInput, sample: int, number: int) -> Judgement:
        """One judgement. What failed, perhaps earlier, is tried once more past the cache."""
        try:
            with make_requests_for(number):
                return await self._ask(heard, sample)
        except STOPPING:
            raise
        except ChatError:
            with make_requests_for(number, attempt=number):
                return await self._ask(heard, sample)

    async def _ask(self, heard: JudgeInput, sample: int) -> Judgement:
        request, code = self.build(heard, sample)
        why = ""
        for _ in range(2):
            answer = await self.chat.complete(request)
            try:
                return read_judgement(answer, code, heard.messages)
            except UnusableAnswer as problem:
                why = str(problem)
            raw = json.dumps(strip_invisible(answer.text[:_MAX_RAW]))
            again = ChatMessage("user", _PROMPTS.fill("repair", reason=why, raw=raw))
            request = replace(request, messages=(*request.messages, again))
        raise ChatError(f"{self.model} gave no usable judgement, asked twice ({why}).")

    def build(self, heard: JudgeInput, sample: int) -> tuple[ChatRequest, str]:
        """What is asked, and the code by which an answer to it is known."""
        conversation = _format_dialogue_for_judge(heard.messages)
        code = hashlib.sha256(f"{self.seed}/{sample}/{conversation}".encode()).hexdigest()[:8]
        order = Random(code).sample(JUDGED, len(JUDGED))
        names = [
            format_field_name(name, code, quotes=quotes)
            for name in order
            for quotes in (True, False)
        ]
        criteria = [
            f"- `{format_field_name(name, code)}`: {_PROMPTS['criteria'][name].strip()}"
            for name in order
        ]
        instructions = _PROMPTS.fill("task", criteria="\n".join(criteria), form=self._form(names))
        request = ChatRequest(
            model=self.model,
            messages=(
                ChatMessage("system", instructions),
                ChatMessage("user", _PROMPTS.fill("ask", conversation=conversation)),
            ),
            temperature=self.options.temperature,
            max_tokens=self.options.max_tokens,
            seed=int(code, 16) >> 1,
            sample=sample,
            schema=_build_answer_schema(names) if self.options.structured else None,
            options=self.options.to_body() or None,
        )
        return request, code

    def _form(self, names: Sequence[str]) -> str:
        if self.options.structured:
            return _PROMPTS.fill("form_json", keys=", ".join(f"`{name}`" for name in names))
        values = (_PROMPTS["line_quotes"], _PROMPTS["line_score"])
        lines = [f"{name.replace('_', ' ')}: {values[at % 2]}" for at, name in enumerate(names)]
        return _PROMPTS.fill("form_lines", lines="\n".join(lines))


def find_judge_addressing_messages(messages: Sequence[Message]) -> frozenset[int]:
    """Which messages, counted from 1, speak to whoever judges. They are kept from the judge."""
    agent = [
        (at, message.text) for at, message in enumerate(messages, 1) if message.speaker == "agent"
    ]
    return frozenset(
        at
        for (_, before), (at, text) in pairwise([(0, ""), *agent])
        if find_judge_address(text, before) or read_fields(text, _PLAIN)
    )


def _format_dialogue_for_judge(messages: Sequence[Message]) -> str:
    """The conversation as an LLM user is shown it, without what was meant for the machinery."""
    withheld, shown = find_judge_addressing_messages(messages), []
    for turn, (speaker, text) in enumerate(messages, 1):
        seen = words("en").withheld if turn in withheld else strip_invisible(text)
        role = "supporter" if speaker == "agent" else "person"
        shown.append({"turn": turn, "speaker": role, "text": seen})
    return dump_line({"conversation": shown})


def _build_answer_schema(names: Sequence[str]) -> dict[str, Any]:
    quotes = {"type": "array", "items": {"type": "string"}}
    score = {"type": "integer", "enum": list(range(LOWEST, HIGHEST + 1))}
    return make_object_schema({name: (quotes, score)[at % 2] for at, name in enumerate(names)})
