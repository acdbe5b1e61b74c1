"""Replies drawn by a server that takes token ids and gives token ids back, such as vLLM: the same
`sample` as the sampler in this process.

A plain server's weights are its own affair. `VllmSampler` gives it the policy's adapters before
each round of rollouts, through a folder that both see. vLLM gives log-probabilities at temperature
1 unless it was started with `--logprobs-mode processed_logprobs`; that matters only at other
temperatures.
"""

import hashlib
import math
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import cast

import openai
from pydantic import BaseModel, Field, ValidationError
from safetensors.torch import save
from torch import Tensor, nn

from rlver_gym.policy.models.distributed import all_gather, enter_on_first, rank
from rlver_gym.policy.models.sampler import Completion, Prompt, Sampling
from rlver_gym.util.errors import TrainingError
from rlver_gym.util.secret_words import read_variable

_TOKEN = re.compile(r"token_id:(\d+)")
_NEUTRAL_SETTINGS = {
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "min_p": 0.0,
    "ignore_eos": True,
}
"""What vLLM would otherwise take from the model's generation_config.json: Qwen2.5's penalty on
repetition would sample from another distribution than the one that is learned, and its second end
of text would end replies without the learner's knowing it.
"""


class _Logprobs(BaseModel):
    tokens: list[str]
    token_logprobs: list[float | None]


class _Choice(BaseModel):
    finish_reason: str | None
    logprobs: _Logprobs


class _Response(BaseModel):
    """What is used of a server's answer."""

    choices: list[_Choice] = Field(min_length=1)


_TIMEOUT_S = 600.0


