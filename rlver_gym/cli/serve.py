"""`rlver-gym serve`: the environments over HTTP."""

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from rlver_gym.cli.model_options import FieldOption, add_model_options
from rlver_gym.cli.servers import UserOption, add_chat_options, parse_user_options
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.serve.operation import ServeSettings, check_host, read_token
from rlver_gym.users import PLAIN_USERS, SentientUser, make_user
from rlver_gym.util.errors import needs_extra
from rlver_gym.util.model_names import uses_server
from rlver_gym.util.terminal import print_text

_SETTINGS = {
    "envs": FieldOption(list[str], flag="--env"),
    "personas": FieldOption(),
    "max_episodes": FieldOption(int, min=1),
    "max_in_flight": FieldOption(int, min=1),
    "max_connections": FieldOption(int, min=1),
    "idle_s": FieldOption(float, min=0.1, flag="--idle-seconds"),
    "privileged": FieldOption(bool),
}


@add_chat_options("response_cache", "cache_mode", "max_wait_s")
@add_model_options(ServeSettings, "settings", _SETTINGS)
def serve(
    *,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 takes a free one.")] = 8_000,
    user: Annotated[
        list[str] | None,
        typer.Option(
            help="Who can be talked to: embedded, reader, openai:MODEL, or MODULE:NAME; repeat it"
            " to offer several, the default first. Default: embedded."
        ),
    ] = None,
    user_option: UserOption = None,
    chat: ChatSettings,
    settings: ServeSettings,
    token_file: Annotated[
        Path | None,
        typer.Option(help="Holds the token that clients must send. Default: RLVER_GYM_TOKEN."),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Serve other machines without a token.")
    ] = False,
) -> None:
    """Serve the environments to other processes and machines.

    A client is gym.make("RLVER-Empathy-v0", url="http://127.0.0.1:8000"): the same observations,
    rewards and ends as without url. /openapi.json describes the interface, counts are at
    /metrics.

    Without TLS: put a proxy before it that adds it where others share the network. Needs FastAPI
    and uvicorn, which the package's extra "serve" installs.

    Example: RLVER_GYM_TOKEN=$(openssl rand -hex 32) rlver-gym serve --host 0.0.0.0
    """
    token = read_token(token_file)
    check_host(host, token, insecure=insecure)
    names, options = user or ["embedded"], parse_user_options(user_option)
    users = {name: _make_user(name, dict(chat), options, len(names) == 1) for name in names}
    with needs_extra("serve"):
        server_module = import_module("rlver_gym.serve.server")
    server = server_module.EpisodeServer(settings, token=token, users=users, host=host, port=port)
    print_text(f"serving at {server.url}")
    server.run()


def _make_user(
    name: str, chat: dict[str, Any], options: dict[str, Any], is_only: bool
) -> SentientUser:
    """A user. How servers are reached is for those that use one, options for all that take any."""
    if uses_server(name):
        return make_user(name, **{**chat, **options})
    takes_options = is_only or name not in PLAIN_USERS
    return make_user(name, **(options if takes_options else {}))
