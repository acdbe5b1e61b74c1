"""How a chat server is reached, how patiently, and what it may cost."""

import os
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    model_validator,
)
from pydantic import field_validator as check

from rlver_gym.io.errors import ServerRefused
from rlver_gym.llm_client.credentials import (
    KEY,
    NO_KEY,
    URL,
    find_credentials,
    find_problem,
    is_at,
    recover,
    withhold,
    without_credentials,
)

OPENAI_URL = "https://api.openai.com/v1"

CacheMode = Literal["off", "record", "replay", "auto"]
"""record: ask the server and keep the answers, also those the response cache already holds.
replay: only the response_cache. auto: the response cache, and the server for the rest.
"""


RENAMED = {"tape": "response_cache", "tape_mode": "cache_mode"}
"""Fields of older versions, and what they are called now."""

OmittedField = Literal["temperature", "max_tokens", "seed", "response_format", "system"]


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Prices(_Settings):
    """What a million tokens cost, in the user's own currency."""

    prompt: NonNegativeFloat
    completion: NonNegativeFloat


class Budget(_Settings):
    """What one client may use up.

    None: no limit. Calls in flight are finished, so money and tokens can end slightly above.
    """

    money: NonNegativeFloat | None = None
    """In the currency of the prices, which must then be given."""
    tokens: PositiveInt | None = None
    """Prompt and completion together, as the server counts them."""
    calls: PositiveInt | None = None


class ChatSettings(_Settings):
    """Everything a client needs to know.

    Neither printed nor pickled does it show the key or a password in the address (see
    `credentials.withhold`).
    """

    base_url: str | None = None
    """None: OPENAI_BASE_URL, else OpenAI itself."""
    api_key: SecretStr | None = None
    """None: OPENAI_API_KEY. Servers of one's own usually need none."""
    timeout_s: PositiveFloat = 60.0
    """For one request with all its attempts and the pauses between them. Waiting for a free place
    (`concurrency`) does not count.
    """
    attempt_timeout_s: PositiveFloat | None = None
    """For one attempt: one that takes longer has failed. None: two thirds of the time that is left,
    and all of it for the last; one that takes longer may only have waited behind others, so it
    fails nobody while fewer at once may do.
    """
    attempts: PositiveInt = 4
    """How often a request is tried when the server fails. Being told to wait (429) is not a
    failure, and only the time limits it.
    """
    max_wait_s: NonNegativeFloat | None = 600.0
    """How long an outage of the server is waited for: failures in several dialogues without an
    answer between, or its own word to come back later. None: nothing is taken for an outage, and
    every request fails by itself.
    """
    concurrency: PositiveInt = 64
    """Most requests under way at once; fewer while the server says that it is too many, or is too
    slow for so many.
    """
    omit: tuple[OmittedField, ...] = ()
    """Fields that are not sent: for servers that refuse them without naming them. system: its text
    begins the first message.
    """
    prices: Prices | None = None
    budget: Budget = Budget()
    response_cache: Path | None = None
    """A file that keeps every answer, so that a run can be repeated without a server. None: none.
    """
    cache_mode: CacheMode = "auto"

    @model_validator(mode="before")
    @classmethod
    def _refuse_old_names(cls, fields: Any) -> Any:
        for old in RENAMED.keys() & set(fields if isinstance(fields, dict) else ()):
            raise ValueError(f"{old} is {RENAMED[old]} now")
        return fields

    @check("base_url")
    @classmethod
    def _is_address(cls, url: str | None) -> str | None:
        problem = find_problem(url) if url is not None else None
        if problem:
            raise ValueError(f"base_url {problem}")
        return url

    def model_post_init(self, _: Any) -> None:
        """A budget of money needs prices."""
        if self.budget.money is not None and self.prices is None:
            raise ValueError(
                "a budget of money needs prices (per million prompt and completion tokens)"
            )

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no message may show: the key, user and password of the address, and how they are
        sent.
        """
        key = [self.api_key.get_secret_value()] if self.api_key else []
        credentials = find_credentials(self.base_url) if self.base_url else None
        if credentials is None:
            return tuple(key)
        return (*key, *credentials, b64encode(":".join(credentials).encode()).decode())

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """What a printed one shows."""
        for name, value in super().__repr_args__():
            yield name, without_credentials(value) if name == "base_url" and value else value

    def __getstate__(self) -> dict[Any, Any]:
        """For a pickle: without secrets."""
        state = super().__getstate__()
        return state | {"__dict__": withhold(state["__dict__"])}

    def __setstate__(self, state: dict[Any, Any]) -> None:
        """From a pickle. ServerRefused when a secret is not to be found here."""
        super().__setstate__(state | {"__dict__": recover(state["__dict__"])})


def resolve_settings(settings: ChatSettings) -> ChatSettings:
    """The same with address and key filled in from the environment.

    ServerRefused when either is none, or OpenAI's own server has no key.
    """
    url = settings.base_url or os.environ.get(URL) or OPENAI_URL
    key = settings.api_key or SecretStr(os.environ.get(KEY) or NO_KEY)
    if problem := find_problem(url):
        raise ServerRefused(f"{URL} (base_url) {problem}.")
    secret = key.get_secret_value()
    if not secret.isascii() or not secret.isprintable():
        raise ServerRefused(
            f"the API key holds characters that no key has. Copy it again into {KEY} (api_key)."
        )
    if is_at(url, OPENAI_URL) and settings.cache_mode != "replay" and secret == NO_KEY:
        raise ServerRefused(
            f"no API key for {without_credentials(url)}. Set {KEY} (api_key); for a server of your"
            f' own, {URL} (base_url); to work offline, user="embedded".'
        )
    return settings.model_copy(update={"base_url": url, "api_key": key})


def public_url(settings: ChatSettings) -> str:
    """The address that these settings mean now, without user, password and query: fit for records
    and messages.
    """
    return without_credentials(settings.base_url or os.environ.get(URL) or OPENAI_URL)
