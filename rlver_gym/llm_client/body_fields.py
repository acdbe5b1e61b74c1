"""Fields of a request's body beside the words, for agents, LLM users and judges alike."""

from typing import Any, Self

from pydantic import Field, JsonValue, model_validator

from rlver_gym.util.frozen import Frozen
from rlver_gym.util.secret_words import find_secret

_KEPT = frozenset({"model", "messages", "seed", "response_format", "n", "stream", "stream_options"})
THINKING_SWITCH = (
    "thinking=false, enable_thinking=false or reasoning_effort=low, whichever its server knows"
)


class BodyFields(Frozen):
    """Fields of a request's body that are sent as they are; None: not sent."""

    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=-1)
    min_p: float | None = Field(default=None, ge=0, le=1)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    repetition_penalty: float | None = Field(default=None, gt=0)
    thinking: bool | dict[str, JsonValue] | None = None
    """The switch of models that think: true and false go as `chat_template_kwargs` (vLLM, SGLang,
    llama.cpp), an object as it is (`{"type": "disabled"}`).
    """
    enable_thinking: bool | None = None
    """The same switch where a server takes it as a field of its own (DashScope)."""
    reasoning_effort: str | None = None
    reasoning: dict[str, JsonValue] | None = None
    chat_template_kwargs: dict[str, JsonValue] | None = None
    provider: dict[str, JsonValue] | None = None
    extra_body: dict[str, JsonValue] | None = None
    """Any other fields, by name."""

    @model_validator(mode="after")
    def _check_body(self) -> Self:
        kept = [
            name for name in self.extra_body or {} if name in {*_KEPT, *type(self).model_fields}
        ]
        if kept:
            raise ValueError(
                f"extra_body must not hold {kept[0]}, which is an option of its own or set for"
                " every request. Leave it out"
            )
        if name := find_secret(self.to_body()):
            raise ValueError(
                f"{name} holds a key or a password, which would be written into records. Set"
                " OPENAI_API_KEY instead"
            )
        return self

    def to_body(self) -> dict[str, Any]:
        body = self.model_dump(mode="json", include=set(BodyFields.model_fields), exclude_none=True)
        body |= body.pop("extra_body", {})
        if isinstance(body.get("thinking"), bool):
            switch = {"enable_thinking": body.pop("thinking")}
            body["chat_template_kwargs"] = {**body.get("chat_template_kwargs", {}), **switch}
        return body
