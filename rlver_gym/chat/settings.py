"""How a chat server is reached, how patiently, and what it may cost."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, NonNegativeFloat, PositiveFloat, PositiveInt, SecretStr
from pydantic import field_validator as check

from rlver_gym.errors import ServerRefused

OPENAI_URL = "https://api.openai.com/v1"
_SCHEMES = ("http", "https")

TapeMode = Literal["off", "record", "replay", "auto"]
"""record: ask the server and keep the answers, also those the tape already holds. replay: only the tape. auto: the tape, and the server for the rest."""


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Prices(_Settings):
    """What a million tokens cost, in the user's own currency."""

    prompt: NonNegativeFloat
    completion: NonNegativeFloat


class Budget(_Settings):
    """What one client may use up. None: no limit. Calls in flight are finished, so money and tokens can end slightly above."""

    money: NonNegativeFloat | None = None
    """In the currency of the prices, which must then be given."""
    tokens: PositiveInt | None = None
    """Prompt and completion together, as the server counts them."""
    calls: PositiveInt | None = None


class ChatSettings(_Settings):
    """Everything a client needs to know. Printing it shows neither the key nor credentials in the address."""

    base_url: str | None = None
    """None: OPENAI_BASE_URL, else OpenAI itself."""
    api_key: SecretStr | None = None
    """None: OPENAI_API_KEY. Servers of one's own usually need none."""
    timeout_s: PositiveFloat = 60.0
    """For one request with all its attempts and the pauses between them. Waiting for a free place (`concurrency`) does not count."""
    attempt_timeout_s: PositiveFloat | None = None
    """For one attempt. None: two thirds of the time that is left, and all of it for the last."""
    attempts: PositiveInt = 4
    """How often a request is tried when the server fails. Being told to wait (429) is not a failure, and only the time limits it."""
    max_wait_s: NonNegativeFloat = 600.0
    """How long an outage of the server is waited for: failures in several dialogues without an answer between, or its own word to come back later."""
    concurrency: PositiveInt = 64
    """Most requests under way at once; fewer while the server says that it is too many."""
    prices: Prices | None = None
    budget: Budget = Budget()
    tape: Path | None = None
    """A file that keeps every answer, so that a run can be repeated without a server. None: none."""
    tape_mode: TapeMode = "auto"

    @check("base_url")
    @classmethod
    def _is_address(cls, url: str | None) -> str | None:
        if url is not None and urlsplit(url).scheme not in _SCHEMES:
            raise ValueError("base_url begins with http:// or https:// and usually ends in /v1")
        return url

    def model_post_init(self, _: Any) -> None:
        """A budget of money needs prices."""
        if self.budget.money is not None and self.prices is None:
            raise ValueError("a budget of money needs prices (per million prompt and completion tokens)")

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """What a printed one shows."""
        for name, value in super().__repr_args__():
            yield name, _without_credentials(value) if name == "base_url" and value else value


def resolved(settings: ChatSettings) -> ChatSettings:
    """The same with address and key filled in from the environment. ServerRefused when the address is none, or OpenAI's own server has no key."""
    url = settings.base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL
    key = settings.api_key or SecretStr(os.environ.get("OPENAI_API_KEY") or "none")
    if urlsplit(url).scheme not in _SCHEMES:
        raise ServerRefused(
            f"{_without_credentials(url)!r} is no address of a server: OPENAI_BASE_URL begins with http:// or https://"
        )
    needs_key = urlsplit(url).hostname == urlsplit(OPENAI_URL).hostname and settings.tape_mode != "replay"
    if needs_key and key.get_secret_value() == "none":
        raise ServerRefused(
            f"no API key for {_without_credentials(url)}. Set OPENAI_API_KEY (api_key); for a server of your own, OPENAI_BASE_URL "
            '(base_url); to work offline, user="embedded".'
        )
    return settings.model_copy(update={"base_url": url, "api_key": key})


def public_url(settings: ChatSettings) -> str:
    """The address that these settings mean now, without user, password and query: fit for records and messages."""
    return _without_credentials(settings.base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL)


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
