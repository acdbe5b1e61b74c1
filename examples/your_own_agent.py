"""Your own agent in the benchmark: a class with one method, compared with two baselines on the demo
personas.

python examples/your_own_agent.py
(the same from the command line: PYTHONPATH=examples rlver-gym bench --split demo --agent
your_own_agent:Heartfelt --agent listener)
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from rlver_gym import Message
from rlver_gym.agents.strategies import Strategy, compose_utterance
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import run
from rlver_gym.bench.score import score_agents
from rlver_gym.bench.table import build_score_rows
from rlver_gym.util.terminal import SafeConsole


class Heartfelt:
    """First listens, then by turns names a feeling and gives credit.

    The words come from the shipped strategies; yours may come from anywhere.
    """

    order = (Strategy.LISTEN, Strategy.REFLECT_FEELING, Strategy.PRAISE, Strategy.TAKE_SIDE)

    def reply(self, messages: Sequence[Message]) -> str:
        turn = sum(message.speaker == "agent" for message in messages)
        return compose_utterance(self.order[turn % len(self.order)], messages, turn)


def main() -> None:
    plan = BenchPlan(
        agents=("your_own_agent:Heartfelt", "listener", "comfort"), split="demo", seeds=1
    )
    with tempfile.TemporaryDirectory() as folder:
        episodes = list(run(plan, Path(folder)))
    rows = build_score_rows(score_agents(episodes))
    SafeConsole(width=100).print_table(rows, "eight demo personas")


if __name__ == "__main__":
    main()
