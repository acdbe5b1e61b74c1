"""SkyRL-Gym's environment, offline: rows of a dataset, a dialogue for each of them as SkyRL's
generator plays it, and the metrics that SkyRL logs.

python examples/skyrl_gym_episode.py [ROWS.jsonl]     (needs: what adapters/skyrl_gym_env.py names)
With a name it also writes the rows, to train on with SkyRL: data.train_data='["ROWS.jsonl"]'
"""

# pyright: reportMissingImports=false
import json
import sys
from pathlib import Path
from typing import Any

import skyrl_gym
from adapters.skyrl_gym_env import ENV_ID, make_rows
from skyrl_gym.metrics import aggregate_for_environment

from rlver_gym.agents.baselines import Listener
from rlver_gym.core.dialogue import Message


def run_episode(row: dict[str, Any], policy: Listener) -> tuple[list[float], dict[str, Any]]:
    """The rewards of the turns, and the metrics."""
    extras = {key: value for key, value in row.items() if key not in ("prompt", "env_class")}
    env = skyrl_gym.make(row["env_class"], env_config={}, extras=extras)
    messages, _ = env.init(row["prompt"])
    rewards: list[float] = []
    done = False
    while not done:
        dialogue = [
            Message("agent" if one["role"] == "assistant" else "user", one["content"])
            for one in messages[1:]
        ]
        action = policy.reply(dialogue)
        output = env.step(action)
        rewards.append(output["reward"])
        messages += [{"role": "assistant", "content": action}, *output["observations"]]
        done = output["done"]
    return rewards, env.get_metrics()


def main() -> None:
    rows = make_rows(split="demo", seeds=[0])
    if len(sys.argv) > 1:
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        Path(sys.argv[1]).write_text("".join(lines), encoding="utf-8")
    ended = []
    for row in rows:
        rewards, metrics = run_episode(row, Listener(seed=0))
        ended.append(metrics)
        print(f"{row['persona']:26s} gain {metrics['gain']:+5.0f}  {rewards}")
    print({name: round(mean, 2) for name, mean in aggregate_for_environment(ENV_ID, ended).items()})


if __name__ == "__main__":
    main()
