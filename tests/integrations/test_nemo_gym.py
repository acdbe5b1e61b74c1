"""NeMo Gym's interface of a resources server: against a stand-in for its base classes, and, where
it is installed, against these themselves and through its agent, over HTTP on loopback.
"""

import asyncio
import inspect
import json
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from integrations.drivers import nemo_gym as driver
from integrations.drivers.nemo_gym import make_client, make_server, respond
from pydantic import ValidationError

from rlver_gym.core.agent import agent_prompt
from rlver_gym.core.library import library
from rlver_gym.environment.env import EmpathyEnv
from rlver_gym.integrations.episodes import EpisodeHost, EpisodeSpec, list_specs
from rlver_gym.integrations.nemo_gym import make_rows
from rlver_gym.io.errors import DialogueError, ServerRefused, UnknownName, UserFailed
from rlver_gym.users import EmbeddedUser

needs_nemo_gym = pytest.mark.skipif(not driver.IS_REAL, reason="needs nemo-gym itself")
SPEC = EpisodeSpec(library().ids("train")[3], 5)
ROW = {"responses_create_params": {"input": []}, **SPEC.to_dict()}
UTTERANCES = ("I'm listening. What happened?", "That sounds exhausting.", "What would help you?")
RUDE = "Shut up, you are pathetic. Nobody cares."
SECRET = "amina is afraid of the letter"


class FailsLater(EmbeddedUser):
    """Fails in the second turn."""

    def appraise(self, scene, emotion, dialogue):
        if dialogue.turns:
            raise UserFailed("the server is away", SECRET)
        return super().appraise(scene, emotion, dialogue)


class Speechless(EmbeddedUser):
    """Has no first words."""

    def open(self, scene, emotion):
        raise UserFailed("no words", SECRET)


class Refused(EmbeddedUser):
    """Its server refuses, and quotes what it was asked."""

    def appraise(self, scene, emotion, dialogue):
        raise ServerRefused(f"400: bad prompt: {SECRET}")


def response(text, reasoning=""):
    return driver.NeMoGymResponse.model_validate(respond(text, reasoning))


def reference(utterances):
    episode = EpisodeHost().episode(SPEC)
    episode.begin()
    for one in utterances:
        if episode.say(one).done:
            break
    return episode


def test_a_session_is_a_dialogue_and_what_comes_back_is_what_was_said():
    server = make_server()

    async def play():
        opening = await server.reset(ROW, "a")
        return opening, [await server.step(response(one), ROW, "a") for one in UTTERANCES]

    (opening, info), steps = asyncio.run(play())
    episode = reference(UTTERANCES)
    assert (opening, info) == (episode.messages[1]["content"], {})
    replies = [one["content"] for one in episode.messages[3::2]]
    assert steps == [
        (reply, reward, False, False, {})
        for reply, reward in zip(replies, episode.rewards, strict=True)
    ]


def test_the_last_turn_has_no_observation_and_lists_the_rewards():
    server = make_server()

    async def play():
        await server.reset(ROW, "a")
        while not (step := await server.step(response(RUDE), ROW, "a"))[2]:
            pass
        return step

    observation, reward, _, truncated, info = asyncio.run(play())
    episode = reference([RUDE] * 8)
    assert (observation, reward, truncated) == (None, episode.rewards[-1], False)
    assert info == {"turn_rewards": episode.rewards, "reply": episode.messages[-1]["content"]}
    assert not set(info) & set(EmpathyEnv.privileged_info)


def test_reasoning_is_not_heard():
    server = make_server()

    async def play():
        await server.reset(ROW, "a")
        return await server.step(response(UTTERANCES[0], reasoning=RUDE), ROW, "a")

    assert asyncio.run(play())[1] == reference(UTTERANCES[:1]).rewards[0]


def test_sessions_do_not_disturb_each_other_and_one_can_begin_anew():
    server = make_server()

    async def play(session, utterances):
        await server.reset(ROW, session)
        return [(await server.step(response(one), ROW, session))[1] for one in utterances]

    async def play_all():
        return await asyncio.gather(play("a", UTTERANCES), play("b", [RUDE] * 2))

    kind, rude = asyncio.run(play_all())
    assert kind == reference(UTTERANCES).rewards
    assert rude == reference([RUDE] * 2).rewards
    assert asyncio.run(play("b", UTTERANCES)) == kind


def test_a_session_that_is_closed_or_never_began_has_no_dialogue():
    server = make_server()

    async def close():
        await server.reset(ROW, "a")
        await server.close_session("a")
        await server.close_session("a")
        assert not server.session_state
        with pytest.raises(DialogueError, match="/reset"):
            await server.step(response("Hello"), ROW, "a")

    asyncio.run(close())


@pytest.mark.parametrize("user", [FailsLater, Refused])
def test_a_user_that_fails_is_an_error_that_tells_no_secret_and_ends_the_session(user):
    server = make_server()
    server._host = EpisodeHost(user())

    async def play():
        await server.reset(ROW, "a")
        for one in UTTERANCES[:2]:
            await server.step(response(one), ROW, "a")

    with pytest.raises(UserFailed, match="no score") as caught:
        asyncio.run(play())
    assert SECRET not in f"{caught.value!r}{caught.value.answer}"
    assert not server.session_state


