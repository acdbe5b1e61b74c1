"""verl: the agent loop with its own configuration, on stand-ins for its LLM server."""

import asyncio
import warnings
from functools import cache

import torch
from hydra import compose, initialize_config_module
from integrations.drivers import Played, find_words

with warnings.catch_warnings():  # verl imports names of Ray that are deprecated
    warnings.simplefilter("ignore")
    from verl.experimental.agent_loop.agent_loop import DictConfigWrap
    from verl.utils.dataset.rl_dataset import RLHFDataset
    from verl.workers.rollout.replica import TokenOutput

from rlver_gym.integrations.episodes import EpisodeSpec
from rlver_gym.integrations.verl import EmpathyAgentLoop, dataset_rows
from rlver_gym.policy.models.local_models import find_local_model
from rlver_gym.policy.models.model import load_model, load_tokenizer


@cache
def make_config(*overrides):
    """verl's own, for the tiny model. Not to be written to."""
    ours = [
        f"actor_rollout_ref.model.path={find_local_model('tiny')}",
        "actor_rollout_ref.rollout.name=vllm",
        "data.max_prompt_length=512",
        "data.max_response_length=4096",
    ]
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", [*ours, *overrides])


class ScriptedServer:
    """A stand-in for verl's LLMServerClient: the token ids of a script, then none."""

    def __init__(self, replies):
        self._replies = iter(replies)
        self.prompts = []
        self.limits = []

    async def generate(self, request_id, *, prompt_ids, sampling_params, priority=0):
        self.prompts.append(list(prompt_ids))
        self.limits.append(sampling_params["max_tokens"])
        ids = list(next(self._replies, ()))[: sampling_params["max_tokens"]]
        logprobs = [-0.5] * len(ids) if sampling_params.get("logprobs") else None
        return TokenOutput(token_ids=ids, log_probs=logprobs, extra_fields=dict(STEPS))


class ModelServer:
    """A stand-in for verl's LLMServerClient: the tiny model, in whichever process asks it."""

    def __init__(self):
        self.calls = []
        """What was given and what was sampled, as token ids."""

    async def generate(self, request_id, *, prompt_ids, sampling_params, priority=0):
        torch.manual_seed(int(request_id[:8], 16) + len(prompt_ids))
        ids, logprobs = _generate(prompt_ids, sampling_params)
        self.calls.append((list(prompt_ids), ids))
        return TokenOutput(token_ids=ids, log_probs=logprobs, extra_fields=dict(STEPS))


STEPS = {"global_steps": 1, "min_global_steps": 1, "max_global_steps": 1}


@cache
def _tiny_model():
    return load_model("tiny", device="cpu")


def _generate(prompt_ids, sampling):
    """A reply by transformers' own sampling, and its log-probabilities."""
    drawn = _tiny_model().generate(
        torch.tensor([prompt_ids]),
        do_sample=True,
        temperature=sampling["temperature"],
        top_k=0,
        max_new_tokens=sampling["max_tokens"],
        eos_token_id=sampling["stop_token_ids"],
        output_scores=True,
        return_dict_in_generate=True,
    )
    ids = drawn.sequences[0, len(prompt_ids) :]
    logprob_TV = torch.cat(drawn.scores).log_softmax(dim=-1)
    return ids.tolist(), logprob_TV.gather(1, ids[:, None])[:, 0].tolist()


def make_loop(server, config, tokenizer, **options):
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


def play(persona, seed, utterances, user="embedded"):
    """The utterances must last until the episode ends."""
    tokenizer = load_tokenizer("tiny")
    end = tokenizer.eos_token_id
    server = ScriptedServer([[*tokenizer.encode(one), end] for one in utterances])
    (row,) = dataset_rows([EpisodeSpec(persona, seed)])

    async def run():
        loop = make_loop(server, make_config(), tokenizer, user=user)
        return await loop.run({}, raw_prompt=row["prompt"], extra_info=row["extra_info"])

    output = asyncio.run(run())
    texts = find_words(tokenizer.decode(server.prompts[-1])) if server.prompts else []
    return Played(output.extra_fields["turn_scores"], texts) if output else Played([], texts, True)
