"""OpenReward through its own server and client, over HTTP on loopback."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("openreward")

import aiohttp
from integrations.drivers.openreward import connect, serve, task_of
from integrations.failing import FailsInTurn
from integrations.scripted import RUDE, UTTERANCES, find_private, hold_episode
from openreward.api.environments.client import Environment as RemoteEnvironment
from openreward.api.errors import ToolCallError, ToolFailed
from openreward.environments import Server

from rlver_gym.core.agent import agent_prompt
from rlver_gym.core.library import library
from rlver_gym.integrations.episodes import TextEpisode
from rlver_gym.integrations.openreward import make_environment
from rlver_gym.util.errors import ServerRefused, UserFailed

pytestmark = [
    pytest.mark.usefixtures("close_shared_clients"),
    # a session that is over makes the request, and does not send it
    pytest.mark.filterwarnings("ignore:coroutine 'resumable_sse' was never awaited"),
]
PERSONA = library().ids("train")[3]
SECRET = "amina is afraid of the letter"


USERS = {
    "Speechless": FailsInTurn(0, UserFailed("no words", SECRET)),
    "Refused": FailsInTurn(1, ServerRefused(f"400: bad prompt: {SECRET}")),
    "Broken": FailsInTurn(1, ValueError(SECRET)),
}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    others = [make_environment(user, name=name) for name, user in USERS.items()]
    with serve(Server([make_environment(seeds=(1, 2)), *others])) as url:
        yield url


@pytest.fixture
def env(address: str) -> Iterator[RemoteEnvironment]:
    with connect(address) as env:
        yield env


def episode(seed: int = 5, **options) -> TextEpisode:
    """What the core gives, without a server."""
    return hold_episode(PERSONA, seed, **options)


def test_it_lists_splits_tasks_and_one_tool(env: RemoteEnvironment) -> None:
    assert env.list_splits() == ["train", "validation", "test", "demo"]
    assert env.num_tasks("demo") == 2 * len(library().ids("demo"))
    first = library().ids("demo")[0]
    specs = [task.task_spec for task in env.list_tasks("demo")[:2]]
    assert specs == [{"persona": first, "seed": 1}, {"persona": first, "seed": 2}]
    (say,) = env.list_tools()
    assert say.name == "say"
    assert say.input_schema is not None
    assert list(say.input_schema["properties"]) == say.input_schema["required"] == ["message"]


def test_a_split_that_does_not_exist_is_refused(env: RemoteEnvironment) -> None:
    with pytest.raises(aiohttp.ClientResponseError, match="Invalid split"):
        env.list_tasks("all")


def test_the_prompt_tells_the_policy_what_to_do_and_gives_the_first_words(
    env: RemoteEnvironment,
) -> None:
    opening = episode().messages[-1]["content"]
    with env.session(task_of(PERSONA, 5)) as session:
        told, first_words = (block.text for block in session.get_prompt())
        system, user = session.get_messages("openai")
    assert told.startswith(agent_prompt())
    assert "`say`" in told
    assert first_words == opening
    assert (system, user) == (
        {"role": "system", "content": told},
        {"role": "user", "content": opening},
    )


def test_the_episode_finishes_and_then_nothing_more_can_be_said(env: RemoteEnvironment) -> None:
    with env.session(split="train", index=0) as session:
        outputs = [session.call_tool("say", {"message": RUDE})]
        while not outputs[-1].finished:
            outputs.append(session.call_tool("say", {"message": RUDE}))
        with pytest.raises(ToolCallError, match="episode_finished"):
            session.call_tool("say", {"message": "Sorry."})
    assert 1 < len(outputs) < 8
    assert [one.finished for one in outputs[:-1]] == [False] * (len(outputs) - 1)


@pytest.mark.parametrize("arguments", [{}, {"text": "Hello"}, {"message": "Hello", "emotion": 9}])
def test_other_arguments_are_refused_and_cost_no_turn(env: RemoteEnvironment, arguments) -> None:
    with env.session(task_of(PERSONA)) as session:
        with pytest.raises(ToolCallError, match="input_validation"):
            session.call_tool("say", arguments)
        assert session.call_tool("say", {"message": "Hello"}).metadata == {"turn": 1}


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"persona": "nobody", "seed": 0}, "no persona 'nobody'.*rlver-gym personas list"),
        ({"seed": 0}, "it needs a persona"),
        ({"persona": PERSONA, "seed": "1"}, "a seed"),
        ({"persona": PERSONA, "seed": -1}, "integers from 0"),
    ],
)
def test_a_task_that_names_nobody_is_refused_with_the_remedy(
    env: RemoteEnvironment, spec, says: str
) -> None:
    task = task_of(PERSONA)
    task.task_spec = spec
    with pytest.raises(aiohttp.ClientResponseError, match=says), env.session(task):
        pass


@pytest.mark.parametrize("user", ["Refused", "Broken"])
def test_an_error_that_may_quote_the_persona_stays_on_the_server(
    address: str, user: str, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        connect(address, user) as env,
        env.session(task_of(PERSONA, name=user)) as session,
        pytest.raises(ToolFailed, match="log says why") as failure,
    ):
        session.call_tool("say", {"message": "What happened?"})
    assert SECRET not in str(failure.value)
    assert SECRET in caplog.text


def test_a_user_without_first_words_gives_no_prompt(address: str) -> None:
    with (
        connect(address, "Speechless") as env,
        env.session(task_of(PERSONA, name="Speechless")) as session,
        pytest.raises(aiohttp.ClientResponseError, match="no score") as failure,
    ):
        session.get_prompt()
    assert SECRET not in str(failure.value)


def test_what_the_person_feels_thinks_and_needs_does_not_leave_the_server() -> None:
    server, sent = Server([make_environment()]), bytearray()
    app = server.app

    async def recorded(scope, receive, send):
        async def record(message):
            sent.extend(message.get("body", b""))
            await send(message)

        await app(scope, receive, record if scope["type"] == "http" else send)

    server.app = recorded  # pyright: ignore[reportAttributeAccessIssue]
    with serve(server) as url, connect(url) as env:
        env.list_tasks("train")
        env.list_tools()
        with env.session(task_of(PERSONA, 5)) as session:
            session.get_prompt()
            session.get_messages()
            session.list_tools()
            for utterance in UTTERANCES:
                session.call_tool("say", {"message": utterance})
    assert not find_private(sent.decode(), PERSONA, 5, UTTERANCES)


def test_many_sessions_at_once_give_what_each_gives_alone(env: RemoteEnvironment) -> None:
    def play(seed: int) -> list[float | None]:
        with env.session(task_of(PERSONA, seed)) as session:
            return [session.call_tool("say", {"message": one}).reward for one in UTTERANCES]

    with ThreadPoolExecutor(24) as pool:
        together = list(pool.map(play, range(24)))
    for seed, rewards in enumerate(together):
        alone = episode(seed)
        assert rewards == [alone.say(one).reward for one in UTTERANCES]
