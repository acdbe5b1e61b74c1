"""vLLM as the sampler of a training run: before each round of talk it is given the adapters that the policy has learned, through a folder that it sees too."""

import hashlib
import os
import secrets
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import cast

import openai
from safetensors.torch import save
from torch import Tensor, nn

from rlver_gym.errors import TrainingError
from rlver_gym.policy.distributed import gathered, rank
from rlver_gym.policy.server_sampler import ServerSampler

KEY = "VLLM_API_KEY"
"""The environment variable that holds the server's key, if it asks for one; vLLM reads the same."""
_KNOWN = "already been loaded"
"""In vLLM's answer to adapters that it has."""


class VllmSampler(ServerSampler):
    """Samples on a vLLM server that was started with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True."""

    def __init__(self, base_url: str, policy: nn.Module, folder: Path, *, seeded: bool = False) -> None:
        """`base_url` ends in /v1; `policy`: a peft model with one adapter; `folder`: this machine and the server see it under the same path."""
        super().__init__(base_url, "", api_key=os.environ.get(KEY) or "none", seeded=seeded)
        self.policy = policy
        self.folder = folder
        self._run = secrets.token_hex(4)
        """In every name, so that runs that share a server and a folder leave each other's adapters alone."""

    def refresh(self) -> None:
        """See that the server has the policy's adapters as they are now, under a name made from their content, so that no cache of its can be stale.
        The first process does it and the others wait. TrainingError, on all of them, when the server does not take them, or the folder cannot be written."""
        name, wrong = gathered([self._given() if rank() == 0 else ("", "")])[0]
        if wrong:
            raise TrainingError(wrong)
        before, self.model = self.model, name
        if before != name:
            self._take_away(before)

    def close(self) -> None:
        """Take the last adapters away."""
        self._take_away(self.model)
        self.model = ""

    def _given(self) -> tuple[str, str]:
        """The name under which the server knows the adapters now, and what is wrong if it does not."""
        try:
            return self._published(), ""
        except TrainingError as error:
            return "", str(error)

    def _published(self) -> str:
        weights = save(_adapters(self.policy), {"format": "pt"})
        name = f"rlver-{self._run}-{hashlib.sha256(weights).hexdigest()[:16]}"
        place = self.folder.absolute() / name
        try:
            if name != self.model:
                place.mkdir(parents=True, exist_ok=True)
                cast(Mapping, self.policy.peft_config)["default"].save_pretrained(place)
                (place / "adapter_model.safetensors").write_bytes(weights)
        except OSError as error:
            raise TrainingError(
                f"the adapters for vLLM cannot be written to {place} ({error}). Choose another --vllm-folder, or make room."
            ) from error
        self._told("load_lora_adapter", {"lora_name": name, "lora_path": str(place)})
        return name

    def _take_away(self, name: str) -> None:
        """Adapters that are not asked for any more: off the server and off the disk. One that has lost them by itself, as by a restart, is none the worse."""
        if name and rank() == 0:
            with suppress(TrainingError):
                self._told("unload_lora_adapter", {"lora_name": name})
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def _told(self, what: str, body: dict[str, str]) -> None:
        try:
            self._client.post(f"/{what}", body=body, cast_to=object)
        except openai.OpenAIError as error:
            if _KNOWN in str(error):
                return
            raise TrainingError(
                f"{self.base_url} did not {what.replace('_', ' ')} {body['lora_name']} ({error}). Does the address end in /v1, does vLLM run there with --enable-lora, a "
                f"--max-lora-rank of no less than --lora-rank and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True, and does it see {self.folder} under the same path?"
            ) from error


def _adapters(policy: nn.Module) -> dict[str, Tensor]:
    """The adapters' weights under the names that peft gives them in a file."""
    import peft  # noqa: PLC0415 (only whoever asks for adapters needs it)

    named = {name: one.detach().cpu().contiguous() for name, one in policy.named_parameters() if "lora_" in name}
    return peft.get_peft_model_state_dict(policy, state_dict=named)  # pyright: ignore[reportArgumentType]
