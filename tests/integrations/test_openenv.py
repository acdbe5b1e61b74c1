"""OpenEnv through a real server and its own clients, over WebSockets and HTTP on loopback."""

import asyncio
import importlib.util
import json
from pathlib import Path

import pytest

pytest.importorskip("openenv")

import requests
from failing import FailsInTurn
from integrations.drivers.openenv import serve
from integrations.scripted import UTTERANCES, find_private, hold_episode
from openenv.cli.__main__ import app as command_line
from openenv.validation.graders import Subject
from openenv.validation.graders.runtime import (
    ObservationSchemaGrader,
    RewardWellFormedGrader,
    StateContractGrader,
)
from openenv.validation.parsers.openenv_yaml import OpenEnvYamlParser
from openenv.validation.runtime.collector import collect_runtime_evidence
from openenv.validation.runtime.contracts import load_runtime_plan
from typer.testing import CliRunner
from websockets.sync.client import connect

from rlver_gym import EmpathyEnv
from rlver_gym.integrations.episodes import EpisodeHost
from rlver_gym.integrations.openenv import (
    EmpathyAction,
    EmpathyClient,
    EmpathyEnvironment,
    make_app,
)
from rlver_gym.library.personas import library
from rlver_gym.util.errors import ServerRefused

pytestmark = [
    pytest.mark.usefixtures("close_shared_clients"),
    # the client of OpenEnv's validation
    pytest.mark.filterwarnings("ignore:.*must be used as a context manager:DeprecationWarning"),
]
SPACE = Path(__file__).parents[2] / "examples" / "openenv_space"
PERSONA = library().ids("train")[3]
SECRET = "amina is afraid of the letter"


def episode(seed=5, persona=PERSONA, **options):
    return hold_episode(persona, seed, **options)


def say(client, utterance):
    return client.step(EmpathyAction(message=utterance))


def exchange(socket, kind, **data):
    socket.send(json.dumps({"type": kind, "data": data}))
    return json.loads(socket.recv())


@pytest.fixture(scope="module")
def url():
    with serve(make_app(seeds=(1, 2))) as address:
        yield address


@pytest.fixture
def client(url):
    with EmpathyClient(base_url=url).sync() as client:
        yield client


# Episodes


def test_without_a_seed_the_state_names_the_one_that_was_drawn(client):
    first, state = client.reset(split="demo", episode_id="mine"), client.state()
    known = {"episode_id": "mine", "step_count": 0, "persona": state.persona, "seed": state.seed}
    assert state.model_dump() == known
    assert state.persona in library().ids("demo")
    again = client.reset(persona=state.persona, seed=state.seed)
    assert again.observation.message == first.observation.message
    client.reset(split="demo")
    assert client.state().seed != state.seed


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"persona": "nobody"}, "no persona 'nobody'.*rlver-gym personas list"),
        ({"persona": 3, "seed": 0}, "it needs a persona"),
        ({"persona": PERSONA, "split": "train"}, "leave them out"),
        ({"split": "trian"}, "Did you mean 'train'"),
        ({"split": "demo", "index": 16}, "0 to 15"),
        ({"split": "demo", "index": -1}, "0 to 15"),
        ({"seed": -1}, "integers from 0"),
        ({"seed": "1"}, "integers from 0"),
        ({"person": PERSONA}, "Did you mean 'persona'"),
    ],
)
def test_a_reset_that_cannot_be_followed_is_refused_with_the_remedy(client, options, says):
    client.reset(persona=PERSONA, seed=5)
    with pytest.raises(RuntimeError, match=says):
        client.reset(**options)
    with pytest.raises(RuntimeError, match=r"no episode.*reset"):
        say(client, "Hello")


# Tasks


def test_tasks_and_splits_are_listed_and_met(url, client):
    def ask(path, **body):
        return requests.post(f"{url}/rlver_gym/{path}", json=body).json()

    splits = requests.get(f"{url}/rlver_gym/splits").json()
    assert [one["name"] for one in splits] == ["train", "validation", "test", "demo"]
    people = library().ids("test")
    assert ask("num_tasks", split="test") == {"num_tasks": 2 * len(people)}
    tasks = ask("tasks", split="test")["tasks"]
    assert tasks == [{"persona": one, "seed": seed} for one in people for seed in (1, 2)]
    assert ask("task_range", split="test", start=1, stop=3)["tasks"] == tasks[1:3]
    assert ask("task", split="test", index=3)["task"] == tasks[3]
    client.reset(split="test", index=3)
    assert {"persona": client.state().persona, "seed": client.state().seed} == tasks[3]
    client.reset(split="test", index=3, seed=9)
    assert (client.state().persona, client.state().seed) == (tasks[3]["persona"], 9)


@pytest.mark.parametrize("split", [None, "test"])
def test_the_seed_draws_the_persona_that_gymnasium_draws(client, split):
    for seed in range(5):
        env = EmpathyEnv(split=split)
        _, info = env.reset(seed=seed)
        client.reset(split=split, seed=seed)
        assert client.state().persona == info["persona"]


# Many at once


def test_64_sessions_at_once_give_what_each_gives_alone(url):
    people = library().ids("train")

    async def play(number, all_began):
        async with EmpathyClient(base_url=url) as env:
            await env.reset(persona=people[number], seed=number)
            await all_began.wait()
            rewards = [(await say(env, one)).reward for one in UTTERANCES]
            await all_began.wait()
        return rewards

    async def one_more(all_began):
        await all_began.wait()
        with pytest.raises(RuntimeError, match="CAPACITY_REACHED"):
            async with EmpathyClient(base_url=url) as env:
                await env.reset()
        await all_began.wait()

    async def play_all():
        barrier = asyncio.Barrier(65)
        return await asyncio.gather(*(play(one, barrier) for one in range(64)), one_more(barrier))

    alone = [episode(number, people[number]) for number in range(64)]
    expected = [[each.say(one).reward for one in UTTERANCES] for each in alone]
    assert asyncio.run(play_all())[:-1] == expected


