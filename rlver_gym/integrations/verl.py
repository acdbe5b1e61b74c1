"""verl's agent loop: dialogues with exact token ids, and an advantage for each turn.

`agent_loop.yaml`, named by `actor_rollout_ref.rollout.agent.agent_loop_config_path`:

    - name: rlver_empathy
      _target_: rlver_gym.integrations.verl.EmpathyAgentLoop
      rewards: turn
      max_reply_tokens: 256

The data are `dataset_rows(...)` as parquet. `algorithm.adv_estimator=rlver_turn` needs this module
in the trainer's process: VERL_USE_EXTERNAL_MODULES=rlver_gym.integrations.verl. Written for verl
0.9.1 with `trainer.use_v1=True`, its default. The extra runs agent loops on a CPU, and excludes the
extra `train`; to train, install verl's own extra for vLLM or SGLang beside it.
"""

# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from rlver_gym.core.agent import agent_prompt
from rlver_gym.integrations.episodes import EpisodeSpec, TextEpisode, share_host
from rlver_gym.util.errors import TrainingError, UserFailed, needs_extra

with needs_extra("verl"):
    import torch
    from torch import Tensor
    from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput
    from verl.trainer.ppo.core_algos import register_adv_est
    from verl.utils.profiler import simple_timer

    from rlver_gym.policy.learning.algorithms import compute_group_advantage_by_turn
    from rlver_gym.policy.models.renderer import Renderer

Rewards = Literal["turn", "final"]


def dataset_rows(specs: Iterable[EpisodeSpec], system: str | None = None) -> list[dict[str, Any]]:
    """Rows of verl's dataset; `system`: None for `agent_prompt()`. The person speaks first."""
    told = [{"role": "system", "content": system}] if system else []
    return [
        {
            "data_source": "rlver_gym",
            "agent_name": "rlver_empathy",
            "prompt": [*told, {"role": "user", "content": ""}],
            "reward_model": {"style": "rule", "ground_truth": ""},
            "extra_info": {"index": index, **spec.to_dict()},
        }
        for index, spec in enumerate(specs)
    ]


class TurnRewardOutput(AgentLoopOutput):
    """An output whose `rm_scores` have each turn's reward at the last token of its reply."""

    turn_ends: list[int] = []  # noqa: RUF012 (pydantic copies it)
    """Of each turn, where its last sampled token stands in `response_ids`."""

    def as_dict(self) -> dict[str, Any]:
        output = super().as_dict()
        ends, scores = output.pop("turn_ends"), self.extra_fields["turn_scores"]
        rm_scores = torch.zeros_like(output["response_mask"], dtype=torch.float32)
        rm_scores[ends] = torch.tensor(scores)
        return output | {"rm_scores": rm_scores}


class _Tokens(NamedTuple):
    """A dialogue as tokens. They are only ever appended to."""

    prompt: list[int]
    response: list[int]
    mask: list[int]
    """1 where the policy sampled the token, else 0."""
    logprobs: list[float]
    """In nats, 0 where the policy did not sample. Empty when the server gives none."""
    turn_ends: list[int]

    def append(self, ids: Sequence[int], logprobs: Sequence[float] | None, sampled: bool) -> None:
        self.response.extend(ids)
        self.mask.extend([int(sampled)] * len(ids))
        if sampled:
            self.turn_ends.append(len(self.response) - 1)
            self.logprobs.extend(logprobs or ())
        elif self.logprobs:
            self.logprobs.extend([0.0] * len(ids))


