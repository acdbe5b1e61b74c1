"""How a chat server is reached and what it costs; which of its secrets may be shown."""

import hashlib
import os
from base64 import b64encode
from collections.abc import Iterator
from math import isfinite
from multiprocessing.context import get_spawning_popen
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    field_validator,
)

from rlver_gym.util.errors import CardError, ServerRefused
from rlver_gym.util.model_names import uses_server
from rlver_gym.util.secret_words import KEY, URL, find_credentials, read_variable
from rlver_gym.util.terminal import one_line

OPENAI_URL = "https://api.openai.com/v1"
ADDRESS = "@http"
"""Where the address begins in openai:MODEL@URL."""
NO_KEY = "none"
CacheMode = Literal["off", "record", "replay", "auto"]
"""Whether the server is asked (record), the cache alone (replay), or both (auto)."""
OmittedField = Literal["temperature", "max_tokens", "seed", "response_format", "system"]


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Prices(_Settings):
    """What a million tokens cost, in the user's own currency."""

    prompt: NonNegativeFloat
    completion: NonNegativeFloat


class Budget(_Settings):
    """What one client may use up; None: no limit. Calls in flight are finished."""

    money: NonNegativeFloat | None = None
    """In the currency of the prices, which must then be given."""
    tokens: PositiveInt | None = None
    """Prompt and completion together, as the server counts them."""
    calls: PositiveInt | None = None


