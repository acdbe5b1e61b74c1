"""SkyRL-Gym's text environments: `rlver_empathy`, registered when this module is imported, and the
rows of a dataset for it. To be copied.

Needs: pip install skyrl-gym==0.4.0

    env = skyrl_gym.make("rlver_empathy", env_config={"user": "embedded"}, extras=row)

SkyRL trains on such an environment with `generator.max_turns` at least as high as the card's turns,
`generator.use_conversation_multi_turn=true`, and this module imported where the generator runs (in
the remote entry point). Where the user is a server, `max_env_workers` is how many are waited for at
the same time.
"""

# pyright: reportAttributeAccessIssue=false
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from typing import Any

import skyrl_gym
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput, ConversationType
from skyrl_gym.metrics import default_aggregate_metrics

from rlver_gym import env_card
from rlver_gym.integrations.episodes import DEFAULT_ENV, EpisodeSpec, list_specs, share_host

ENV_ID = "rlver_empathy"


def make_rows(
    env: str = DEFAULT_ENV, split: Any = None, seeds: Iterable[int] = (0,)
) -> list[dict[str, Any]]:
    """The rows of a dataset, as JSON lines or Parquet what SkyRL's `train_data` takes. All columns
    but `prompt` and `env_class` become the extras of the environment. The prompt's last message is
    empty: the person's first words take its place in `init`.
    """
    return [
        {
            "data_source": env,
            "prompt": [
                {"role": "system", "content": spec.system_prompt},
                {"role": "user", "content": ""},
            ],
            "env_class": ENV_ID,
            "reward_spec": {"method": "rule", "ground_truth": ""},
            **spec.to_dict(),
        }
        for spec in list_specs(env, split, seeds)
    ]


class EmpathyTextEnv(BaseTextEnv):
    """One dialogue. SkyRL puts each reward on the last token of its turn. With
    `step_wise_trajectories`, or a `generator.chat_template`, the reward of the last turn alone
    counts: make the rows with `env="RLVER-Sparse-v0"` then, whose last reward is the final emotion.

    Where the user failed, the turn ends the episode with reward 0, metadata and metrics say that it
    is not `valid`, and `aggregate_metrics` leaves it out of all other figures (SkyRL's own average
    of rewards counts it); `mask_failed` keeps it out of the loss.
    """

    def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
        """`env_config`: `user` and its options, as a mapping or a dataclass; all environments with
        equal ones share a user. `extras`: a row of `make_rows`, and `max_turns`.
        """
        super().__init__()
        spec = EpisodeSpec.from_dict(extras or {})
        turns = env_card(spec.env).turns
        self.max_turns = int((extras or {}).get("max_turns", turns))
        if self.max_turns < turns:
            raise ValueError(f"dialogues would be cut off. Set generator.max_turns={turns}.")
        config = vars(env_config) if is_dataclass(env_config) else env_config or {}
        written_to = "the environment's spec and in SkyRL's log"
        self._episode = share_host({"written_to": written_to, **config}).episode(spec)

    def init(self, prompt: ConversationType) -> tuple[ConversationType, dict[str, Any]]:
        """The prompt, the person's first words ("" when the user failed) its last, and `valid`."""
        self.turns = 0
        opening = self._episode.begin()
        before = prompt[:-1] if prompt and prompt[-1]["role"] == "user" else prompt
        return [*before, {"role": "user", "content": opening}], {"valid": self._episode.valid}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Say something. The last observation is empty: the last words are in the metadata."""
        self.turns += 1
        result = self._episode.say(action)
        return BaseTextEnvStepOutput(
            observations=[] if result.done else [{"role": "user", "content": result.reply}],
            reward=result.reward,
            done=result.done,
            metadata={"valid": result.valid, "reply": result.reply},
            postprocessed_action=None,
        )

    def get_metrics(self) -> dict[str, Any]:
        metrics = self._episode.metrics
        failed = metrics.pop("outcome_failed")
        return {**metrics, "valid": 1.0 - failed}

    @staticmethod
    def aggregate_metrics(metrics: list[dict[str, Any]]) -> dict[str, Any]:
        """Means over the episodes whose user did not fail, and `valid`, their share."""
        ended = [one for one in metrics if one]
        if not ended:
            return {}
        means = default_aggregate_metrics([one for one in ended if one["valid"]])
        return {**means, "valid": sum(one["valid"] for one in ended) / len(ended)}


def mask_failed(output: Any) -> Any:
    """The output of SkyRL's `agent_loop`, without a token to learn from where the user failed. The
    rewards before the failure still count in the mean of its group. In a generator of your own:

        class Generator(SkyRLGymGenerator):
            def _post_process_agent_loop_output(self, output, env_extras, trajectory_id):
                return mask_failed(output)
    """
    steps = output.step_outputs if hasattr(output, "step_outputs") else [output]
    if steps and steps[-1].env_metrics.get("valid", 1.0) == 0.0:
        for one in steps:
            one.loss_mask = [0] * len(one.loss_mask)
    return output


skyrl_gym.register(id=ENV_ID, entry_point=f"{__name__}:{EmpathyTextEnv.__name__}")
