"""The options that say how chat servers are reached."""

import ipaddress
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from rlver_gym.bench.costs import estimate_reading
from rlver_gym.cli.model_options import Command, FieldOption, add_model_options
from rlver_gym.llm_client.settings import ChatSettings, public_url
from rlver_gym.users.llm import sort_options
from rlver_gym.util.errors import CardError, RunError
from rlver_gym.util.keyboard import can_ask
from rlver_gym.util.model_names import get_chat_model, uses_server
from rlver_gym.util.terminal import SafeConsole

User = Annotated[
    str,
    typer.Option(
        help="Who is talked to: embedded (reads words, not meaning), reader, openai:MODEL, or"
        " MODULE:NAME."
    ),
]
UserOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="An option of the user, such as samples=3 or thinking=false of openai:MODEL; repeat it"
        " for more.",
    ),
]
BaseUrl = Annotated[
    str | None, typer.Option(help=ChatSettings.model_fields["base_url"].description)
]
AgentOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="What agents of the form openai:MODEL are asked with, such as temperature=0,"
        " top_p=0.9, max_tokens=300 or thinking=false; for hf:PATH system, style, temperature,"
        " max_reply_tokens and dtype, in place of what its folder says. Repeat it for more.",
    ),
]

_CHAT = {
    "base_url": FieldOption(),
    "response_cache": FieldOption(Path),
    "cache_mode": FieldOption(),
    "concurrency": FieldOption(int, min=1),
    "budget": FieldOption(list[str], "LIMIT"),
    "prices": FieldOption(str, "IN,OUT"),
    "timeout_s": FieldOption(float, "SECONDS", 0.1),
    "omit": FieldOption(list[str], "FIELD"),
    "max_wait_s": FieldOption(float, "SECONDS", 0),
}


def add_chat_options(*leave_out: str) -> Callable[[Command], Command]:
    """Options of a command that say how chat servers are reached, as its parameter `chat`."""
    offered = {name: option for name, option in _CHAT.items() if name not in leave_out}
    return add_model_options(ChatSettings, "chat", offered)


def parse_user_options(words: list[str] | None, option: str = "--user-option") -> dict[str, Any]:
    """NAME=VALUE words as options: numbers, true, false and null by their type, all else as text.

    CardError for a key, or a word without =.
    """
    options: dict[str, Any] = {}
    for word in words or ():
        name, sign, value = word.partition("=")
        if not name or not sign:
            raise CardError(f"{option} {word!r} is not NAME=VALUE.")
        value = value.strip()
        try:
            is_switch = value.lower() in ("true", "false")
            options[name.strip()] = json.loads(value.lower() if is_switch else value)
        except ValueError:
            options[name.strip()] = value
    if "api_key" in options:
        raise CardError(
            f"{option} api_key would stand in the run's files. Set OPENAI_API_KEY instead."
        )
    return options


def parse_seconds(value: str, option: str) -> float | None:
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


def require_chat_model(option: str, name: str, why: str = "") -> str:
    """The model of "openai:MODEL"; CardError for anybody who is no model behind a server."""
    if (model := get_chat_model(name)) is None:
        hint = f"Name it as openai:MODEL{'; ' if why else '.'}{why}"
        raise CardError(f"{option} {name!r} is no model behind a server. {hint}")
    return model


Yes = Annotated[
    bool,
    typer.Option(
        "--yes",
        help=("Do not ask before what costs money; needed where there is no terminal to ask at."),
    ),
]


def has_prices(settings: ChatSettings) -> bool:
    """Whether prices are given and the server is not on this machine or in a private network."""
    host = urlsplit(public_url(settings)).hostname or ""
    try:
        near = ipaddress.ip_address(host).is_private
    except ValueError:
        near = "." not in host or host.endswith((".local", ".internal"))
    return settings.prices is not None and not near


def announce_cost(
    names: Iterable[str], places: Sequence[tuple[int, bool]], options: Mapping[str, Any], yes: bool
) -> None:
    """What servers will be asked for, on standard error; a person at a terminal is asked where it
    costs money. Of each place: how many replies are judged, and whether they are to one moment.
    """
    for name in filter(uses_server, names):
        asked, settings = sort_options(name.removeprefix("openai:"), dict(options))
        requests = [asked.samples * (asked.orders if at_once else 1) for _, at_once in places]
        replies = sum(count * many for (count, _), many in zip(places, requests, strict=True))
        cost = estimate_reading(sum(requests), replies, settings)
        SafeConsole(stderr=True).print_line(f"{name}: {cost}; what is kept is free")
        confirm_cost([settings], yes)


def confirm_cost(servers: Iterable[ChatSettings], yes: bool) -> None:
    """Ask the person at the terminal before what costs money. RunError where nobody is there."""
    if yes or not any(map(has_prices, servers)):
        return
    if not can_ask():
        raise RunError(
            "this run costs money, and nobody is at a terminal to agree to it. Nothing was asked"
            " for yet: add --yes to go on (--budget money=N bounds it)."
        )
    if not typer.confirm("Go on?", default=True, err=True):
        raise typer.Exit(2)
