"""The states of a frozen causal model, in passes over who the person is and what was said. Passes
over beginnings are kept: a reply costs its own tokens.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache, partial
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor
from torch.nn.functional import pad
from transformers import AutoConfig, AutoModel, AutoTokenizer, DynamicCache

from rlver_gym.core.dialogue import Dialogue
from rlver_gym.core.persona import NEEDS_IN_WORDS, Persona
from rlver_gym.util.errors import UserFailed
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
    start: int
    """Of the reply."""
    end: int
    cuts: tuple[int, ...]
    """Lengths of the beginnings that other replies may share."""


class _Pass(NamedTuple):
    """Tokens that are run through, and the replies among them, with their indices."""

    tokens: tuple[int, ...]
    cuts: tuple[int, ...]
    replies: list[tuple[int, Place]]

    @property
    def beginnings(self) -> list[tuple[int, ...]]:
        """What may be taken from other passes, the longest last."""
        first = min([place.start for _, place in self.replies], default=len(self.tokens) - 1)
        return [self.tokens[:cut] for cut in self.cuts if cut <= first]


class FrozenStates:
    """A causal model that is read, never trained."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        depths: Sequence[int],
        without_adapters: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        """`model`: a decoder with `layers`; `depths`: after how many layers, ascending."""
        self._without_adapters = without_adapters
        self.model, self.tokenizer, self.depths = model, tokenizer, tuple(depths)
        self.width = model.config.hidden_size
        self._cache_argument = find_cache_argument_name(model)
        self._kept: dict[tuple[int, ...], Tensor] = {}
        self._states: dict[int, Tensor] = {}
        self._lock = Lock()
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
                model, told = AutoModel.from_pretrained(
                    base,
                    config=config,
                    dtype=getattr(torch, dtype),
                    trust_remote_code=False,
                    output_loading_info=True,
                )
            if told["missing_keys"]:
                raise ValueError(f"it lacks weights, such as {min(told['missing_keys'])}")
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
        cuts, start, end = [len(tokens)], 0, 0
        tokens += mark
        said = (*dialogue.earlier_utterances, dialogue.utterance or "")
        for line, reply in zip(dialogue.user_lines, said, strict=True):
            tokens += self._tokenize(f" {line}") + self._tokenize("\nFriend:")
            start = len(tokens)
            tokens += self._tokenize(f" {reply}")[:_LONGEST_REPLY] or mark
            end = len(tokens)
            tokens += mark
            cuts += [start, len(tokens)]
        return Place(tuple(tokens), start, end, tuple(cuts))

    def read(self, places: Sequence[Place]) -> np.ndarray:
        """The states of replies, [R, depths x kinds x width], in float32."""
        read = np.zeros((len(places), len(self.depths) * NUM_KINDS * self.width), np.float32)
        passes: list[_Pass] = []
        # In this order what goes on from a place stands just before it.
        for index in sorted(range(len(places)), key=lambda i: places[i].tokens, reverse=True):
            tokens = places[index].tokens
            if not passes or passes[-1].tokens[: len(tokens)] != tokens:
                passes.append(_Pass(tokens, places[index].cuts, []))
            passes[-1].replies.append((index, places[index]))
        with self._lock, self._listen(), torch.inference_mode():
            self._run(passes, read)
        return read

    @contextmanager
    def _listen(self) -> Iterator[None]:
        """Keep the states of each pass; the model is as it was before anything learned."""
        layers, was_training = self.model.layers, self.model.training
        hooks = [
            layers[depth - 1].register_forward_hook(partial(self._keep_states, depth))
            for depth in self.depths
        ]
        self.model.eval()
        try:
            with self._without_adapters():
                yield
        finally:
            self.model.train(was_training)
            for hook in hooks:
                hook.remove()

    def _run(self, passes: Sequence[_Pass], read: np.ndarray) -> None:
        """Run through what several share first, then through the passes in batches."""
        origin = {beginning: one for one in passes for beginning in one.beginnings}
        count = Counter([beginning for one in passes for beginning in one.beginnings])
        branches = set()
        for one in passes:
            several = [beginning for beginning in one.beginnings if count[beginning] > 1]
            first = one.beginnings[: not self._find(one)]  # who it is, for the next time
            branches |= {*(several[-1:] or first)}
        missing = sorted(branches - self._kept.keys())
        if missing:
            self._run([origin[b]._replace(tokens=b, replies=[]) for b in missing], read)
        batch: list[_Pass] = []
        for one in sorted(passes, key=lambda one: len(one.tokens) - self._find(one)):
            longest = max([len(other.tokens) for other in (*batch, one)])
            if batch and longest * (len(batch) + 1) > _BATCH_TOKENS:
                self._forward(batch, branches, read)
                batch = []
            batch.append(one)
        self._forward(batch, branches, read)

    def _find(self, one: _Pass) -> int:
        """How many of its tokens need not be run through again."""
        return max([len(b) for b in one.beginnings if b in self._kept], default=0)

    def _forward(
        self, batch: Sequence[_Pass], branches: set[tuple[int, ...]], read: np.ndarray
    ) -> None:
        before = [self._find(one) for one in batch]
        most, new = max(before), max(len(p.tokens) - b for p, b in zip(batch, before, strict=True))
        ids = torch.zeros(len(batch), new, dtype=torch.long)
        mask = torch.zeros(len(batch), most + new, dtype=torch.long)
        for row, (one, kept) in enumerate(zip(batch, before, strict=True)):
            count = len(one.tokens) - kept
            ids[row, :count] = torch.tensor(one.tokens[kept:])
            mask[row, most - kept : most + count] = 1
        device, cache = self.model.device, DynamicCache()
        if most:
            earlier = [self._kept.get(p.tokens[:b]) for p, b in zip(batch, before, strict=True)]
            none = next(kept for kept in earlier if kept is not None)[..., :0, :]
            earlier = [none if kept is None else kept for kept in earlier]
            filled = torch.stack([pad(x, (0, 0, most - x.shape[-2], 0)) for x in earlier])
            for layer in range(filled.shape[2]):
                cache.update(filled[:, 0, layer], filled[:, 1, layer], layer)
        self.model(
            input_ids=ids.to(device),
            attention_mask=mask.to(device),
            position_ids=(torch.tensor(before)[:, None] + torch.arange(new)).to(device),
            use_cache=True,
            **{self._cache_argument: cache},
        )
        for row, (one, kept) in enumerate(zip(batch, before, strict=True)):
            for index, place in one.replies:
                start, end, turn = place.start - kept, place.end - kept, len(place.tokens) - kept
                parts = read[index].reshape(len(self.depths), NUM_KINDS, self.width)
                for part, depth in zip(parts, self.depths, strict=True):
                    states = self._states[depth][row].float()
                    kinds = states[start:end].mean(0), states[end - 1], states[turn - 1]
                    part[:] = torch.stack(kinds).cpu().numpy()
            beginning = one.tokens[:kept]
            if kept and beginning != one.beginnings[0]:
                if one.replies and beginning in branches:
                    continue  # one of several replies: the next moment follows one of them at most
                if beginning not in branches:
                    self._kept.pop(beginning, None)  # a part of what is kept now
            span = slice(most - kept, most + len(one.tokens) - kept)
            layers: list[Any] = cache.layers
            sides = [x.keys[row, :, span] for x in layers], [x.values[row, :, span] for x in layers]
            self._keep(one.tokens, torch.stack([torch.stack(side) for side in sides]))
        self._states.clear()

    def _keep(self, tokens: tuple[int, ...], kept: Tensor) -> None:
        self._kept[tokens] = kept
        total = sum(map(len, self._kept))
        for oldest in list(self._kept):
            if total <= _KEPT_TOKENS:
                break
            total -= len(oldest)
            del self._kept[oldest]

    def _keep_states(self, depth: int, _module: Any, _inputs: Any, output: Any) -> None:
        self._states[depth] = output[0] if isinstance(output, tuple) else output

    def _tokenize_text(self, text: str) -> tuple[int, ...]:
        # What somebody says is never a mark of the model's own.
        told = self.tokenizer(text, add_special_tokens=False, split_special_tokens=True)
        return tuple(told["input_ids"])


def find_states(
    base: str | None, depths: tuple[int, ...], device: str, dtype: str
) -> FrozenStates | None:
    """The states of a base, loaded once in a process: of a policy's model below its adapters where
    that is the base, or where no base is named; None when there is none.
    """
    shared = SHARED.get(base) if base else next(iter(SHARED.values()), None)
    if shared is not None:
        if depths not in shared.readers:
            shared.readers[depths] = FrozenStates(
                shared.model, shared.tokenizer, depths, shared.without_adapters
            )
        return shared.readers[depths]
    return _load_once(base, depths, device, dtype) if base else None


_load_once = lru_cache(maxsize=1)(FrozenStates.load)
