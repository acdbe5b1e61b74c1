"""OpenEnv: a server of episodes, and several sessions with its typed client at once.

python examples/openenv_client.py [URL]     (needs: pip install '.[openenv]')
Without a URL it starts a server of its own; examples/openenv_space/server/app.py is one to keep.
"""

# pyright: reportMissingImports=false
import asyncio
import sys
import threading
import time

import uvicorn

from rlver_gym.integrations.openenv import EmpathyAction, EmpathyClient, make_app

REPLIES = (  # what a policy would say
    "I'm listening. What happened?",
    "That sounds exhausting, and you carried it alone.",
    "What would you want them to understand?",
)


def start_server() -> str:
    config = uvicorn.Config(make_app(), host="127.0.0.1", port=0, log_level="warning")
    server = uvicorn.Server(config)
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.1)
    return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"


async def play(url: str, seed: int) -> str:
    """One episode: the same person for all, in the mood that the seed gives."""
    async with EmpathyClient(base_url=url) as env:
        result = await env.reset(split="train", index=0, seed=seed)
        lines, rewards = [f"person: {result.observation.message}"], []
        for reply in REPLIES:
            result = await env.step(EmpathyAction(message=reply))
            lines += [f"policy: {reply}", f"person: {result.observation.message}"]
            rewards.append(result.reward)
    return "\n".join([*lines, f"seed {seed}, rewards: {rewards}"])


async def main() -> None:
    url = sys.argv[1] if len(sys.argv) > 1 else start_server()
    for episode in await asyncio.gather(*(play(url, seed) for seed in range(4))):
        print(episode, end="\n\n")


if __name__ == "__main__":
    asyncio.run(main())
