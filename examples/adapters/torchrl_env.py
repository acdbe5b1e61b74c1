"""TorchRL's ChatEnv with a person in it: a history in, a history and a reward out, turn by turn. To
be copied.

Needs: pip install 'torchrl==0.14.*' torch~=2.13 transformers~=5.17 safetensors~=0.5

For policies that are language models (`TransformersWrapper`, `vLLMWrapper`, `LLMCollector`,
`MCAdvantage`, `GRPOLoss`). TorchRL's own GymWrapper takes `gym.make("RLVER-Strategy-v0")`, with
vectors, and `gym.make("RLVER-Empathy-v0")`, with NonTensorData; for users that may fail make it
with `on_failure="truncate"` and add `env.set_info_dict_reader(ValidReader())`.
"""

# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import torch
from tensordict import NonTensorData, TensorDict, TensorDictBase
from torchrl.data import Categorical, Composite, NonTensor, Unbounded
from torchrl.data.llm import History
from torchrl.envs.gym_like import BaseInfoDictReader
from torchrl.envs.llm import ChatEnv
from torchrl.modules.llm.policies import ChatHistory

from rlver_gym.integrations.episodes import EpisodeHost, EpisodeSpec, TextEpisode
from rlver_gym.util.errors import UserFailed

SHAPE = torch.Size((1,))
"""The batch size: one dialogue at a time. For more at once: TorchRL's AsyncEnvPool."""


class ValidReader(BaseInfoDictReader):
    """Writes `"valid"`, shape (), from a GymWrapper's info: False when the user failed. Such an
    episode is no score, whatever reward stands there; leave it out.
    """

    def __call__(self, info_dict: Mapping[str, Any], tensordict: TensorDictBase) -> TensorDictBase:
        """What GymWrapper calls."""
        return tensordict.set("valid", torch.tensor(info_dict["valid"]))

    @property
    def info_spec(self) -> Composite:
        """What is written."""
        return Composite(valid=Categorical(2, shape=(), dtype=torch.bool))


class EmpathyChatEnv(ChatEnv):
    """Dialogues with the persons of a list, one after the other, over and over.

    Reads `("history", "full")`, whose last message is the policy's; thoughts are not
    heard. Writes, batch size (1,):

    - `("history", "prompt")`: the dialogue so far, the system prompt first
    - `"query"`: whom it is with, "PERSONA/SEED", the group of `MCAdvantage`
    - `"reward"`, shape (1, 1, 1): each turn's, as the card says, by default the change
      of the emotion in points, in [-10, 10]
    - `"valid"`, shape (1, 1): False when the user failed. The dialogue is then truncated and its
      reward NaN: it is no score, so leave such a trajectory out of the buffer.

    What the policy may not see, such as the emotion, is in none of them.
    """

    def __init__(
        self, specs: Sequence[EpisodeSpec], *, user: Any = "embedded", **user_options: Any
    ) -> None:
        """`specs`: with whom, in this order; for groups (GRPO) name each as often as a group is
        large.
        """
        super().__init__(batch_size=SHAPE, input_mode="history")
        flag = Categorical(2, shape=(1, 1), dtype=torch.bool)
        self.full_observation_spec["query"] = NonTensor(shape=SHAPE, example_data="persona/0")
        self.full_observation_spec["valid"] = flag.clone()
        self.full_reward_spec = Composite(reward=Unbounded((1, 1, 1)), shape=SHAPE)
        ends = {name: flag.clone() for name in ("done", "terminated", "truncated")}
        self.full_done_spec = Composite(ends, shape=SHAPE)
        self.full_state_spec = Composite(shape=SHAPE)
        self._upcoming = cycle(tuple(specs))
        self._host = EpisodeHost(user, **user_options)

    def _reset(self, tensordict: TensorDictBase | None = None, **options: Any) -> TensorDictBase:
        """Begin with the next of the list. UserFailed when it has no first words."""
        self._episode = self._host.episode(next(self._upcoming))
        self._episode.begin()
        if not self._episode.valid:
            raise UserFailed("the user failed before its first words. Call reset() again.")
        return self._observe(self._episode, History.from_chats([self._episode.messages]))

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Say the last of `("history", "full")`, which is the policy's."""
        history = tensordict["history"].full
        result = self._episode.say(history[0, -1].content)
        answer = History(role=self.user_role, content=result.reply, batch_size=SHAPE)
        output = self._observe(self._episode, history.append(answer, inplace=False, dim=-1))
        reward = result.reward if result.valid else float("nan")
        return output.set("reward", torch.tensor([[[reward]]]))

    def _observe(self, episode: TextEpisode, history: History) -> TensorDict:
        done, valid = torch.tensor([[episode.done]]), torch.tensor([[episode.valid]])
        output = TensorDict(
            {
                "valid": valid,
                "done": done,
                "terminated": done & valid,
                "truncated": done & ~valid,
            },
            batch_size=SHAPE,
        )
        query = f"{episode.spec.persona}/{episode.spec.seed}"
        output.set("query", NonTensorData(query, batch_size=SHAPE))
        return output.set("history", ChatHistory(prompt=history, batch_size=SHAPE))


def fill_log_probs(trajectory: TensorDictBase) -> TensorDictBase:
    """Writes `("log_probs", "full")`, which GRPOLoss reads: of each turn's reply as it was sampled,
    in nats, and NaN where the loss is to leave a token out: before the reply, and at its first
    token when that has 0, which TransformersWrapper writes there whatever was sampled.

    The `postproc` of an LLMCollector. Let the learner read tokens, `input_mode="tokens"`: from a
    history TorchRL tokenizes again what was sampled, and may get other tokens.
    """
    for turn in trajectory.unbind(0):
        log_probs = turn["log_probs"]
        prompt = torch.full(turn["tokens"].prompt.shape, float("nan"))
        response = log_probs.response.clone()
        response[:1][response[:1] == 0] = float("nan")
        log_probs.full = torch.cat([prompt, response])
    return trajectory
