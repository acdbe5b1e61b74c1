"""The benchmark, with an agent that says the utterances."""

import gymnasium as gym
from integrations.drivers import Played

from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import run_case
from rlver_gym.environment.episode import Case


class Reciting:
    def __init__(self, utterances):
        self.utterances = utterances

    def reply(self, messages):
        return self.utterances[sum(message.speaker == "agent" for message in messages)]


def play(persona, seed, utterances, user="embedded"):
    plan = BenchPlan(
        env="RLVER-Empathy-v0", agents=("listener",), persona_ids=(persona,), user=user
    )
    case = Case("reciting", persona, _draw_scene_seed(persona, seed))
    episode = run_case(case, plan, lambda *_: Reciting(utterances))
    turns = [turn for turn in episode.turns if turn.outcome != "failed"]
    texts = [episode.opening, *(turn.reply for turn in turns)]
    return Played([float(turn.reward) for turn in turns], texts, episode.outcome == "failed")


def _draw_scene_seed(persona, seed):
    """What an environment draws for this seed; the benchmark is given it directly."""
    env = gym.make("RLVER-Empathy-v0", persona=persona)
    env.reset(seed=seed)
    return env.get_wrapper_attr("session").scene.seed
