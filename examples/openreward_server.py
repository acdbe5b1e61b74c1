"""OpenReward: an environment server with every persona as a task, and its client, which plays one.

python examples/openreward_server.py          (needs: what adapters/openreward_env.py names)
python examples/openreward_server.py 8080     serves until it is stopped
"""

# pyright: reportMissingImports=false
import os
import socket
import sys
import threading
import time

os.environ.setdefault("OPENREWARD_DISABLE_UPDATE_CHECK", "1")  # it would ask PyPI
os.environ.setdefault("OPENREWARD_LOG_LEVEL", "ERROR")

from adapters.openreward_env import make_environment
from openreward import OpenReward
from openreward.environments import Server

REPLIES = (  # what a policy would say
    "I'm listening. What happened?",
    "That sounds exhausting, and you carried it alone.",
    "What would you want them to understand?",
)


def play(url: str) -> None:
    with OpenReward(base_url=url) as client:
        env = client.environments.get("RLVER-Empathy-v0", base_url=url)
        print(f"{env.num_tasks('train')} tasks to train with")
        with env.session(split="train", index=0) as session:
            print(f"person: {session.get_messages('openai')[-1]['content']}")
            for reply in REPLIES:
                output = session.call_tool("say", {"message": reply})
                print(f"policy: {reply}  ({output.reward:+})\nperson: {output.blocks[0].text}")


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def main() -> None:
    server = Server([make_environment(seeds=range(4))])
    if len(sys.argv) > 1:
        server.run("127.0.0.1", int(sys.argv[1]))
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    threading.Thread(target=server.run, args=("127.0.0.1", port), daemon=True).start()
    while not is_open(port):
        time.sleep(0.1)
    play(f"http://127.0.0.1:{port}")


if __name__ == "__main__":
    main()
