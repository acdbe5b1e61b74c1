"""A language model on this machine as an agent: `hf:PATH` of the benchmark.

It speaks as it was trained to, which is written beside its weights.
"""

import asyncio
import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from pydantic import BaseModel, ConfigDict, Field

from rlver_gym.answers.reading import explain_missing_words
from rlver_gym.core.agent import Style, agent_prompt, user_lines
from rlver_gym.core.dialogue import Message
from rlver_gym.policy.models.model import get_max_context, load_model, load_tokenizer, uses_bf16
from rlver_gym.policy.models.precision import Dtype
from rlver_gym.policy.models.renderer import Renderer
from rlver_gym.policy.models.sampler import Completion, ModelSampler, Prompt, Sampling
from rlver_gym.util.errors import AgentError, AgentFailed, TrainingError, check_known
from rlver_gym.util.field_errors import explain_invalid
from rlver_gym.util.files import open_regular, read_bytes
from rlver_gym.util.json_text import parse_json

REPLY_CONFIG_FILE = "rlver_gym.json"
_TURNS = 1_000
"""More than a dialogue has: no two turns draw by the same seed."""
_BATCH_WAIT_S, _MAX_BATCH = 0.02, 64
"""How long the first of a batch waits for others, and how many of them are answered together."""
_MAX_ROWS = 2 * _MAX_BATCH
"""Dialogues whose keys and values are kept from turn to turn."""
_ENDS = 2**20
"""Bytes of a weight file's beginning and end that tell it from another of the same size."""