class ServerSampler:
    """Asks `/v1/completions` of an OpenAI-compatible server, one request a reply."""

    at_once: int | None = 64
    """Requests under way together."""

    def __init__(
        self, base_url: str, model: str, *, api_key: str = "none", seeded: bool = False
    ) -> None:
        """`base_url` ends in /v1. `seeded`: send each prompt's seed, so that equal runs draw
        equally; vLLM then draws no batch at once.
        """
        self.base_url = base_url
        self.model = model
        self.seeded = seeded
        self._threads = ThreadPoolExecutor(self.at_once)
        self._client = openai.OpenAI(base_url=base_url, api_key=api_key, timeout=_TIMEOUT_S)

    def sample(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """One reply a prompt. TrainingError without an answer, token ids or log-probabilities."""
        return list(self._threads.map(lambda prompt: self._sample_one(prompt, sampling), prompts))

    def forget(self) -> None:
        """Nothing is kept: a server that caches prefixes drops them itself with new weights."""

    def refresh(self) -> None:
        """Nothing is known here of the server's weights."""

    def _sample_one(self, prompt: Prompt, sampling: Sampling) -> Completion:
        raw = self._request_completion(prompt, sampling)
        try:
            return _parse_choice(_Response.model_validate_json(raw).choices[0], sampling)
        except ValidationError as error:
            raise TrainingError(
                f"{self.base_url} did not answer with a completion and its log-probabilities, but"
                f" with {raw[:200]!r}. Use a server such as vLLM."
            ) from error

    def _request_completion(self, prompt: Prompt, sampling: Sampling) -> str:
        try:
            return self._client.completions.with_raw_response.create(
                model=self.model,
                prompt=list(prompt.ids),
                max_tokens=sampling.max_tokens,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                seed=prompt.seed if self.seeded else openai.omit,
                logprobs=1,
                extra_body={
                    "top_k": sampling.top_k or -1,
                    "stop_token_ids": sorted(sampling.stop_ids),
                    "return_tokens_as_token_ids": True,
                    **_NEUTRAL_SETTINGS,
                },
            ).text
        except openai.OpenAIError as error:
            raise TrainingError(
                f"no replies from {self.base_url} for model {self.model!r} ({error}). Is the server"
                " up, and does the address end in /v1?"
            ) from error


def _parse_choice(choice: _Choice, sampling: Sampling) -> Completion:
    matches = [_TOKEN.fullmatch(token) for token in choice.logprobs.tokens]
    ids = [int(match[1]) for match in matches if match]
    if len(ids) != len(choice.logprobs.token_logprobs) or not ids:
        raise TrainingError(
            f"the server gave tokens as text ({choice.logprobs.tokens[:3]}), which cannot be"
            " learned from. Use one that knows return_tokens_as_token_ids, such as vLLM."
        )
    if choice.finish_reason == "stop" and ids[-1] not in sampling.stop_ids:
        raise TrainingError(
            "the server kept the token that ended a reply to itself (the last one it gave is"
            f" {ids[-1]}). Use one that returns every sampled token, such as vLLM."
        )
    return Completion(
        ids, [math.nan if one is None else one for one in choice.logprobs.token_logprobs]
    )


KEY = "VLLM_API_KEY"
"""The environment variable that holds the server's key, if it asks for one; vLLM reads the same."""
_ALREADY_LOADED = "already been loaded"
"""In vLLM's answer to adapters that it has."""


class VllmSampler(ServerSampler):
    """Of a vLLM server started with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True."""

    def __init__(
        self, base_url: str, policy: nn.Module, folder: Path, *, seeded: bool = False
    ) -> None:
        """`policy`: a peft model with one adapter; `folder`: the server sees it under this path."""
        super().__init__(base_url, "", api_key=read_variable(KEY) or "none", seeded=seeded)
        self.policy = policy
        self.folder = folder
        self._run = secrets.token_hex(4)
        """In every name, so that runs that share a server and a folder do not meet."""

    def refresh(self) -> None:
        """See that the server has the policy's adapters as they are now, under a name made from
        their content; the first process does it. TrainingError, on all, when it does not take them.
        """
        with enter_on_first(lambda: nullcontext(self._publish_adapters())) as published:
            name = all_gather([published or ""])[0]
        before, self.model = self.model, name
        if before != name:
            self._remove_adapters(before)

    def close(self) -> None:
        self._remove_adapters(self.model)
        self.model = ""

    def _publish_adapters(self) -> str:
        weights = save(_collect_adapter_weights(self.policy), {"format": "pt"})
        name = f"rlver-{self._run}-{hashlib.sha256(weights).hexdigest()[:16]}"
        place = self.folder.absolute() / name
        try:
            if name != self.model:
                place.mkdir(parents=True, exist_ok=True)
                cast(Mapping, self.policy.peft_config)["default"].save_pretrained(place)
                (place / "adapter_model.safetensors").write_bytes(weights)
        except OSError as error:
            raise TrainingError(
                f"the adapters for vLLM cannot be written to {place} ({error}). Choose another"
                " --vllm-folder, or make room."
            ) from error
        self._post("load_lora_adapter", {"lora_name": name, "lora_path": str(place)})
        return name

    def _remove_adapters(self, name: str) -> None:
        """Off the server and off the disk; a server that has lost them is none the worse."""
        if name and rank() == 0:
            with suppress(TrainingError):
                self._post("unload_lora_adapter", {"lora_name": name})
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def _post(self, what: str, body: dict[str, str]) -> None:
        try:
            self._client.post(f"/{what}", body=body, cast_to=object)
        except openai.OpenAIError as error:
            if _ALREADY_LOADED in str(error):
                return
            raise TrainingError(
                f"{self.base_url} did not {what.replace('_', ' ')} {body['lora_name']} ({error})."
                " Does the address end in /v1, does vLLM run there with --enable-lora, a"
                " --max-lora-rank of no less than --lora-rank and"
                f" VLLM_ALLOW_RUNTIME_LORA_UPDATING=True, and does it see {self.folder} under the"
                " same path?"
            ) from error


def _collect_adapter_weights(policy: nn.Module) -> dict[str, Tensor]:
    import peft  # noqa: PLC0415 (only whoever asks for adapters needs it)

    named = {
        name: one.detach().cpu().contiguous()
        for name, one in policy.named_parameters()
        if "lora_" in name
    }
    return peft.get_peft_model_state_dict(policy, state_dict=named)  # pyright: ignore[reportArgumentType]
