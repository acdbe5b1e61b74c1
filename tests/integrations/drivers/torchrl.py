"""TorchRL: a rollout of the ChatEnv with a policy that says the utterances."""

from collections.abc import Sequence

from tensordict import TensorDictBase
from torchrl.data.llm import History
from torchrl.modules.llm.policies import ChatHistory

from rlver_gym.integrations.episodes import EpisodeSpec
from rlver_gym.integrations.gyms.torchrl import EmpathyChatEnv


class ScriptedPolicy:
    """Adds an utterance to the history, as TorchRL's language models do."""

    def __init__(self, utterances: Sequence[str]) -> None:
        self._utterances = iter(utterances)

    def __call__(self, tensordict: TensorDictBase) -> TensorDictBase:
        prompt = tensordict["history"].prompt
        said = History(role="assistant", content=next(self._utterances), batch_size=(1,))
        full = prompt.append(said, inplace=False, dim=-1)
        return tensordict.set("history", ChatHistory(prompt=prompt, full=full, batch_size=(1,)))


def play(persona: str, seed: int, utterances: Sequence[str]) -> list[float]:
    """The rewards of an episode, until it ends or nothing is left to say."""
    env = EmpathyChatEnv([EpisodeSpec(persona, seed)])
    data = env.rollout(len(utterances), ScriptedPolicy(utterances))
    return data["next", "reward"].flatten().tolist()
