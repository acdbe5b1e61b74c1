"""Causal language models of Hugging Face: loaded, with adapters where wanted, copied, saved."""

import copy
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from pickle import PickleError
from typing import Any, cast

import torch
from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from rlver_gym.policy.models.local_models import find_local_model
from rlver_gym.policy.models.precision import Dtype
from rlver_gym.util.errors import TrainingError, pip_install
from rlver_gym.util.model_cache import hide_progress_bars
from rlver_gym.util.terminal import one_line

_LOAD_ERRORS = (
    *(OSError, ValueError, RuntimeError, LookupError, TypeError, AttributeError, ArithmeticError),
    *(AssertionError, ImportError, PickleError, SafetensorError, StrictDataclassError),
)
"""What the loaders make of files that are damaged, or need a package that is not here."""
_MAX_CHARS = 300
_BF16_INSTRUCTIONS = ("avx512_bf16", "amx_bf16")
"""What multiplies in bfloat16 on x86, as torch.cpu.get_capabilities names it."""


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a model by name or folder. TrainingError says what is missing."""
    tokenizer = _load_pretrained(AutoTokenizer.from_pretrained, name)
    if "here" not in tokenizer.decode(tokenizer("I am here.")["input_ids"]).lower():
        raise TrainingError(
            f"the tokenizer of {name} knows no words: what it reads does not come back. Is a file"
            " missing, such as tokenizer.json?"
        )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_model(
    name: str,
    *,
    use_bf16: bool = False,
    device: str = "auto",
    lora: int = 0,
    gradient_checkpointing: bool = False,
    frozen: bool = False,
) -> PreTrainedModel:
    """A causal LM from a Hugging Face name, a folder, "tiny" or "smollm2"; with `lora`, the rank,
    wrapped in adapters on all linear layers.

    Weights that learn are kept in float32, the others (below adapters, or all when `frozen`) in
    bfloat16 when `use_bf16`, which says what passes are computed in. `device`: "cpu", "cuda:0", …;
    auto takes the GPU if there is one. Raises TrainingError when there is no such model or it
    cannot be loaded.
    """
    dtype = torch.bfloat16 if use_bf16 and (lora or frozen) else torch.float32
    lm, report = _load_pretrained(
        AutoModelForCausalLM.from_pretrained, name, dtype=dtype, output_loading_info=True
    )
    if missing := sorted(report["missing_keys"]):
        raise TrainingError(
            f"the model {name} lacks weights: {one_line(', '.join(missing), max_chars=_MAX_CHARS)}."
            " They would be random. Copy all of its files."
        )
    lm.to(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
    if lora:
        lm = _add_adapters(lm, lora)
    if gradient_checkpointing:
        with _ignore_future_warnings():
            lm.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return lm.eval()


def uses_bf16(dtype: Dtype) -> bool:
    return dtype == "bfloat16" or (dtype == "auto" and torch.cuda.is_available())


def explain_slow_bf16(dtype: Dtype) -> str:
    """What to know where bfloat16 was asked for and this processor only imitates it; else ""."""
    if not uses_bf16(dtype) or torch.cuda.is_available():
        return ""
    has: Mapping[str, Any] = torch.cpu.get_capabilities()
    if has.get("architecture") != "x86_64" or any(map(has.get, _BF16_INSTRUCTIONS)):
        return ""
    return (
        "bfloat16 on a processor without its instructions (avx512_bf16 or amx_bf16 in lscpu):"
        " learning takes several times as long as with --dtype float32, which takes twice the"
        " memory."
    )


def make_bf16_copy(lm: PreTrainedModel) -> PreTrainedModel:
    """A copy in bfloat16 with adapters merged in, which samples about twice as fast."""
    if _has_adapters(lm):
        with lm.device:  # first weights are drawn there: on a CPU that takes minutes for billions
            plain = AutoModelForCausalLM.from_config(lm.config, dtype=torch.bfloat16)
        plain = cast(PreTrainedModel, plain.requires_grad_(False).eval())
        copy_weights(plain, lm)
        return plain
    halves: dict[int, Any] = {
        id(one): nn.Parameter(one.detach().to(torch.bfloat16), requires_grad=False)
        for one in lm.parameters()
    }
    return copy.deepcopy(lm, halves).eval()


@torch.no_grad()
def copy_weights(copied: PreTrainedModel, lm: PreTrainedModel) -> None:
    weights = _merge_adapters(lm) if _has_adapters(lm) else dict(lm.named_parameters())
    for name, old in copied.named_parameters():
        old.copy_(weights[name])


def _has_adapters(lm: PreTrainedModel) -> bool:
    return any(hasattr(layer, "get_delta_weight") for layer in lm.modules())


def export_model(lm: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write model and tokenizer as `from_pretrained` reads them, adapters merged in."""
    plain = lm.get_base_model() if hasattr(lm, "peft_config") else lm  # pyright: ignore[reportCallIssue]
    with hide_progress_bars():
        cast(PreTrainedModel, plain).save_pretrained(
            folder, state_dict=None if plain is lm else _merge_adapters(plain)
        )
    tokenizer.save_pretrained(folder)


@torch.no_grad()
def _merge_adapters(base: nn.Module) -> dict[str, Tensor]:
    """The weights with adapters added; the model stays, since taking them away leaves rounding."""
    merged = {
        name.replace(".base_layer.", "."): weight.detach()
        for name, weight in base.named_parameters()
        if "lora_" not in name
    }
    for name, layer in base.named_modules():
        if hasattr(layer, "get_delta_weight"):
            weight, delta = merged[f"{name}.weight"], layer.get_delta_weight("default")  # pyright: ignore[reportCallIssue]
            merged[f"{name}.weight"] = _add_by_lot(weight, delta)
    return merged


