"""The states of a frozen causal model, in passes over who the person is and what was said. Passes
over beginnings are kept: a reply costs its own tokens.
"""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import lru_cache, partial
from itertools import pairwise, takewhile
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoConfig, AutoModel, AutoTokenizer, DynamicCache

from rlver_gym.core.dialogue import Dialogue
from rlver_gym.core.persona import NEEDS_IN_WORDS, Persona
from rlver_gym.util.errors import UnknownName, UserFailed
from rlver_gym.util.model_cache import (
    SHARED,
    find_cache_argument_name,
    hide_progress_bars,
    hide_warnings,
)

LAYOUT = 1
"""Of the text that is read; one more whenever it is written otherwise."""
NUM_KINDS = 3
"""Of a reply's states at a depth: their mean, the last, and that of the mark of the person's turn,
where the model expects the answer.
"""
_KEPT_TOKENS, _BATCH_TOKENS = 1 << 16, 1 << 13
"""Whose passes are kept, and of a batch with what it starts from."""
_LONGEST_REPLY = 512
"""Tokens that are read of a reply."""
_SAMPLED = 256
"""Values of each tensor that a fingerprint looks at."""

_LOADING_ERRORS = OSError, ValueError, AttributeError, RuntimeError, AssertionError, SafetensorError


class Place(NamedTuple):
    """A reply in its place, as tokens up to the mark of the person's turn."""

    tokens: tuple[int, ...]
    cuts: tuple[int, ...]
    """0, and the lengths of its beginnings: who it is, then up to each reply and with it."""
    mark: int
    """Tokens of the mark."""

    @property
    def beginnings(self) -> list[tuple[int, ...]]:
        return [self.tokens[:cut] for cut in self.cuts[1:]]


class _Segment(NamedTuple):
    """What is kept of the tokens between two cuts."""

    cache: Tensor
    """[2, layers, heads, T, width] keys and values."""
    states: Tensor
    """[depths, T, width]"""


