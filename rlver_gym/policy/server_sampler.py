"""Replies drawn by a server that takes token ids and gives token ids back, such as vLLM: the same `sample` as the sampler in this process.

The server's weights are its own affair: whoever trains brings the new ones there, as `VllmSampler` does. vLLM gives log-probabilities at temperature 1 unless it was
started with `--logprobs-mode processed_logprobs`; that matters only at other temperatures.
"""

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import openai
from pydantic import BaseModel, Field, ValidationError

from rlver_gym.errors import TrainingError
from rlver_gym.policy.sampler import Drawn, Prompt, Sampling

_TOKEN = re.compile(r"token_id:(\d+)")
_AS_IT_IS = {
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "min_p": 0.0,
    "ignore_eos": True,
}
"""What vLLM would otherwise take from the model's generation_config.json: Qwen2.5's penalty on repetition would sample from another distribution than the one
that is learned, and its second end of text would end replies without the learner's knowing it."""


class _Logprobs(BaseModel):
    tokens: list[str]
    token_logprobs: list[float]


class _Choice(BaseModel):
    finish_reason: str | None
    logprobs: _Logprobs


class _Completion(BaseModel):
    """What is used of a server's answer."""

    choices: list[_Choice] = Field(min_length=1)


class ServerSampler:
    """Asks `/v1/completions` of an OpenAI-compatible server, one request a reply, many at a time."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str = "none",
        at_once: int | None = 64,
        timeout_s: float = 600.0,
        seeded: bool = False,
    ) -> None:
        """`base_url` ends in /v1; `model` as the server calls it; `at_once`: requests under way together; `timeout_s` for one answer.

        `seeded`: send each prompt's seed along, so that equal runs draw equally. vLLM draws all rows of a batch at once only without.
        """
        self.base_url = base_url
        self.model = model
        self.at_once = at_once
        self.seeded = seeded
        self._client = openai.OpenAI(base_url=base_url, api_key=api_key, timeout=timeout_s)

    def sample(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Drawn]:
        """One reply for each prompt. TrainingError when the server does not answer, or not with token ids and log-probabilities."""
        with ThreadPoolExecutor(self.at_once) as pool:
            return list(pool.map(lambda prompt: self._asked(prompt, sampling), prompts))

    def forget(self) -> None:
        """Nothing is kept here. A server that caches prefixes must drop them itself when it gets new weights."""

    def refresh(self) -> None:
        """Nothing is known here of the server's weights."""

    def _asked(self, prompt: Prompt, sampling: Sampling) -> Drawn:
        raw = self._completed(prompt, sampling)
        try:
            return _drawn(_Completion.model_validate_json(raw).choices[0], sampling)
        except ValidationError as error:
            raise TrainingError(
                f"{self.base_url} did not answer with a completion and its log-probabilities, but with {raw[:200]!r}. Use a server such as vLLM."
            ) from error

    def _completed(self, prompt: Prompt, sampling: Sampling) -> str:
        """What the server sent back, as it came."""
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
                    **_AS_IT_IS,
                },
            ).text
        except openai.OpenAIError as error:
            raise TrainingError(
                f"no replies from {self.base_url} for model {self.model!r} ({error}). Is the server up, and does the address end in /v1?"
            ) from error


def _drawn(choice: _Choice, sampling: Sampling) -> Drawn:
    matches = [_TOKEN.fullmatch(token) for token in choice.logprobs.tokens]
    ids = [int(match[1]) for match in matches if match]
    if len(ids) != len(choice.logprobs.token_logprobs) or not ids:
        raise TrainingError(
            f"the server gave tokens as text ({choice.logprobs.tokens[:3]}), which cannot be learned from. Use one that knows return_tokens_as_token_ids, such as vLLM."
        )
    if choice.finish_reason == "stop" and ids[-1] not in sampling.stop_ids:
        raise TrainingError(
            f"the server kept the token that ended a reply to itself (the last one it gave is {ids[-1]}). Use one that returns every sampled token, such as vLLM."
        )
    return Drawn(ids, choice.logprobs.token_logprobs)