class ChatSettings(_Settings):
    """Everything a client needs to know. Neither printed nor pickled does it show the key or a
    password in the address: a pickle finds them in the environment again.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)

    base_url: str | None = None
    """Where openai:MODEL is served; default: OPENAI_BASE_URL. The key is read from
    OPENAI_API_KEY.
    """
    api_key: SecretStr | None = None
    """None: OPENAI_API_KEY. Servers of one's own usually need none."""
    timeout_s: PositiveFloat = 60.0
    """How long a request may take, all its attempts and the pauses between them together. Raise it
    for a slow server; waiting behind others does not count.
    """
    attempt_timeout_s: PositiveFloat | None = None
    """For one attempt. None: two thirds of the time that is left, and all of it for the last."""
    attempts: PositiveInt = 4
    """How often a request is tried when the server fails. Being told to wait (429) is not a
    failure, and only the time limits it.
    """
    max_wait_s: NonNegativeFloat | None = 600.0
    """How long an outage of a server is waited for before the run stops: failures in several
    dialogues without an answer between, or its own word to come back later. In Python, None: every
    request fails by itself.
    """
    concurrency: PositiveInt = 64
    """Most requests, and dialogues, under way at once."""
    omit: tuple[OmittedField, ...] = ()
    """A field that the server does not take and is not sent: temperature, max_tokens, seed,
    response_format, system (its text then begins the first message); repeat it for more.
    """
    prices: Prices | None = None
    """What a million prompt and completion tokens cost, as 0.15,0.60: two numbers, in any currency.
    All costs are then in that.
    """
    budget: Budget = Budget()
    """Stop cleanly after calls=N, tokens=N or money=N of a server, money in the currency of the
    prices; repeat it for more.
    """
    response_cache: Path | None = None
    """The file that keeps what servers answer, so that a run can be repeated without one. Answers
    count for a model's name, whichever server has it: a file for each. Default of a benchmark: in
    the run folder.
    """
    cache_mode: CacheMode = "auto"
    """auto: the response cache, and the server for the rest. replay: the cache alone. record: ask
    anew. off: no cache.
    """

    @field_validator("base_url")
    @classmethod
    def _is_address(cls, url: str | None) -> str | None:
        url = url and url.strip()  # what was pasted ends in a line feed now and then
        if url is not None and (problem := find_problem(url)):
            raise ValueError(f"base_url {problem}")
        return url

    @field_validator("api_key")
    @classmethod
    def _strip_key(cls, key: SecretStr | None) -> SecretStr | None:
        return key and SecretStr(key.get_secret_value().strip())

    @field_validator("budget", mode="before")
    @classmethod
    def _read_limits(cls, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        limits = {}
        for word in value:
            name, sign, number = (part.strip() for part in word.partition("="))
            if not sign or name not in Budget.model_fields:
                raise ValueError(
                    f"{word!r} does not say of what. Give money=N, tokens=N or calls=N, such as"
                    " calls=500"
                )
            limits[name] = number
        return limits

    @field_validator("prices", mode="before")
    @classmethod
    def _read_prices(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            prompt, completion = map(float, value.split(","))
        except ValueError:
            prompt = completion = -1
        if min(prompt, completion) >= 0 and isfinite(prompt + completion):
            return Prices(prompt=prompt, completion=completion)
        raise ValueError(
            f"{value!r} is not IN,OUT: what a million prompt tokens and a million completion tokens"
            " cost, such as --prices 0.15,0.60"
        )

    def model_post_init(self, _: Any) -> None:
        if self.budget.money is not None and self.prices is None:
            raise ValueError("a budget of money needs prices (per million tokens in and out)")

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no message may show: key, user, password, and how they are sent."""
        key = (self.api_key.get_secret_value(),) if self.api_key else ()
        pair = find_credentials(self.base_url or "")
        return (*key, *pair, b64encode(":".join(pair).encode()).decode()) if pair else key

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, without_credentials(value) if name == "base_url" and value else value

    def __getstate__(self) -> dict[Any, Any]:
        """For a pickle: without secrets, but for a process that is just being started."""
        state = super().__getstate__()
        return state if get_spawning_popen() else _change_fields(state, _withhold)

    def __setstate__(self, state: dict[Any, Any]) -> None:
        """From a pickle. ServerRefused when a secret is not to be found here."""
        super().__setstate__(_change_fields(state, _recover))


def resolve_settings(settings: ChatSettings) -> ChatSettings:
    """The same with address and key of the environment. ServerRefused where they lack."""
    url = settings.base_url or read_variable(URL) or OPENAI_URL
    key = settings.api_key or SecretStr(read_variable(KEY) or NO_KEY)
    if problem := find_problem(url):
        raise ServerRefused(f"{URL} (base_url) {problem}.")
    secret = key.get_secret_value()
    if not secret.isascii() or not secret.isprintable():
        raise ServerRefused(
            f"the API key holds characters that no key has. Copy it again into {KEY} (api_key)."
        )
    is_openai = urlsplit(url).hostname == urlsplit(OPENAI_URL).hostname
    if is_openai and settings.cache_mode != "replay" and secret == NO_KEY:
        raise ServerRefused(
            f"no API key for {without_credentials(url)}. Set {KEY} (api_key); for a server of your"
            f' own, {URL} (base_url). user="embedded" and the shipped agents need neither.'
        )
    return settings.model_copy(update={"base_url": url, "api_key": key})


def public_url(settings: ChatSettings) -> str:
    """The address that these settings mean, without credentials: fit for records."""
    return without_credentials(settings.base_url or read_variable(URL) or OPENAI_URL)


def locate_server(name: str, settings: ChatSettings | None = None) -> ChatSettings:
    """How the server of an agent, user or judge is reached: of openai:MODEL@URL at the address of
    its name, which is sent the key only where it is that of the environment; else as the settings
    say. CardError for an address that is none.
    """
    settings, (model, sign, rest) = settings or ChatSettings(), name.partition(ADDRESS)
    if not sign or not uses_server(name):
        return settings
    if problem := find_problem(url := f"http{rest}"):
        raise CardError(f"the address of {one_line(model, max_chars=80)} {problem}.")
    if find_credentials(url):
        raise CardError(
            f"the address of {one_line(model, max_chars=80)} holds a password, which would stand in"
            f" records: {URL} may hold one, with the model's name alone."
        )
    is_usual = without_credentials(url) == without_credentials(read_variable(URL) or OPENAI_URL)
    key = settings.api_key if is_usual else SecretStr(NO_KEY)
    return settings.model_copy(update={"base_url": url, "api_key": key})


def find_problem(url: str) -> str | None:
    """What is wrong with an address, never repeating it; None for a good one."""
    if "?" in url or "#" in url:
        return f"must not hold a query (? or #): leave it out. A key belongs in {KEY} (api_key)"
    if not url.isprintable() or " " in url:
        return "must not hold blanks or control characters"
    try:
        parts = urlsplit(url)
        if "@" in parts.path:
            return "must not hold @ behind its host: in a password, write %2F for a slash"
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return None
    except ValueError:  # a port or an IPv6 address that is none
        pass
    return "must begin with http:// or https:// and a host, and usually ends in /v1"


def without_credentials(url: str) -> str:
    """An address fit to be shown; one without a scheme, as a proxy's may be, is of http."""
    scheme, _, rest = (url if "://" in url else f"http://{url}").partition("://")
    host, _, path = rest.partition("?")[0].partition("#")[0].partition("/")
    return f"{scheme.lower()}://{host.rpartition('@')[2]}/{path}".rstrip("/")


class _Withheld(NamedTuple):
    """Stands in a pickle for a secret."""

    variable: str
    public: str
    """What of it may be shown."""
    salt: bytes
    check: bytes
    """A short hash that tells a wrong secret; empty for one that was the variable's."""


def _change_fields(state: dict[Any, Any], change: Any) -> dict[Any, Any]:
    fields = state["__dict__"]
    secret = {name: change(fields[name]) for name in ("api_key", "base_url")}
    return state | {"__dict__": fields | secret}


def _withhold(value: SecretStr | str | None) -> Any:
    if isinstance(value, SecretStr) and value.get_secret_value() != NO_KEY:
        secret, variable, public = value.get_secret_value(), KEY, ""
    elif isinstance(value, str) and find_credentials(value):
        secret, variable, public = value, URL, without_credentials(value)
    else:
        return value
    salt = os.urandom(16)
    check = b"" if secret == read_variable(variable) else _hash(secret, salt)
    return _Withheld(variable, public, salt, check)


def _recover(value: Any) -> Any:
    if not isinstance(value, _Withheld):
        return value
    recovered = read_variable(value.variable)
    is_meant = not value.public or without_credentials(recovered) == value.public
    if recovered and is_meant and value.check in (b"", _hash(recovered, value.salt)):
        return recovered if value.public else SecretStr(recovered)
    origin = "was not in the environment" if value.check else f"came from {value.variable}"
    raise ServerRefused(
        f"a key or password of these settings {origin}, and is never pickled with them. Set"
        f" {value.variable} to it where they are unpickled, or make them there."
    )


def _hash(secret: str, salt: bytes) -> bytes:
    return hashlib.blake2b(secret.encode(), salt=salt, digest_size=4).digest()
