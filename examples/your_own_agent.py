"""Your own agent in the benchmark: a class with one method, compared with two baselines on the demo personas.

python examples/your_own_agent.py
(the same from the command line: PYTHONPATH=examples rlver-gym bench --split demo --agent your_own_agent:Curious --agent listener)
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from rlver_gym import Message
from rlver_gym.benchmark.plan import BenchPlan
from rlver_gym.benchmark.run import run
from rlver_gym.benchmark.score import scores
from rlver_gym.benchmark.table import leaderboard


class Curious:
    """Asks one question after the other."""

    questions = (
        "What happened?",
        "And then?",
        "What was that like?",
        "Who else was there?",
        "How is it now?",
        "What do you wish for?",
    )

    def reply(self, messages: Sequence[Message]) -> str:
        asked = sum(message.speaker == "agent" for message in messages)
        return self.questions[asked % len(self.questions)]


def main() -> None:
    plan = BenchPlan(agents=("your_own_agent:Curious", "listener", "comfort"), split="demo", seeds=1)
    with tempfile.TemporaryDirectory() as folder:
        episodes = list(run(plan, Path(folder)))
    Console().print(leaderboard(scores(episodes), "eight demo personas"))


if __name__ == "__main__":
    main()
