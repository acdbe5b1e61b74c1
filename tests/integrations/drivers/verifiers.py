"""verifiers: what `vf-eval rlver-empathy` loads, on one task, with a reciting chat server."""

import asyncio

import verifiers.v1 as vf
from integrations.drivers import Played

from rlver_gym.testing import ChatServer


def play(persona, seed, utterances, user="embedded"):
    with say_in_turn(utterances) as server:
        episode = run_task(server, persona, seed, agent={"max_turns": len(utterances)}, user=user)
        asked = [one["messages"] for one in server.requests]
    texts = [one["content"] for one in asked[-1] if one["role"] == "user"] if asked else []
    if not episode.ok:
        return Played([], texts, failed="UserFailed" in str(episode.errors))
    return Played(episode.traces[0].info["turn_rewards"], texts)


def say_in_turn(utterances):
    """A server whose model says these, whatever it is told."""
    return ChatServer(
        lambda body: utterances[sum(one["role"] == "assistant" for one in body["messages"])]
    )


def run_task(server, persona, seed, **config):
    """One rollout; `config` is what stands under `--env`."""
    taskset = {"id": "rlver-empathy", "split": "all", "seeds": [seed]}
    env = vf.load_environment(vf.resolve_env_config({"taskset": taskset, **config}))
    (task,) = env.taskset.include(names=[persona])
    context = vf.ModelContext(
        model="scripted",
        client=vf.EvalClientConfig(base_url=server.base_url),
        sampling=vf.SamplingConfig(),
    )

    async def run():
        async with env.serving():
            return await env.run_slot(*env.slots(task), context)

    return asyncio.run(run())
