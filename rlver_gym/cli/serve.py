"""`rlver-gym serve`: the environments over HTTP and WebSocket."""

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from rlver_gym.agents import uses_server
from rlver_gym.cli.options import Personas
from rlver_gym.cli.servers import (
    BaseUrl,
    BudgetOption,
    Concurrency,
    Omit,
    PricesOption,
    TimeoutOption,
    UserOption,
    chat_settings,
    user_options,
)
from rlver_gym.io.errors import CardError, needs_extra
from rlver_gym.io.field_errors import field_errors
from rlver_gym.serve.operation import ServeSettings, check_host, read_token
from rlver_gym.users import SentientUser, make_user


def serve(
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 takes a free one.")] = 8_000,
    user: Annotated[
        list[str] | None,
        typer.Option(
            help=(
                "Who can be talked to: embedded, openai:MODEL, or MODULE:NAME; repeat it to offer"
                " several, the default first. Default: embedded."
            )
        ),
    ] = None,
    user_option: UserOption = None,
    base_url: BaseUrl = None,
    concurrency: Concurrency = 64,
    budget: BudgetOption = None,
    prices: PricesOption = None,
    timeout: TimeoutOption = 60.0,
    omit: Omit = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            help=(
                "Environment id, or the path of an env card (.yaml); repeat it for more. Default:"
                " all shipped ones."
            )
        ),
    ] = None,
    personas: Personas = None,
    max_episodes: Annotated[int, typer.Option(min=1, help="Most open episodes.")] = 1_000,
    max_in_flight: Annotated[int, typer.Option(min=1, help="Most turns worked on at once.")] = 64,
    rate: Annotated[
        float,
        typer.Option(min=0, help="Most requests a second from one address; 0 for any number."),
    ] = 1_000,
    max_connections: Annotated[
        int, typer.Option(min=1, help="Most connections from one address at once.")
    ] = 1_024,
    idle_seconds: Annotated[
        float, typer.Option(min=0.1, help="An episode idle for longer is dropped.")
    ] = 900,
    token_file: Annotated[
        Path | None,
        typer.Option(help="Holds the token that clients must send. Default: RLVER_GYM_TOKEN."),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Serve other machines without a token.")
    ] = False,
    privileged: Annotated[
        bool,
        typer.Option(
            "--privileged",
            help="Send emotion, thoughts and the hidden need too, for the log of a trainer.",
        ),
    ] = False,
) -> None:
    """Serve the environments to other processes and machines.

    A client is gym.make("RLVER-Empathy-v0", url="http://127.0.0.1:8000"): the same observations,
    rewards and ends as without url. The interface is described at /docs, counts are at /metrics.

    Without TLS: put a proxy before it that adds it where others share the network. Needs FastAPI
    and uvicorn, which the package's extra "serve" installs.

    Example: RLVER_GYM_TOKEN=$(openssl rand -hex 32) rlver-gym serve --host 0.0.0.0
    """
    token = read_token(token_file)
    check_host(host, token, insecure=insecure)
    try:
        settings = ServeSettings(
            envs=tuple(env or ()),
            personas=personas,
            max_episodes=max_episodes,
            max_in_flight=max_in_flight,
            max_requests_per_s=rate,
            max_connections=max_connections,
            idle_s=idle_seconds,
            privileged=privileged,
        )
    except ValidationError as error:
        raise CardError("; ".join(field_errors(error))) from None
    chat = chat_settings(
        base_url,
        concurrency=concurrency,
        budget=budget,
        prices=prices,
        timeout_s=timeout,
        omit=omit,
    )
    names, options = user or ["embedded"], user_options(user_option)
    users = {name: _make_user(name, dict(chat), options, len(names) == 1) for name in names}
    with needs_extra("serve"):
        server_module = import_module("rlver_gym.serve.server")
    server = server_module.make_server(settings, token=token, users=users)
    listening = server_module.listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    typer.echo(f"serving at http://{shown}:{listening.getsockname()[1]}", err=False)
    server_module.collect_garbage_rarely()
    server_module.allow_files()
    server.run([listening])


def _make_user(
    name: str, chat: dict[str, Any], options: dict[str, Any], is_only: bool
) -> SentientUser:
    """A user. How servers are reached is for those that use one, options for all that take any."""
    if uses_server(name):
        return make_user(name, **{**chat, **options})
    takes_options = is_only or not name.startswith("embedded")
    return make_user(name, **(options if takes_options else {}))
