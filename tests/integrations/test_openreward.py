"""OpenReward through its own server and client, over HTTP on loopback."""

import pytest

pytest.importorskip("openreward")

import aiohttp
from adapters.openreward_env import make_environment
from failing import FailsInTurn
from integrations.drivers.openreward import connect, serve, task_of
from integrations.scripted import RUDE, UTTERANCES, find_private, hold_episode
from openreward.api.errors import ToolCallError, ToolFailed
from openreward.environments import Server

from rlver_gym.library.personas import library
from rlver_gym.util.errors import UserFailed

pytestmark = [
    # a session that is over makes the request, and does not send it
    pytest.mark.filterwarnings("ignore:coroutine 'resumable_sse' was never awaited")
]
PERSONA = library().ids("train")[3]
SECRET = "amina is afraid of the letter"
USERS = {
    "Speechless": FailsInTurn(0, UserFailed("no words", SECRET)),
    "Broken": FailsInTurn(1, ValueError(SECRET)),
}


@pytest.fixture(scope="module")
def recorded():
    others = [make_environment(user, name=name) for name, user in USERS.items()]
    server, sent = Server([make_environment(seeds=(1, 2)), *others]), bytearray()
    app = server.app

    async def recording(scope, receive, send):
        async def record(message):
            sent.extend(message.get("body", b""))
            await send(message)

        await app(scope, receive, record if scope["type"] == "http" else send)

    server.app = recording
    with serve(server) as url:
        yield url, sent


@pytest.fixture
def env(recorded):
    with connect(recorded[0]) as env:
        yield env


def test_it_lists_splits_tasks_and_one_tool(env):
    assert env.list_splits() == ["train", "validation", "test", "demo"]
    assert env.num_tasks("demo") == 2 * len(library().ids("demo"))
    first = library().ids("demo")[0]
    specs = [task.task_spec for task in env.list_tasks("demo")[:2]]
    assert specs == [{"persona": first, "seed": 1}, {"persona": first, "seed": 2}]
    assert [tool.name for tool in env.list_tools()] == ["say"]


def test_the_prompt_tells_of_the_tool_and_gives_the_first_words(env):
    with env.session(task_of(PERSONA, 5)) as session:
        system, user = session.get_messages("openai")
    assert "`say`" in system["content"]
    assert user["content"] == hold_episode(PERSONA, 5).messages[-1]["content"]


def test_the_episode_finishes_and_other_arguments_cost_no_turn(env):
    with env.session(split="train", index=0) as session:
        for arguments in ({}, {"text": "Hello"}, {"message": "Hello", "emotion": 9}):
            with pytest.raises(ToolCallError, match="input_validation"):
                session.call_tool("say", arguments)
        outputs = [session.call_tool("say", {"message": RUDE})]
        while not outputs[-1].finished:
            outputs.append(session.call_tool("say", {"message": RUDE}))
        with pytest.raises(ToolCallError, match="episode_finished"):
            session.call_tool("say", {"message": "Sorry."})
    turns = [output.metadata for output in outputs]
    assert turns == [{"turn": number + 1} for number in range(len(outputs))]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"persona": "nobody", "seed": 0}, "no persona 'nobody'.*rlver-gym personas list"),
        ({"seed": 0}, "it needs a persona"),
    ],
)
def test_a_task_that_names_nobody_is_refused_with_the_remedy(env, spec, says):
    task = task_of(PERSONA)
    task.task_spec = spec
    with pytest.raises(aiohttp.ClientResponseError, match=says), env.session(task):
        pass


@pytest.mark.parametrize(
    ("user", "error", "says"),
    [
        ("Broken", ToolFailed, "log says why"),
        ("Speechless", aiohttp.ClientResponseError, "no score"),
    ],
)
def test_what_the_person_feels_thinks_and_needs_does_not_leave_the_server(
    recorded, user, error, says
):
    url, sent = recorded
    with connect(url) as env, env.session(task_of(PERSONA, 5)) as session:
        env.list_tasks("train")
        session.get_messages()
        for utterance in UTTERANCES:
            session.call_tool("say", {"message": utterance})
    with (
        connect(url, user) as env,
        env.session(task_of(PERSONA, name=user)) as session,
        pytest.raises(error, match=says),
    ):
        session.get_messages() and session.call_tool("say", {"message": "What happened?"})
    assert not find_private(sent.decode(), PERSONA, 5, UTTERANCES)
    assert SECRET.encode() not in sent