def test_an_utterance_that_is_sent_again_is_not_said_again(url):
    alone = episode()
    with connect(f"{url.replace('http', 'ws')}/ws") as socket:
        exchange(socket, "reset", persona=PERSONA, seed=5)
        first = exchange(socket, "step", message=UTTERANCES[0], turn=1)
        again = exchange(socket, "step", message=UTTERANCES[0], turn=1)
        ahead = exchange(socket, "step", message=UTTERANCES[1], turn=3)
        second = exchange(socket, "step", message=UTTERANCES[1], turn=2)
    assert again["type"] == ahead["type"] == "error"
    assert "turn 2 is next" in again["data"]["message"]
    rewards = [alone.say(one).reward for one in UTTERANCES[:2]]
    assert [first["data"]["reward"], second["data"]["reward"]] == rewards


# Users that fail, and what stays on the server


@pytest.mark.parametrize("error", [ServerRefused(f"400: {SECRET}"), ValueError(SECRET)])
def test_an_error_that_may_quote_the_persona_stays_on_the_server_and_the_same_can_be_said_again(
    error, caplog
):
    app = make_app(FailsInTurn(1, error, times=1))
    with serve(app) as address, EmpathyClient(base_url=address).sync() as client:
        client.reset(persona=PERSONA, seed=5)
        with pytest.raises(RuntimeError, match=r"try again.*log says why") as failure:
            say(client, UTTERANCES[0])
        assert say(client, UTTERANCES[0]).reward == episode().say(UTTERANCES[0]).reward
    assert SECRET not in str(failure.value)
    assert SECRET in caplog.text


@pytest.fixture(params=["", "true"], ids=["plain", "with the web page"])
def recorded(request, monkeypatch):
    monkeypatch.setenv("ENABLE_WEB_INTERFACE", request.param)
    monkeypatch.setenv("GRADIO_ANALYTICS_ENABLED", "False")

    async def make():
        return make_app()

    # On a loop: without one, gradio makes several, and closes none.
    app, sent = asyncio.run(make()), bytearray()

    async def recording(scope, receive, send):
        async def record(message):
            sent.extend(message.get("body") or message.get("bytes") or b"")
            sent.extend((message.get("text") or "").encode())
            await send(message)

        await app(scope, receive, send if scope["type"] == "lifespan" else record)

    with serve(recording) as address:
        yield address, sent


def test_what_the_person_feels_thinks_and_needs_does_not_leave_the_server(recorded, request):
    address, sent = recorded
    for path in ("metadata", "schema", "state", "openapi.json", "rlver_gym/splits"):
        assert requests.get(f"{address}/{path}").ok
    requests.post(f"{address}/rlver_gym/tasks", json={"split": "train"})
    requests.post(f"{address}/reset", json={"persona": PERSONA, "seed": 5})
    with EmpathyClient(base_url=address).sync() as client:
        client.reset(persona=PERSONA, seed=5)
        for utterance in UTTERANCES:
            say(client, utterance)
            client.state()
        with pytest.raises(RuntimeError):
            client.reset(persona="nobody")
    if "web" in request.node.callspec.id:
        assert requests.get(f"{address}/web/").ok
        requests.post(f"{address}/web/reset", json={"persona": PERSONA, "seed": 5})
        for utterance in UTTERANCES:
            requests.post(f"{address}/web/step", json={"action": {"message": utterance}})
        assert requests.get(f"{address}/web/state").json()["step_count"] == 3
    assert not find_private(sent.decode(errors="replace"), PERSONA, 5, UTTERANCES)


# OpenEnv's own checks, and its web page


def test_openenv_validate_accepts_the_space_and_its_server():
    spec = importlib.util.spec_from_file_location("space_app", SPACE / "server" / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    static = CliRunner().invoke(command_line, ["validate", str(SPACE), "--level", "static"])
    assert (static.exit_code, static.output.splitlines()[-1]) == (0, "Verdict: PASS")
    with serve(module.app) as address:
        running = CliRunner().invoke(command_line, ["validate", "--url", address])
        evidence = collect_runtime_evidence(
            address,
            load_runtime_plan(SPACE, (manifest := OpenEnvYamlParser().parse(SPACE)).execution),
            episode_timeout_s=60,
        )
        counts = {
            split: requests.post(f"{address}/rlver_gym/num_tasks", json={"split": split}).json()
            for split in manifest.capabilities.declared_task_count
        }
    assert (running.exit_code, running.output.splitlines()[-1]) == (0, "Verdict: PASS")
    assert {
        split: one["num_tasks"] for split, one in counts.items()
    } == manifest.capabilities.declared_task_count
    assert evidence.failure_reason is None
    subject = Subject(SPACE, manifest, None, None, SPACE / "outputs", evidence)
    for grader in (RewardWellFormedGrader(), ObservationSchemaGrader(), StateContractGrader()):
        result = grader.run(subject)
        assert (result.status.value, result.evidence) == (
            "pass",
            ["observed runtime contract holds"],
        )


def test_the_web_page_draws_the_dialogue_and_nothing_that_was_typed_is_code():
    env = EmpathyEnvironment(EpisodeHost())
    assert env.render_web({}) == ""
    opening = env.reset(persona=PERSONA, seed=5).message
    env.step(EmpathyAction(message="<script>alert(1)</script>"))
    page = env.render_web({})
    assert page.count("<p>") == 3
    assert opening.replace("'", "&#x27;") in page
    assert "<script>" not in page