def _add_by_lot(weight: Tensor, delta: Tensor) -> Tensor:
    """The sum in the weight's precision. In bfloat16 it is rounded up or down by lot, so that its
    mean is right (arXiv:1502.02551): most updates are smaller than half a step of bfloat16, and
    rounded to the nearest they would be lost.
    """
    total = weight.float() + delta.float()
    if weight.dtype != torch.bfloat16:
        return total.to(weight.dtype)
    lot = torch.Generator(total.device).manual_seed(0)
    how: dict[str, Any] = {"device": total.device, "dtype": torch.int32, "generator": lot}
    below = torch.randint(1 << 16, total.shape, **how)  # of the 16 bits that bfloat16 lacks
    return ((total.view(torch.int32) + below) & -(1 << 16)).view(torch.float32).bfloat16()


def get_max_context(lm: PreTrainedModel) -> int:
    """Tokens that it reads. Where layers have no types all of them may look through a window, and
    caches and prefix trees suppose that each sees everything.
    """
    config, names = lm.config.get_text_config(), ["max_position_embeddings"]
    if not getattr(config, "layer_types", None):
        names.append("sliding_window")
    bounds = [getattr(config, name) for name in names if hasattr(config, name)]
    return min((x for x in bounds if isinstance(x, int) and x > 0), default=sys.maxsize)


def _add_adapters(lm: PreTrainedModel, rank: int) -> PreTrainedModel:
    try:
        import peft  # noqa: PLC0415 (only whoever asks for adapters needs it)
    except ModuleNotFoundError as error:
        raise TrainingError(
            f"LoRA needs the package peft: {pip_install('lora')}. Or train all weights with"
            " --lora-rank 0."
        ) from error
    config = peft.LoraConfig(
        r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type=peft.TaskType.CAUSAL_LM
    )
    with _ignore_future_warnings():
        return cast(PreTrainedModel, peft.get_peft_model(lm, config))


def _load_pretrained(load: Any, name: str, **options: Any) -> Any:
    """What `load` makes of the model's folder. Code that lies there is never run."""
    folder = _resolve_folder(name)
    for path in (*folder.glob("*"), *folder.glob("*/*")):
        if path.exists() and not path.is_file() and not path.is_dir():
            raise TrainingError(
                f"{path}: is a pipe or a device, for which the loaders would wait. Remove it."
            )
    try:
        with hide_progress_bars():
            return load(folder, trust_remote_code=False, **options)
    except _LOAD_ERRORS as error:
        what = "its weights are pickled, which can hold code: only tensors are read"
        if not isinstance(error, PickleError):
            what = one_line(str(error), max_chars=_MAX_CHARS) or type(error).__name__
        raise TrainingError(
            f"the model {name} cannot be loaded from {folder} ({what}). Is it a causal language"
            " model, with all of its files, and are the packages here that it needs?"
        ) from error


def _resolve_folder(name: str) -> Path:
    place = find_local_model(name)
    path = Path(place).expanduser()
    if path.exists() or place.startswith((".", "/", "~")) or place.count("/") > 1:
        if (path / "config.json").is_file():
            return path
        what = "is no model: it holds no config.json" if path.exists() else "does not exist"
        raise TrainingError(
            f"the model folder {name} {what}. Give a folder that save_pretrained wrote, a Hugging"
            " Face name, 'tiny' or 'smollm2'."
        )
    try:
        path = Path(snapshot_download(place, local_files_only=True))
        if any(path.glob("*.safetensors")) or any(path.glob("*.bin")):
            return path
    except (OSError, ValueError):
        pass
    return _download(place)


def _download(name: str) -> Path:
    """Asks once whether the model is there: the loaders ask many times before they give up."""
    try:
        files = [one.rfilename for one in HfApi().model_info(name, timeout=10).siblings or []]
        weights = "*.safetensors" if any(one.endswith(".safetensors") for one in files) else "*.bin"
        return Path(
            snapshot_download(
                name, allow_patterns=["*.json", "*.txt", "*.jinja", "*.model", weights]
            )
        )
    except Exception as error:  # the hub's client lets those of its transport through
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise TrainingError(
            f"the model {name!r} is not on this machine and cannot be fetched from Hugging Face"
            f" ({reason}). Check the name and the network, or give the folder of a model that is"
            " here, 'tiny' or 'smollm2'."
        ) from error


@contextmanager
def _ignore_future_warnings() -> Iterator[None]:
    """peft uses names that transformers 6 drops; the new ones are not in every transformers 5."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


def find_causal_lm(model: nn.Module) -> PreTrainedModel:
    """The causal LM inside whatever wraps it. TrainingError when there is none."""
    for module in model.modules():
        if isinstance(module, PreTrainedModel) and module.get_output_embeddings() is not None:
            return module
    raise TrainingError(
        f"{type(model).__name__} is no causal language model. Load it with AutoModelForCausalLM."
    )


def find_unsupported_layer_types(config: Any) -> set[Any]:
    """Layers that do not attend to all that precedes, as cache and prefix trees suppose."""
    return set(getattr(config.get_text_config(), "layer_types", None) or ()) - {"full_attention"}
