"""TextArena: a dialogue as a game for one player, in TextArena's usual loop, with a scripted agent.

python examples/textarena_game.py [PERSONA]     (needs: what adapters/textarena_env.py names)
With a model: put ta.agents.OpenRouterAgent(model_name=...) in the agent's place, or
ta.agents.HumanAgent() to play yourself.
"""

# pyright: reportMissingImports=false
import sys

import adapters.textarena_env  # noqa: F401  (registers the games)
import textarena as ta

from rlver_gym.agents.baselines import Listener
from rlver_gym.core.dialogue import Message
from rlver_gym.integrations.episodes import EpisodeSpec


class ListenerAgent(ta.Agent):
    """Reads the person's lines off the observation, and listens to them."""

    def __call__(self, observation: str) -> str:
        lines = [line.partition("] ") for line in observation.splitlines() if line]
        dialogue = [
            Message("user" if role == "[Person" else "agent", words)
            for role, _, words in lines
            if role in ("[Person", "[Supporter")
        ]
        return Listener(seed=0).reply(dialogue)


def main(persona: str) -> None:
    env = ta.make("RLVER-Empathy-v0", specs=[EpisodeSpec(persona)])
    agent = ListenerAgent()
    env.reset(num_players=1, seed=7)
    observation, done = "", False
    while not done:
        _, observation = env.get_observation()
        done, step_info = env.step(agent(observation))
        print(f"turn {step_info['turn']}: {step_info['reward']:+.0f}")
    rewards, game_info = env.close()
    print(observation)
    if rewards is None:
        print("\nno result:", game_info[0]["reason"])
    else:
        print(f"\nfinal emotion {rewards[0]:.2f}, outcome: {game_info[0]['reason']}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "clara-credit-taken")