class ReplyConfig(BaseModel):
    """How a model was told to reply."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    system: str = agent_prompt()
    style: Style = "direct"
    max_reply_tokens: int = Field(default=256, ge=1)
    temperature: float = Field(default=0.0, ge=0)
    """Of sampling; 0 says what is likeliest."""
    dtype: Dtype = "auto"
    """Of replies; auto: bfloat16 on a GPU. On a CPU with avx512_bf16 or amx_bf16, bfloat16 takes
    half the memory and about half the time.
    """

    def write(self, folder: Path) -> None:
        (folder / REPLY_CONFIG_FILE).write_text(self.model_dump_json(indent=2), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> "ReplyConfig":
        """What is written in `folder`, or the default. AgentError for what is unreadable."""
        path = folder / REPLY_CONFIG_FILE
        if not path.exists():
            return cls()
        end = "). Mend it, or delete it for the default."
        with explain_invalid(AgentError, f"{path} cannot be read (", "the whole file", end):
            content = read_bytes(path, max_bytes=1 << 20, error=AgentError)
            return cls.model_validate(parse_json(content))

    def change(self, options: Mapping[str, Any]) -> "ReplyConfig":
        """The same but for these fields. UnknownName for no field, AgentError for a wrong value."""
        fields = ReplyConfig.model_fields
        for name in options:
            check_known("agent option", name, fields)
        with explain_invalid(AgentError, "agent option ", "the options", ""):
            return ReplyConfig.model_validate({**self.model_dump(), **options})


class _PendingRequest(NamedTuple):
    """What a dialogue waits for."""

    ids: Sequence[int]
    seed: int
    answer: asyncio.Future[Completion]


class _Batcher:
    """Answers what dialogues of one event loop ask within a moment of each other in one batch."""

    def __init__(self, sampler: ModelSampler, sampling: Sampling) -> None:
        self._sampler, self._sampling = sampler, sampling
        self._waiting: WeakKeyDictionary[asyncio.AbstractEventLoop, list[_PendingRequest]] = (
            WeakKeyDictionary()
        )
        self._thread = ThreadPoolExecutor(1)  # the loop goes on meanwhile; no two batches meet
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, ids: Sequence[int], seed: int) -> Completion:
        loop = asyncio.get_running_loop()
        waiting = self._waiting.setdefault(loop, [])
        waiting.append(_PendingRequest(ids, seed, loop.create_future()))
        answer = waiting[-1].answer
        if len(waiting) == 1:
            task = loop.create_task(self._answer(waiting))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await answer

    async def _answer(self, waiting: list[_PendingRequest]) -> None:
        await asyncio.sleep(_BATCH_WAIT_S)
        asked = [one for one in waiting if not one.answer.done()]
        waiting.clear()
        for begin in range(0, len(asked), _MAX_BATCH):
            part = asked[begin : begin + _MAX_BATCH]
            try:
                completions = await asyncio.get_running_loop().run_in_executor(
                    self._thread, self._sample, part
                )
            except Exception as error:
                for one in part:
                    if not one.answer.done():
                        one.answer.set_exception(error)
            else:
                for one, reply in zip(part, completions, strict=True):
                    if not one.answer.done():
                        one.answer.set_result(reply)

    def _sample(self, asked: Sequence[_PendingRequest]) -> list[Completion]:
        """A dialogue goes on in the row that holds its beginning."""
        rows = self._sampler.match_rows([request.ids for request in asked], _MAX_ROWS)
        prompts = [
            Prompt(row, request.ids, request.seed) for row, request in zip(rows, asked, strict=True)
        ]
        return self._sampler.sample(prompts, self._sampling)


class HFAgent:
    """A Hugging Face causal LM. Its thoughts are not said; `areply` answers many in batches."""

    def __init__(
        self,
        name: str,
        *,
        seed: int = 0,
        device: str = "auto",
        options: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """`name`: a folder, a Hugging Face name, "tiny" or "smollm2"; `seed` decides what is drawn;
        `options`: fields of its reply config. AgentError when it cannot be loaded, and as
        `ReplyConfig.change`.
        """
        self.name = name
        self.reply_config = ReplyConfig.read(Path(name).expanduser()).change(options)
        self.seed = seed
        try:
            use_bf16 = uses_bf16(self.reply_config.dtype)
            self._model = load_model(name, use_bf16=use_bf16, device=device, frozen=True)
            self._renderer = Renderer(
                load_tokenizer(name), self.reply_config.system, self.reply_config.style
            )
            self._sampler = ModelSampler(self._model, use_bf16)
        except TrainingError as error:
            raise AgentError(str(error)) from error
        self._sampling = Sampling(
            self.reply_config.max_reply_tokens,
            self._renderer.stop_ids,
            self.reply_config.temperature,
        )
        self._batcher = _Batcher(self._sampler, self._sampling)

    def with_seed(self, seed: int) -> "HFAgent":
        twin = copy.copy(self)
        twin.seed = seed
        return twin

    def reply(self, messages: Sequence[Message]) -> str:
        """The next utterance. AgentFailed for thoughts alone, AgentError beyond the context."""
        ids, seed = self._prompt(messages)
        (completion,) = self._sampler.sample([Prompt(0, ids, seed)], self._sampling)
        return self._read(completion)

    async def areply(self, messages: Sequence[Message]) -> str:
        """The same, in one batch with others, whose company can decide a rounding, so a token."""
        completion = await self._batcher.ask(*self._prompt(messages))
        return self._read(completion)

    def _read(self, completion: Completion) -> str:
        reply = self._renderer.parse(completion.ids)
        if reply.thought and not reply.text:
            is_cut = completion.ids[-1] not in self._sampling.stop_ids
            why = explain_missing_words(
                "thoughts_cut" if is_cut else "thoughts", "max_reply_tokens"
            )
            raise AgentFailed(f"{self.name} gave no reply: {why} ({REPLY_CONFIG_FILE})")
        return reply.text

    def _prompt(self, messages: Sequence[Message]) -> tuple[list[int], int]:
        replies = [message.text for message in messages if message.speaker == "agent"]
        ids = self._renderer.prompt(user_lines(messages), replies)
        if len(ids) + self._sampling.max_tokens > get_max_context(self._model):
            raise AgentError(
                f"the dialogue has {len(ids):,} tokens, and {self.name} takes"
                f" {get_max_context(self._model):,}, replies included. Take a model with a longer"
                " context."
            )
        return ids, _TURNS * self.seed + len(replies)


def fingerprint_model(name: str) -> dict[str, str | None]:
    """16 hex digits over a model's manner and its weights' sizes and ends; None: no folder."""
    folder = Path(name).expanduser()
    if not folder.is_dir():
        return {"weights": None}
    told = hashlib.sha256(json.dumps(ReplyConfig.read(folder).model_dump()).encode())
    for path in sorted(folder.glob("*.safetensors")):
        with open_regular(path, error=AgentError) as file:
            told.update(f"{path.name} {path.stat().st_size}".encode() + file.read(_ENDS))
            file.seek(max(0, path.stat().st_size - _ENDS))
            told.update(file.read(_ENDS))
    return {"weights": told.hexdigest()[:16]}
