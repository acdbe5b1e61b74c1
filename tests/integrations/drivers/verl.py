"""verl: the agent loop with verl's own configuration, on a stand-in for its LLM server."""

import asyncio
import warnings
from collections.abc import Sequence
from typing import Any

from hydra import compose, initialize_config_module
from omegaconf import DictConfig
from transformers import PreTrainedTokenizerBase

with warnings.catch_warnings():  # verl imports names of Ray that are deprecated
    warnings.simplefilter("ignore")
    from verl.experimental.agent_loop.agent_loop import DictConfigWrap
    from verl.utils.dataset.rl_dataset import RLHFDataset
    from verl.workers.rollout.replica import TokenOutput

from rlver_gym.integrations.episodes import EpisodeSpec
from rlver_gym.integrations.verl import EmpathyAgentLoop, dataset_rows
from rlver_gym.policy.models.model import load_tokenizer
from rlver_gym.testing.local_models import local_model


def make_config(*overrides: str) -> DictConfig:
    """verl's own, for the tiny model."""
    ours = [
        f"actor_rollout_ref.model.path={local_model('tiny')}",
        "actor_rollout_ref.rollout.name=vllm",
        "data.max_prompt_length=512",
        "data.max_response_length=4096",
    ]
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", [*ours, *overrides])


class ScriptedServer:
    """A stand-in for verl's LLMServerClient: gives the token ids of a script, one reply after the
    other, and then none.
    """

    def __init__(self, replies: Sequence[Sequence[int]]) -> None:
        self._replies = iter(replies)
        self.prompts: list[list[int]] = []
        self.limits: list[int] = []

    async def generate(
        self,
        request_id: str,
        *,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        priority: int = 0,
    ) -> TokenOutput:
        self.prompts.append(list(prompt_ids))
        self.limits.append(sampling_params["max_tokens"])
        ids = list(next(self._replies, ()))[: sampling_params["max_tokens"]]
        logprobs = [-0.5] * len(ids) if sampling_params.get("logprobs") else None
        steps = {"global_steps": 1, "min_global_steps": 1, "max_global_steps": 1}
        return TokenOutput(token_ids=ids, log_probs=logprobs, extra_fields=steps)


def make_loop(
    server: ScriptedServer, config: DictConfig, tokenizer: PreTrainedTokenizerBase, **options: Any
) -> EmpathyAgentLoop:
    """As verl's worker makes it. To be called on an event loop."""
    return EmpathyAgentLoop(
        trainer_config=DictConfigWrap(config),
        server_manager=server,
        tokenizer=tokenizer,
        processor=None,
        dataset_cls=RLHFDataset,
        data_config=DictConfigWrap(config.data),
        hf_model_type="qwen2",
        **options,
    )


def play(persona: str, seed: int, utterances: Sequence[str]) -> list[float]:
    """The rewards of an episode, until it ends or nothing is left to say."""
    tokenizer = load_tokenizer("tiny")
    end = tokenizer.eos_token_id
    server = ScriptedServer([[*tokenizer.encode(one), end] for one in utterances])
    (row,) = dataset_rows([EpisodeSpec(persona, seed)])

    async def run() -> Any:
        loop = make_loop(server, make_config(), tokenizer)
        return await loop.run({}, raw_prompt=row["prompt"], extra_info=row["extra_info"])

    return asyncio.run(run()).extra_fields["turn_scores"]