def test_a_user_without_first_words_is_an_error_of_the_reset():
    server = make_server()
    server._host = EpisodeHost(Speechless())
    with pytest.raises(UserFailed, match="no score"):
        asyncio.run(server.reset(ROW, "a"))
    assert not server.session_state


def test_rows_name_every_persona_of_the_split_and_can_be_written_as_json():
    rows = [json.loads(json.dumps(one)) for one in make_rows(split="demo", seeds=(1, 2))]
    assert [EpisodeSpec.from_dict(one) for one in rows] == list_specs(split="demo", seeds=(1, 2))
    told = {"role": "system", "content": agent_prompt()}
    assert all(one["responses_create_params"] == {"input": [told]} for one in rows)
    assert rows[0]["agent_ref"]["name"] == "rlver_empathy_agent"


def test_what_cannot_be_served_is_an_error_that_says_why():
    with pytest.raises(UnknownName, match="nobody"):
        make_server(user="nobody")
    with pytest.raises(ValidationError, match="OPENAI_API_KEY"):
        make_server(user="openai:any", options={"api_key": "secret"})
    with pytest.raises(DialogueError, match="list_specs"):
        asyncio.run(make_server().reset({"responses_create_params": {}}, "a"))


@needs_nemo_gym
def test_the_stand_in_has_the_methods_of_the_base_class():
    from resources_servers.gymnasium import GymnasiumServer, extract_text

    stand_in = driver.StandInGymnasiumServer
    for name in ("reset", "step", "close_session", "_cleanup_session"):
        theirs, ours = (
            inspect.signature(getattr(one, name)) for one in (GymnasiumServer, stand_in)
        )
        assert list(theirs.parameters) == list(ours.parameters)
        assert inspect.iscoroutinefunction(getattr(GymnasiumServer, name)) == (
            inspect.iscoroutinefunction(getattr(stand_in, name))
        )
    assert set(stand_in.model_fields) <= set(GymnasiumServer.model_fields)
    said = respond("Hello", reasoning="a thought")
    as_stand_in = driver.StandInResponse.model_validate(said)
    assert driver.stand_in_extract_text(as_stand_in) == extract_text(response("Hello", "a thought"))


@contextmanager
def serve(app):
    """The port on which an app is served."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def run_agent(server, utterances):
    """The rollout of the agent, whose model says the utterances, and what the model was given."""
    from fastapi import FastAPI, Request
    from nemo_gym import server_utils
    from nemo_gym.config_types import ModelServerRef, ResourcesServerRef
    from responses_api_agents.gymnasium_agent.app import (
        GymnasiumAgent,
        GymnasiumAgentConfig,
        GymnasiumAgentRunRequest,
    )

    inputs, policy, resources = [], FastAPI(), server.setup_webserver()
    server.setup_exception_middleware(resources)

    @policy.post("/v1/responses")
    async def speak(request: Request) -> dict:
        inputs.append((await request.json())["input"])
        return respond(utterances[len(inputs) - 1])

    (row,) = [one for one in make_rows(seeds=[SPEC.seed]) if one["persona"] == SPEC.persona]
    config = GymnasiumAgentConfig(
        host="",
        port=0,
        entrypoint="app.py",
        name="agent",
        max_steps=8,
        resources_server=ResourcesServerRef(type="resources_servers", name="rlver"),
        model_server=ModelServerRef(type="responses_api_models", name="policy"),
    )

    async def run(client):
        settings = server_utils.GlobalAIOHTTPAsyncClientConfig()
        async with server_utils.set_global_aiohttp_client(settings):
            agent = GymnasiumAgent(config=config, server_client=client)
            request = GymnasiumAgentRunRequest.model_validate(row)
            return await agent.run(SimpleNamespace(cookies={}), request)

    try:
        with serve(policy) as policy_port, serve(resources) as port:
            return asyncio.run(run(make_client({"rlver": port, "policy": policy_port}))), inputs
    finally:
        server_utils.global_aiohttp_client_exit()


@needs_nemo_gym
def test_the_agent_plays_a_dialogue_and_the_rollout_has_its_rewards():
    server = make_server()
    rollout, inputs = run_agent(server, [RUDE] * 8)
    episode = reference([RUDE] * 8)
    assert rollout.reward == sum(episode.rewards)
    assert rollout.info["turn_rewards"] == episode.rewards
    assert (rollout.terminated, rollout.truncated) == (True, False)
    spoken = [
        one["content"] if isinstance(one["content"], str) else one["content"][0]["text"]
        for one in inputs[-1]
    ]
    assert spoken == [one["content"] for one in episode.messages[:-2]]
    assert not server.session_state


@needs_nemo_gym
def test_a_user_that_fails_is_a_rollout_that_fails_without_a_reward():
    import aiohttp

    server = make_server()
    server._host = EpisodeHost(FailsLater())
    with pytest.raises(aiohttp.ClientResponseError) as caught:
        run_agent(server, UTTERANCES)
    assert caught.value.status == 500
    assert b"no score" in caught.value.response_content
    assert SECRET.encode() not in caught.value.response_content
