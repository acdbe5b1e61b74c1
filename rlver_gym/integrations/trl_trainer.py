"""What is read of TRL's trainer: its settings, whether groups are whole, and who samples."""

from collections.abc import Hashable, Sequence
from typing import Any

from rlver_gym.util.errors import TrainingError, needs_extra, pip_install

with needs_extra("trl"):
    from accelerate.utils import gather_object

    from rlver_gym.policy.models.model import get_max_context
    from rlver_gym.policy.models.sampler import Completion, ModelSampler, Prompt, Sampler, Sampling
    from rlver_gym.policy.models.servers import ServerSampler


def make_sampler(trainer: Any) -> Sampler:
    """Who samples for this trainer; TRL has given vLLM the newest weights before it asks."""
    if not trainer.use_vllm:
        return ModelSampler(trainer.model, use_bf16=bool(trainer.args.bf16))
    if trainer.vllm_mode == "colocate":
        return ColocatedSampler(trainer.vllm_generation, trainer.accelerator.num_processes)
    vllm, is_main = trainer.vllm_generation, trainer.accelerator.is_main_process
    model = gather_object([vllm.vllm_client.model if is_main else ""])[0]
    address = vllm.server_base_url or f"http://{vllm.server_host}:{vllm.server_port}"
    return ServerSampler(f"{address.rstrip('/')}/v1", model)


class ColocatedSampler:
    """The vLLM that TRL runs in this process, through TRL's own `generate`."""

    at_once: int | None = None

    def __init__(self, vllm: Any, num_processes: int) -> None:
        """TrainingError where `generate` has to be called by several processes in step."""
        if vllm.tensor_parallel_size > 1 or (vllm.enable_sleep_mode and num_processes > 1):
            raise TrainingError(
                "dialogues on several processes do not keep step, as TRL's colocated vLLM must with"
                " vllm_tensor_parallel_size above 1 or vllm_enable_sleep_mode. Leave these out, or"
                " set vllm_mode='server'."
            )
        self._vllm = vllm

    def sample(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        vllm = self._vllm
        before = vllm.max_completion_length, vllm.generation_kwargs
        stop = {"stop_token_ids": sorted(sampling.stop_ids), "ignore_eos": True}
        vllm.max_completion_length, vllm.generation_kwargs = sampling.max_tokens, stop
        try:
            _, ids, logprobs, _ = vllm.generate([list(prompt.ids) for prompt in prompts], None, 1)
        finally:
            vllm.max_completion_length, vllm.generation_kwargs = before
        return [
            Completion(list(reply), [token[0] for token in per_token])
            for reply, per_token in zip(ids, logprobs, strict=True)
        ]

    def forget(self) -> None:
        """vLLM drops what it cached of old weights by itself."""

    def refresh(self) -> None:
        """TRL brings the weights up to date."""


def max_dialogue_tokens(trainer: Any) -> int:
    vllm_limit = trainer.args.vllm_max_model_length if trainer.use_vllm else None
    bounds = (trainer.max_completion_length, vllm_limit, get_max_context(trainer.model))
    return min(bound for bound in bounds if bound)


def check_settings(trainer: Any, has_sampler: bool = False) -> None:
    """TrainingError for what a rollout_func cannot follow. `has_sampler`: one of the caller's."""
    args, deepspeed = trainer.args, trainer.accelerator.state.deepspeed_plugin
    model_samples = not (trainer.use_vllm or has_sampler)
    unknown = {
        "min_p": args.min_p,
        "repetition_penalty": args.repetition_penalty != 1,
        "generation_kwargs": args.generation_kwargs,
        "fsdp without use_vllm": trainer.is_fsdp_enabled and model_samples,
        "DeepSpeed's stage 3 without use_vllm": (
            trainer.is_deepspeed_enabled and deepspeed.zero_stage == 3 and model_samples
        ),
    }
    named = [name for name, given in unknown.items() if given]
    if named:
        raise TrainingError(
            "this rollout_func samples with vLLM, or with the trainer's own model, whole on each"
            f" process, and knows no {', '.join(named)}. Leave that out of the GRPOConfig."
        )


def check_groups(prompts: Sequence[Hashable], trainer: Any) -> None:
    """TrainingError unless neighbours, whom TRL compares, are equal in whole groups."""
    processes, is_training = trainer.accelerator.num_processes, trainer.model.training
    gathered = gather_object(list(prompts))
    if processes > 1 and not is_training:
        return  # the last batch of an evaluation is filled up with the first rows
    size = trainer.num_generations if is_training else trainer.num_generations_eval
    groups = [gathered[start : start + size] for start in range(0, len(gathered), size)]
    if any(len(group) != size or len(set(group)) > 1 for group in groups):
        raise TrainingError(
            f"TRL did not hand each prompt over {size} times in a row, so that there are no groups"
            f" to compare. This was written for TRL 1.16: {pip_install('trl')}."
        )
