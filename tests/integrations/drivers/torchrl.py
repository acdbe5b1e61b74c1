"""TorchRL: a rollout of the ChatEnv with a policy that says the utterances."""

import math

from adapters.torchrl_env import EmpathyChatEnv
from integrations.drivers import Played
from torchrl.data.llm import History
from torchrl.modules.llm.policies import ChatHistory

from rlver_gym.integrations.episodes import EpisodeSpec
from rlver_gym.util.errors import UserFailed


class ScriptedPolicy:
    """Adds an utterance to the history, as TorchRL's language models do."""

    def __init__(self, utterances):
        self._utterances = iter(utterances)

    def __call__(self, tensordict):
        prompt = tensordict["history"].prompt
        said = History(role="assistant", content=next(self._utterances), batch_size=(1,))
        full = prompt.append(said, inplace=False, dim=-1)
        return tensordict.set("history", ChatHistory(prompt=prompt, full=full, batch_size=(1,)))


def play(persona, seed, utterances, user="embedded"):
    env = EmpathyChatEnv([EpisodeSpec(persona, seed)], user=user)
    try:
        data = env.rollout(len(utterances), ScriptedPolicy(utterances))
    except UserFailed:
        return Played([], None, failed=True)
    last = data["next", "history"].prompt[0, -1]
    said = zip(list(last.role), list(last.content), strict=True)
    rewards = data["next", "reward"].flatten().tolist()
    failed = not data["next", "valid"].all()
    assert math.isnan(rewards[-1]) == failed
    texts = [content for role, content in said if role == "user"]
    return Played(rewards[:-1] if failed else rewards, texts, failed)