class FrozenStates:
    """A causal model that is read, never trained."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        depths: Sequence[int],
        without_adapters: Callable[[], AbstractContextManager[Any]] = nullcontext,
        lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        """`model`: a decoder with `layers`, or else UserFailed; `depths`: after how many layers,
        ascending; `lock`: of a model that others run too.
        """
        if not hasattr(model, "layers"):
            raise UserFailed(
                f"the reader cannot read {type(model).__name__}, which has no layers by that name:"
                " take a model of the Llama or Qwen kind."
            )
        self._without_adapters = without_adapters
        self.model, self.tokenizer, self.depths = model, tokenizer, tuple(depths)
        self.width = model.config.hidden_size
        self._kept: dict[tuple[int, ...], _Segment] = {}
        """The last segment of each beginning, those used last at the end."""
        self._lock = lock or Lock()
        self._tokenize = lru_cache(maxsize=1 << 14)(self._tokenize_text)
        if self.depths[-1] > (there := len(model.layers)):
            raise UserFailed(f"the reader's base has {there} layers, not {self.depths[-1]}.")

    @classmethod
    def load(cls, base: str, depths: Sequence[int], device: str, dtype: str) -> "FrozenStates":
        """Load a folder or a hub name up to the greatest depth. UserFailed says why it cannot be
        loaded.
        """
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            with hide_progress_bars(), hide_warnings():
                tokenizer = AutoTokenizer.from_pretrained(base, trust_remote_code=False)
                config = AutoConfig.from_pretrained(base, trust_remote_code=False)
                most = config.num_hidden_layers = min(depths[-1], config.num_hidden_layers)
                if getattr(config, "layer_types", None):
                    config.layer_types = config.layer_types[:most]
                told = {"dtype": getattr(torch, dtype), "trust_remote_code": False}
                model, loaded = AutoModel.from_pretrained(
                    base, config=config, output_loading_info=True, **told
                )
            if loaded["missing_keys"]:
                raise ValueError(f"it lacks weights, such as {min(loaded['missing_keys'])}")
            return cls(model.requires_grad_(False).eval().to(device), tokenizer, depths)
        except _LOADING_ERRORS as error:
            raise UserFailed(
                f"the reader's base {base!r} cannot be loaded ({error}). Name a folder or a hub"
                " name of a causal model of the Llama or Qwen kind, on a device and in a precision"
                " that are there."
            ) from error

    def fingerprints(self) -> list[str]:
        """Of the embedding and the layers so far, after each layer: the same for the same weights
        in any file, in bfloat16 and in float32.
        """
        digest, each = hashlib.sha256(), []
        for module in (self.model.get_input_embeddings(), *self.model.layers):
            weights = {
                name.replace(".base_layer", ""): tensor
                for name, tensor in module.state_dict().items()
                if "lora_" not in name
            }
            for name, tensor in sorted(weights.items()):
                step = max(1, tensor.numel() // _SAMPLED)
                values = tensor.flatten()[::step][:_SAMPLED].to(torch.bfloat16).float()
                digest.update(f"{name}{tuple(tensor.shape)}".encode())
                digest.update(values.cpu().numpy().astype("<f4").tobytes())
            each.append(digest.hexdigest()[:12])
        return each[1:]

    def lay_out(self, persona: Persona, dialogue: Dialogue) -> Place:
        """Who the person is and what was said, up to `dialogue.utterance`."""
        person, situation = persona.person, persona.situation
        about = (
            f"{person.name}, {person.age}, {person.work}. {person.disposition}:"
            f" {', '.join(person.traits)}.\n"
            f"What happened: {situation.cause} {situation.now}\n"
            f"What {person.name} hopes for and does not say: {NEEDS_IN_WORDS[persona.need]}.\n"
        )
        begin, mark = self.tokenizer.bos_token_id, self._tokenize(f"\n{person.name}:")
        tokens = [*([] if begin is None else [begin]), *self._tokenize(about)]
        cuts = [0, len(tokens)]
        tokens += mark
        said = (*dialogue.earlier_utterances, dialogue.utterance or "")
        for line, reply in zip(dialogue.user_lines, said, strict=True):
            tokens += self._tokenize(f" {line}") + self._tokenize("\nFriend:")
            cuts.append(len(tokens))
            tokens += (self._tokenize(f" {reply}")[:_LONGEST_REPLY] or mark) + mark
            cuts.append(len(tokens))
        return Place(tuple(tokens), tuple(cuts), len(mark))

    def read(self, places: Sequence[Place]) -> np.ndarray:
        """The states of replies, [R, depths x kinds x width], in float32."""
        todo = sorted(dict.fromkeys(places), key=lambda place: len(place.tokens))
        with self._lock, self._without_adapters(), torch.inference_mode():
            while todo := [place for place in todo if place.tokens not in self._kept]:
                # of those that share what is missing the longest goes first, the others after it
                first = {place.beginnings[len(self._find(place))]: place for place in todo}
                batch, size = [*first.values()], max(1, _BATCH_TOKENS // len(todo[-1].tokens))
                for at in range(0, len(batch), size):
                    self._forward(batch[at : at + size])
            read = []
            for place in places:
                states, mark = self._kept[place.tokens].states.float(), place.mark
                kinds = states[:, :-mark].mean(1), states[:, -mark - 1], states[:, -1]
                read.append(torch.stack(kinds, 1).flatten())
            self._forget(places)
        return torch.stack(read).cpu().numpy()

    def _find(self, place: Place) -> list[_Segment]:
        """What is kept of it, without a gap."""
        known = takewhile(self._kept.__contains__, place.beginnings)
        return [self._kept[beginning] for beginning in known]

    def _forward(self, places: Sequence[Place]) -> None:
        """Keep the segments that are missing. What is kept before them is padded on the left."""
        known = [self._find(place) for place in places]
        before = [place.cuts[len(each)] for place, each in zip(places, known, strict=True)]
        most, rows = max(before), list(zip(places, before, strict=True))
        ids = pad_sequence([torch.tensor(x.tokens[kept:]) for x, kept in rows], batch_first=True)
        mask = torch.zeros(len(places), most + ids.shape[1], dtype=torch.long)
        for row, (place, kept) in enumerate(rows):
            mask[row, most - kept : most - kept + len(place.tokens)] = 1
        cache, states = DynamicCache(), []
        if most:
            none = next(each[0] for each in known if each).cache[..., :0, :]
            joined = [torch.cat([none, *(x.cache for x in each)], -2) for each in known]
            padded = [pad(x, (0, 0, most - x.shape[-2], 0)) for x in joined]
            for layer, (keys, values) in enumerate(torch.stack(padded, 2).transpose(0, 1)):
                cache.update(keys, values, layer)
        positions = torch.tensor(before)[:, None] + torch.arange(ids.shape[1])
        told = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
        told = {name: value.to(self.model.device) for name, value in told.items()}
        with ExitStack() as until_run:
            until_run.callback(self.model.train, self.model.training)
            self.model.eval()
            for depth in self.depths:
                hook = self.model.layers[depth - 1].register_forward_hook(partial(_add, states))
                until_run.enter_context(hook)
            self.model(**told, use_cache=True, **{find_cache_argument_name(self.model): cache})
        layers: list[Any] = cache.layers
        after = torch.stack(states, 1)
        for row, (place, kept) in enumerate(rows):
            for start, end in pairwise([cut for cut in place.cuts if cut >= kept]):
                span = slice(most - kept + start, most - kept + end)
                sides = [[x.keys[row, :, span], x.values[row, :, span]] for x in layers]
                passed = torch.stack([torch.stack(pair) for pair in sides], 1)
                own = after[row, :, start - kept : end - kept].clone()
                self._kept[place.tokens[:end]] = _Segment(passed, own)

    def _forget(self, places: Sequence[Place]) -> None:
        """What was used longest ago."""
        for beginning in [each for place in places for each in place.beginnings[::-1]]:
            if beginning in self._kept:
                self._kept[beginning] = self._kept.pop(beginning)
        total = sum(segment.states.shape[1] for segment in self._kept.values())
        while total > _KEPT_TOKENS:
            total -= self._kept.pop(next(iter(self._kept))).states.shape[1]

    def _tokenize_text(self, text: str) -> tuple[int, ...]:
        # What somebody says is never a mark of the model's own.
        told = self.tokenizer(text, add_special_tokens=False, split_special_tokens=True)
        return tuple(told["input_ids"])


def _add(states: list[Tensor], _module: Any, _inputs: Any, output: Any) -> None:
    states.append(output[0] if isinstance(output, tuple) else output)


_load_once = lru_cache(maxsize=1)(FrozenStates.load)


def find_states(about: dict[str, Any], base: str | None, device: str, dtype: str) -> FrozenStates:
    """The states that a head was made for, loaded once in a process: of a policy's model below its
    adapters where that is the base, or where no base is named. UnknownName where there is none,
    UserFailed for another model.
    """
    depths = tuple(about["depths"])
    shared = SHARED.get(base) if base else next(iter(SHARED.values()), None)
    if shared is not None:
        parts = shared.model, shared.tokenizer, depths, shared.without_adapters, shared.lock
        states = shared.readers.setdefault(depths, FrozenStates(*parts))
    elif base:
        states = _load_once(base, depths, device, dtype)
    else:
        raise UnknownName(
            "the reader reads with a model that is not in the package: name the one that its head"
            f" was made for, {about['base']}, as a folder or a hub name (base=..., --user-option"
            " base=...), or make a head for another: python research/fit_reader.py BASE --out"
            " HEAD.npz, then reader:HEAD.npz."
        )
    there = states.fingerprints()[depths[-1] - 1]
    if (there, LAYOUT) != (about["fingerprint"], about["layout"]):
        raise UserFailed(
            f"the reader's head was made for {about['base']} ({about['fingerprint']}, layout"
            f" {about['layout']}), and {base or 'the policy'} is another model ({there}, layout"
            f" {LAYOUT}). Name that base, or make a head for this one: python"
            " research/fit_reader.py BASE --out HEAD.npz, then reader:HEAD.npz."
        )
    return states