class EmpathyAgentLoop(AgentLoopBase):
    """One dialogue: the policy samples a reply, the person answers, until the dialogue is over or
    `rollout.response_length` has no room for another reply (the metric `context_overflow`).

    The reward is with `rewards="turn"` each turn's, and with "final" the score, at the end;
    `extra_fields["turn_scores"]` has each turn's either way. A dialogue in which the user failed or
    the server sampled nothing gives no output: verl leaves it out. What was sampled is never
    tokenized again; the person's words have mask 0.
    """

    def __init__(
        self,
        *args: Any,
        rewards: Rewards = "turn",
        max_reply_tokens: int = 256,
        user: str = "embedded",
        user_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if rewards not in ("turn", "final"):
            raise TrainingError(f"there are no rewards {rewards!r}. Set rewards to turn or final.")
        if max_reply_tokens > self.rollout_config.response_length:
            raise TrainingError(
                f"a reply of {max_reply_tokens} tokens has no room in data.max_response_length,"
                " which holds a whole dialogue. Set it to 4096 or so."
            )
        self.rewards: Rewards = rewards
        self.max_reply_tokens = max_reply_tokens
        self._host = share_host({"user": user, **(user_options or {})})

    async def run(
        self, sampling_params: dict[str, Any], priority: int = 0, **row: Any
    ) -> AgentLoopOutput | list[AgentLoopOutput]:
        """What verl asks for: empty for no sample. DialogueError for a row that names nobody."""
        episode = self._host.episode(EpisodeSpec.from_dict(row["extra_info"]))
        timing: dict[str, Any] = {}
        with simple_timer("tool_calls", timing):
            opening = await episode.abegin()
        first = row["raw_prompt"][0]
        told = first["content"] if first["role"] == "system" else agent_prompt(episode.language)
        renderer = Renderer(self.tokenizer, told)
        tokens = _Tokens(renderer.opening(opening), [], [], [], [])
        if len(tokens.prompt) > (limit := self.rollout_config.prompt_length):
            raise TrainingError(
                f"the system prompt and the person's first words are {len(tokens.prompt)} tokens"
                f" long, and rollout.prompt_length is {limit}. Raise data.max_prompt_length."
            )
        extra: dict[str, Any] = {}
        request_id, room = uuid4().hex, self.rollout_config.response_length
        limits = {"max_tokens": self.max_reply_tokens, "stop_token_ids": sorted(renderer.stop_ids)}
        while not episode.done:
            with simple_timer("generate_sequences", timing):
                sampled = await self.server_manager.generate(
                    request_id=request_id,
                    prompt_ids=tokens.prompt + tokens.response,
                    sampling_params={**sampling_params, **limits},
                    priority=int(priority),
                )
            extra = {**sampled.extra_fields, **extra}
            extra["max_global_steps"] = sampled.extra_fields.get("max_global_steps")
            if not sampled.token_ids:
                return self._leave_out("the server sampled nothing")
            tokens.append(sampled.token_ids, sampled.log_probs, sampled=True)
            with simple_timer("tool_calls", timing):
                result = await episode.asay(renderer.parse(sampled.token_ids).text)
            if not result.done:
                between = renderer.between(result.reply, sampled.token_ids[-1])
                if len(tokens.response) + len(between) + self.max_reply_tokens > room:
                    break
                tokens.append(between, None, sampled=False)
        if not episode.valid:
            return self._leave_out("the user failed")
        return self._output(episode, tokens, timing, extra)

    def _leave_out(self, why: str) -> list[AgentLoopOutput]:
        """No output. UserFailed with verl's old trainer, which cannot leave a dialogue out."""
        if not self.config.trainer.get("use_v1", True):
            raise UserFailed(f"{why}. Set trainer.use_v1=True, which leaves such a dialogue out.")
        return []

    def _output(
        self, episode: TextEpisode, tokens: _Tokens, timing: dict[str, Any], extra: dict[str, Any]
    ) -> AgentLoopOutput:
        final = self.rewards == "final"
        overflow = {"context_overflow": float(not episode.done)}
        scores = {"turn_scores": list(episode.rewards), "tool_rewards": []}
        values = {
            "prompt_ids": tokens.prompt,
            "response_ids": tokens.response,
            "response_mask": tokens.mask,
            "response_logprobs": tokens.logprobs or None,
            "reward_score": episode.score if final else sum(episode.rewards),
            "num_turns": 1 + 2 * len(episode.rewards),
            "metrics": timing,
            "extra_fields": {**extra, **scores, "reward_extra_info": episode.metrics | overflow},
        }
        if final:
            return AgentLoopOutput(**values)
        return TurnRewardOutput(**values, turn_ends=tokens.turn_ends)


@register_adv_est("rlver_turn")
def compute_turn_advantage(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: NDArray[Any],
    config: Any = None,
    **others: Any,
) -> tuple[Tensor, Tensor]:
    """Advantages and returns, shape (batch, response_length) both: every token of a reply has the
    return from its turn on against those of its group at the same turn, scaled by their standard
    deviation. `gamma` of the config counts from turn to turn.

    A turn is a run of tokens with `response_mask` 1, `index` the group of each row. See
    `rlver_gym.policy.learning.algorithms.compute_group_advantage_by_turn`.
    """
    mask = response_mask.bool()
    starts = mask & ~torch.nn.functional.pad(mask, (1, 0))[:, :-1]
    turn = (starts.cumsum(dim=1) - 1).clamp(min=0)
    turns_D = starts.sum(dim=1)
    reward_DN = torch.zeros(len(mask), max(1, int(turns_D.max())), dtype=torch.float64)
    reward_DN.scatter_add_(1, turn.cpu(), (token_level_rewards * mask).double().cpu())
    gamma = float(config.get("gamma", 1.0)) if config is not None else 1.0
    group_D = np.unique(index, return_inverse=True)[1]
    has_turn_DN = np.arange(reward_DN.shape[1]) < turns_D.cpu().numpy()[:, None]
    dialogue_R, turn_R = np.nonzero(has_turn_DN)
    advantage_DN = np.zeros(reward_DN.shape)
    advantage_DN[has_turn_DN] = compute_group_advantage_by_turn(
        reward_DN.numpy()[has_turn_DN], dialogue_R, turn_R, group_D, gamma=gamma
    )
    advantages = torch.from_numpy(advantage_DN).to(token_level_rewards).gather(1, turn) * mask
    return advantages, advantages
