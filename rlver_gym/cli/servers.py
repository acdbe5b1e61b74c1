"""The options that say how chat servers are reached."""

import ipaddress
import json
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, get_args
from urllib.parse import urlsplit

import typer
from pydantic import ValidationError

from rlver_gym.agents import uses_server
from rlver_gym.io.errors import CardError
from rlver_gym.io.frozen import explain_problem
from rlver_gym.llm_client.settings import (
    Budget,
    CacheMode,
    ChatSettings,
    OmittedField,
    Prices,
    public_url,
)

User = Annotated[
    str, typer.Option(help="Who is talked to: embedded, openai:MODEL, or MODULE:NAME.")
]
UserOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help=(
            "An option of the user, such as samples=3 or calls=1 of openai:MODEL; repeat it for"
            " more."
        ),
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        help=(
            "Where openai:MODEL is served; default: OPENAI_BASE_URL. The key is read from"
            " OPENAI_API_KEY."
        )
    ),
]
CacheFile = Annotated[
    Path | None,
    typer.Option(
        help=(
            "The file that keeps what servers answer. Default: response_cache.sqlite in the run"
            " folder."
        )
    ),
]
Mode = Annotated[
    str,
    typer.Option(
        help=(
            "auto: the response cache, and the server for the rest. replay: the cache alone."
            " record: ask anew. off: no cache."
        )
    ),
]
Concurrency = Annotated[
    int, typer.Option(min=1, help="Most requests, and dialogues, under way at once.")
]
TimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout",
        min=0.1,
        metavar="SECONDS",
        help=(
            "How long a request may take, all its attempts together. Raise it for a slow server;"
            " waiting behind others does not count."
        ),
    ),
]
Omit = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FIELD",
        help=(
            "A field that the server does not take and is not sent:"
            f" {', '.join(get_args(OmittedField))} (its text then begins the first message); repeat"
            " it for more."
        ),
    ),
]
AgentOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help=(
            "What agents of the form openai:MODEL are asked with, such as temperature=0, top_p=0.9,"
            " max_tokens=300 or thinking=false; repeat it for more."
        ),
    ),
]
MaxWait = Annotated[
    float,
    typer.Option(
        min=0,
        metavar="SECONDS",
        help="How long an outage of a server is waited for before the run stops.",
    ),
]
BudgetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--budget",
        metavar="LIMIT",
        help=(
            "Stop cleanly after calls=N, tokens=N or money=N of a server, money in the currency of"
            " --prices; repeat it for more."
        ),
    ),
]
PricesOption = Annotated[
    str | None,
    typer.Option(
        "--prices",
        metavar="IN,OUT",
        help=(
            "What a million prompt and completion tokens cost, as 0.15,0.60: two numbers, in any"
            " currency. All costs are then in that."
        ),
    ),
]


def chat_settings(
    base_url: str | None = None,
    response_cache: Path | None = None,
    cache_mode: str = "auto",
    concurrency: int = 64,
    budget: list[str] | None = None,
    prices: str | None = None,
    max_wait_s: float | None = None,
    timeout_s: float = 60.0,
    omit: list[str] | None = None,
) -> ChatSettings:
    """The settings that the options mean. CardError names what is wrong."""
    if cache_mode not in get_args(CacheMode):
        raise CardError(
            f"--cache-mode {cache_mode!r} is not one of: {', '.join(get_args(CacheMode))}."
        )
    for field in omit or ():
        if field not in get_args(OmittedField):
            raise CardError(
                f"--omit {field!r} is no field to leave out: {', '.join(get_args(OmittedField))}."
            )
    asked: dict[str, Any] = {
        "timeout_s": timeout_s,
        "omit": tuple(omit or ()),
        "base_url": base_url,
        "response_cache": response_cache,
        "cache_mode": cache_mode,
        "concurrency": concurrency,
        "budget": dict(map(_parse_limit, budget or ())),
        "prices": _parse_prices(prices) if prices is not None else None,
    }
    if max_wait_s is not None:
        asked["max_wait_s"] = max_wait_s
    try:
        return ChatSettings.model_validate(asked)
    except ValidationError as error:
        raise CardError(
            "; ".join(
                ": ".join(filter(None, (".".join(map(str, one["loc"])), explain_problem(one))))
                for one in error.errors()
            )
        ) from None


def user_options(words: list[str] | None, option: str = "--user-option") -> dict[str, Any]:
    """NAME=VALUE words as options: numbers, true, false and null by their type, all else as text.

    CardError for a key, or a word without =.
    """
    options = {
        name: _parse_value(value)
        for name, value in (_split_pair(word, option) for word in words or ())
    }
    if "api_key" in options:
        raise CardError(
            f"{option} api_key would be written into the run. Set OPENAI_API_KEY instead."
        )
    return options


def agent_options(words: list[str] | None, agents: Sequence[str]) -> dict[str, Any]:
    """The same for agents. CardError where none of them is asked over a server."""
    if words and not any(map(uses_server, agents)):
        raise CardError(
            "--agent-option is for agents of the form openai:MODEL, and none is named (--agent)."
        )
    return user_options(words, "--agent-option")


def seconds_or_none(value: str, option: str) -> float | None:
    """A positive number of seconds; None for "none". CardError for anything else."""
    if value == "none":
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e9:
        raise CardError(f"{option} {value!r} is neither a positive number of seconds nor none.")
    return seconds


def costs_money(settings: ChatSettings) -> bool:
    """Whether prices are given and the server is not on this machine or in a private network."""
    host = urlsplit(public_url(settings)).hostname or ""
    try:
        near = ipaddress.ip_address(host).is_private
    except ValueError:
        near = "." not in host or host.endswith((".local", ".internal"))
    return settings.prices is not None and not near


def _parse_limit(word: str) -> tuple[str, str]:
    name, sign, value = (part.strip() for part in word.partition("="))
    if not sign or name not in Budget.model_fields:
        raise CardError(
            f"--budget {word!r} does not say of what. Give money=N, tokens=N or calls=N, such as"
            " --budget calls=500."
        )
    return name, value


def _parse_prices(words: str) -> Prices:
    try:
        prompt, completion = map(float, words.split(","))
        if isfinite(prompt + completion):
            return Prices(prompt=prompt, completion=completion)
    except ValueError:  # also pydantic's, for a negative one
        pass
    raise CardError(
        f"--prices {words!r} is not IN,OUT: what a million prompt tokens and a million completion"
        " tokens cost, such as --prices 0.15,0.60."
    )


def _split_pair(word: str, option: str) -> tuple[str, str]:
    name, sign, value = word.partition("=")
    if not name or not sign:
        raise CardError(f"{option} {word!r} is not NAME=VALUE.")
    return name.strip(), value.strip()


def _parse_value(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value
