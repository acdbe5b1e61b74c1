"""`rlver-gym studio`: look, compare, talk, try another reply and rate, in a browser."""

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from rlver_gym.bench.guard import AGENT_TIMEOUT_S
from rlver_gym.bench.suite import read_suite
from rlver_gym.cli.options import AgentTimeout, AllowCode, Personas
from rlver_gym.cli.servers import AgentOption, add_chat_options, parse_seconds, parse_user_options
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.studio.speakers import Speakers
from rlver_gym.util.errors import needs_extra
from rlver_gym.util.terminal import print_text


@add_chat_options("response_cache", "cache_mode")
def studio(
    *,
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders of benchmark runs and of training runs; none to talk only."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 takes a free one.")] = 8_765,
    personas: Personas = None,
    out: Annotated[
        Path, typer.Option(help="Where first-person ratings are kept: how replies felt to you.")
    ] = Path("runs/first-person"),
    agent: Annotated[
        list[str] | None,
        typer.Option(
            help="Who replies beside the shipped agents, which understand nothing: openai:MODEL,"
            " hf:PATH, or MODULE:NAME; repeat it for more."
        ),
    ] = None,
    agent_option: AgentOption = None,
    suite: Annotated[
        Path | None, typer.Option(help="A suite, whose agents reply too, within its budget.")
    ] = None,
    allow_code: AllowCode = False,
    agent_timeout: AgentTimeout = f"{AGENT_TIMEOUT_S:g}",
    chat: ChatSettings,
) -> None:
    """Look at runs, compare agents, try another reply at any turn, talk, and rate blindly, in a
    browser on this machine.

    The address that is printed holds a token: nobody else gets in. Nothing is loaded from anywhere,
    and only an --agent openai:MODEL sends words to its server (OPENAI_BASE_URL, OPENAI_API_KEY).
    Branches and ratings are kept in the run's folder: studio/branches.jsonl, and ratings.jsonl,
    which `rlver-gym rescore` reads. Needs Starlette and uvicorn, which the package's extra
    "studio" installs.

    Example: rlver-gym studio runs/my-run
    """
    names, options = agent or [], parse_user_options(agent_option, "--agent-option")
    if suite:
        plan = read_suite(suite, allow_code=allow_code).make_plan(chat, suite)
        names, chat = [*names, *plan.agents], plan.chat
        options = {**plan.agent_options, **options}
    with needs_extra("studio"):
        server_module = import_module("rlver_gym.studio.server")
    speakers = Speakers(names, chat, options, parse_seconds(agent_timeout, "--agent-timeout"))
    server = server_module.StudioServer(runs or [], out, personas, port, speakers)
    print_text(f"studio at {server.url}\nCtrl-C ends it.")
    server.run()
