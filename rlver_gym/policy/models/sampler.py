"""Replies drawn from the policy, many dialogues at a time, each with one KV cache from its first
turn to its last. Knows no text: ids in, ids out.

The policy that is learned is softmax(logits / temperature): `logprobs` are of that distribution,
before top-k and top-p cut it. With a cut, what was drawn comes from a narrower distribution than
the one that is learned. At temperature 0 (greedy) they are those of temperature 1.
"""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from rlver_gym.policy.models.cache import RaggedCache
from rlver_gym.policy.models.model import (
    copy_weights,
    find_causal_lm,
    find_unsupported_layer_types,
    make_bf16_copy,
)
from rlver_gym.util.errors import TrainingError
from rlver_gym.util.model_cache import find_cache_argument_name


@dataclass(frozen=True, slots=True)
class Sampling:
    """How replies are drawn."""

    max_tokens: int
    """The longest reply; it is cut there."""
    stop_ids: frozenset[int]
    """Drawing one of these ends a reply."""
    temperature: float = 1.0
    """0 takes the likeliest token every time."""
    top_p: float = 1.0
    top_k: int = 0
    """0 for no bound."""


class Prompt(NamedTuple):
    """What a reply is asked for to."""

    dialogue: int
    """Whose turn it is: prompts of one dialogue that begin alike share their cache."""
    ids: Sequence[int]
    """Everything up to where the reply begins."""
    seed: int
    """Decides the draw, whoever else is in the batch."""


class Completion(NamedTuple):
    """A reply: T sampled ids, the one that ended it included; log-probabilities in nats."""

    ids: list[int]
    logprobs: list[float]


class Sampler(Protocol):
    """Anything that continues token ids: this process's model, or a server's."""

    at_once: int | None
    """Prompts under way at once, each asked for from a thread of its own; None: in one batch."""

    def sample(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]: ...

    def forget(self) -> None:
        """The dialogues are over: nothing kept of them is of use any more."""
        ...

    def refresh(self) -> None:
        """Sample with the weights of now. All processes call it together, before they talk."""
        ...


class ModelSampler:
    """Samples with a model in this process."""

    at_once: int | None = None

    def __init__(
        self,
        model: nn.Module,
        use_bf16: bool = False,
        copied: bool = False,
        prefill_tokens: int = 16_384,
        lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        """`model`: a causal LM of full attention, whatever wraps it; `use_bf16`: compute in
        bfloat16. `copied`: sample with a copy in bfloat16, adapters merged in, brought up to date
        by `refresh`. `prefill_tokens`: prompt tokens, padding included, that pass at once.
        `lock`: held while it samples, where others run the model too. TrainingError for other kinds
        of attention.
        """
        self.model = model
        self.use_bf16 = use_bf16
        self.copied = copied
        self.prefill_tokens = prefill_tokens
        self._lock = lock or Lock()
        self._lm = make_bf16_copy(find_causal_lm(model)) if copied else find_causal_lm(model)
        self._head = cast(nn.Module, self._lm.get_output_embeddings())
        _check_attention_layers(self._lm)
        self._cache_argument = find_cache_argument_name(self._lm.base_model)
        self.forget()
        self._check_cache()

    @torch.no_grad()
    def _check_cache(self) -> None:
        """Refuse families that read a text otherwise in parts or beside a longer one."""
        texts, training = ([0, 1, 2, 1, 0, 2], [1, 2, 0, 2]), self._lm.training
        trunk, device = self._lm.base_model, self._lm.device
        tolerance = 0.3 if self.use_bf16 or self.copied else 0.05
        self._lm.eval()
        try:
            with self._autocast():
                read = [trunk(torch.tensor([ids], device=device))[0][:, -1] for ids in texts]
                whole = torch.cat(list(map(self._head, read)))
                self._feed([ids[:-2] for ids in texts], [0, 0], 0)
                parts = self._feed([ids[-2:] for ids in texts], [4, 2], 0)
            why = "reads a text otherwise when it comes in parts"
            is_same = bool((parts - whole).norm() < tolerance * (whole - whole.mean()).norm())
        except (TypeError, ValueError, AttributeError, RuntimeError, LookupError) as error:
            why, is_same = f"takes no cache of keys and values ({error})", False
        finally:
            self._lm.train(training)
            self.forget()
        if not is_same:
            raise TrainingError(
                f"{type(self._lm).__name__} {why}, so this sampler cannot speak with it. Take a"
                " model such as Qwen2, Qwen3 or Llama, or let a server sample."
            )

    def _autocast(self) -> torch.autocast:
        return torch.autocast(
            self._lm.device.type, torch.bfloat16, enabled=self.use_bf16 and not self.copied
        )

    def forget(self) -> None:
        self._cache = RaggedCache(self._lm.config.get_text_config().num_hidden_layers)
        self._owner: list[int] = []
        """Whose dialogue is in each row."""
        self._cached_ids: list[list[int]] = []
        """The ids whose keys and values are in each row."""

    def match_rows(self, prompts: Sequence[Sequence[int]], most: int) -> list[int]:
        """Dialogue numbers for prompts of which nobody says the dialogue: that of the row with
        which a prompt has most in common, at least half of what the row holds, or a new number.
        All rows are dropped when there would be more than `most`.
        """
        rows = dict(zip(self._owner, self._cached_ids, strict=True))
        fresh = itertools.count(max(rows, default=-1) + 1)
        numbers: list[int] = []
        for ids in prompts:
            halves = {owner: held[: (len(held) + 1) // 2] for owner, held in rows.items()}
            alike = [owner for owner, half in halves.items() if half == list(ids[: len(half)])]
            common = {owner: _count_common_ids(rows[owner], ids) for owner in alike}
            best = max(common, key=common.__getitem__, default=None)
            numbers.append(next(fresh) if best is None else best)
            rows.pop(numbers[-1], None)
        if len(rows) + len(numbers) > most:
            self.forget()
        return numbers

    def refresh(self) -> None:
        self.forget()
        if self.copied:
            copy_weights(self._lm, find_causal_lm(self.model))

    # not inference_mode: there autocast keeps no cast weights, and casts every one anew for every
    # token
    @torch.no_grad()
    def sample(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """One reply a prompt, at most one prompt a dialogue; rows of other dialogues stay."""
        with self._lock:
            training = self.model.training
            self.model.eval()
            try:
                with self._autocast():
                    drawn_of = self._draw(self._assign_rows(prompts), sampling)
            except BaseException:  # what is in the cache is no longer known
                self.forget()
                raise
            finally:
                self.model.train(training)
        return [drawn_of[prompt.dialogue] for prompt in prompts]

    def _assign_rows(self, prompts: Sequence[Prompt]) -> list[Prompt]:
        """Bring the prompts' dialogues into the first rows; new ones that equal others sit last."""
        prompt_of = {prompt.dialogue: prompt for prompt in prompts}
        known = set(self._owner)
        fresh = {one: tuple(x.ids) for one, x in prompt_of.items() if one not in known}
        leaders = {ids: one for one, ids in reversed(fresh.items())}
        for one in sorted(fresh, key=lambda one: leaders[fresh[one]] != one):
            self._owner.append(one)
            self._cached_ids.append([])
        free = [row for row in range(len(prompts)) if self._owner[row] not in prompt_of]
        behind = [
            row for row in range(len(prompts), len(self._owner)) if self._owner[row] in prompt_of
        ]
        self._swap(free, behind)
        return [prompt_of[owner] for owner in self._owner[: len(prompts)]]

    def _swap(self, rows: list[int], others: list[int]) -> tuple[list[int], list[int]]:
        """Exchange each of `rows` with its partner in `others`; gives which rows went where."""
        order, places = others + rows, rows + others
        self._cache.move(order, places)
        owner, held = list(self._owner), list(self._cached_ids)
        for came_from, place in zip(order, places, strict=True):
            self._owner[place], self._cached_ids[place] = owner[came_from], held[came_from]
        return order, places

    def _draw(self, prompts: list[Prompt], sampling: Sampling) -> dict[int, Completion]:
        """A reply for each prompt; a row whose reply has ended changes places with the last."""
        at_work, device = len(prompts), self._lm.device
        generators = [np.random.default_rng(one.seed) for one in prompts]
        chances = [each.random(sampling.max_tokens, np.float32) for each in generators]
        chance_BT = torch.tensor(np.stack(chances), device=device)
        id_BT = torch.zeros_like(chance_BT, dtype=torch.long)
        logprob_BT = torch.zeros_like(chance_BT)
        stop_ids = torch.tensor(sorted(sampling.stop_ids), device=device)
        length = [sampling.max_tokens] * at_work
        number = torch.arange(at_work, device=device)  # of the prompt in each row
        position = torch.tensor([len(one.ids) for one in prompts], device=device)
        reach = max(len(one.ids) for one in prompts)
        logits = self._prefill(prompts)
        for step in range(sampling.max_tokens):
            token, logprob = pick_tokens(logits, chance_BT[number[:at_work], step], sampling)
            id_BT[number[:at_work], step], logprob_BT[number[:at_work], step] = token, logprob
            ended = torch.isin(token, stop_ids).nonzero()[:, 0].tolist()
            if ended:
                for row in ended:
                    length[int(number[row])] = step + 1
                at_work -= len(ended)
                if not at_work:
                    break
                working = [
                    row for row in range(at_work, at_work + len(ended)) if row not in set(ended)
                ]
                order, places = self._swap([row for row in ended if row < at_work], working)
                for moved in (number, position, token):
                    moved[places] = moved[order]
                token = token[:at_work]
            if step + 1 < sampling.max_tokens:
                place_BT = (position[:at_work] + step)[:, None]
                hidden = self._hidden(token[:, None], place_BT, reach + step + 1)
                logits = self._head(hidden[:, 0])
        return self._collect_completions(prompts, id_BT.tolist(), logprob_BT.tolist(), length)

    def _collect_completions(
        self,
        prompts: list[Prompt],
        ids: list[list[int]],
        logprobs: list[list[float]],
        length: list[int],
    ) -> dict[int, Completion]:
        """The replies by dialogue; notes what the rows hold now: all but the last token."""
        completions = {
            one.dialogue: Completion(ids[i][: length[i]], logprobs[i][: length[i]])
            for i, one in enumerate(prompts)
        }
        asked = {one.dialogue: one.ids for one in prompts}
        for row in range(len(prompts)):
            owner = self._owner[row]
            self._cached_ids[row] = [*asked[owner], *completions[owner].ids[:-1]]
        return completions

    def _prefill(self, prompts: list[Prompt]) -> Tensor:
        """Feed what the rows do not hold yet, equal new prompts once; logits (B, V) after each."""
        kept = [
            _count_common_ids(held, one.ids)
            for held, one in zip(self._cached_ids, prompts, strict=False)
        ]
        leader = {tuple(one.ids): row for row, one in reversed(list(enumerate(prompts)))}
        source = [
            leader[tuple(one.ids)] if not self._cached_ids[row] else row
            for row, one in enumerate(prompts)
        ]
        own = max(row for row in range(len(prompts)) if source[row] == row) + 1
        logits = [
            self._feed(
                [prompts[row].ids[kept[row] :] for row in rows],
                kept[rows.start : rows.stop],
                rows.start,
            )
            for rows in _split_rows(
                [len(one.ids) - held for one, held in zip(prompts[:own], kept, strict=False)],
                self.prefill_tokens,
            )
        ]
        self._cache.move(source[own:], list(range(own, len(prompts))))
        return torch.cat(logits)[source]

    def _feed(self, new: list[Sequence[int]], kept: list[int], first_row: int) -> Tensor:
        """Feed each row its new ids, padded behind; the logits (B, V) after them."""
        device = self._lm.device
        longest = max(map(len, new))
        id_BT = torch.tensor([[*ids, *[0] * (longest - len(ids))] for ids in new], device=device)
        position_BT = torch.tensor(kept, device=device)[:, None] + torch.arange(
            longest, device=device
        )
        last = torch.tensor([len(ids) - 1 for ids in new], device=device)
        hidden = self._hidden(id_BT, position_BT, max(kept) + longest, first_row)
        return self._head(hidden[torch.arange(len(new), device=device), last])

    def _hidden(self, id_BT: Tensor, position_BT: Tensor, reach: int, first_row: int = 0) -> Tensor:
        dtype = torch.bfloat16 if self.use_bf16 or self.copied else self._lm.dtype
        mask = self._cache.aim(first_row, position_BT, reach, dtype)
        return self._lm.base_model(
            input_ids=id_BT,
            attention_mask=mask,
            position_ids=position_BT,
            use_cache=True,
            **{self._cache_argument: self._cache},
        ).last_hidden_state


def _check_attention_layers(lm: PreTrainedModel) -> None:
    if kinds := find_unsupported_layer_types(lm.config):
        raise TrainingError(
            f"{type(lm).__name__} has layers of {', '.join(sorted(kinds))}, which this sampler does"
            " not know. Take a model such as Qwen2, Qwen3 or Llama, or let a server sample."
        )


def pick_tokens(logits_BV: Tensor, chance_B: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """One token a row, where the cumulative distribution passes `chance` (in [0, 1)), and its
    log-probability before top-k and top-p.
    """
    logits_BV = logits_BV.float() / (sampling.temperature or 1.0)
    total_B1 = logits_BV.logsumexp(-1, keepdim=True)
    if not bool(total_B1.isfinite().all()):
        raise TrainingError(
            "the policy's logits are not finite numbers any more. Begin from an earlier checkpoint"
            " (--model RUN/checkpoints/N/model) with a lower --lr and another --out."
        )
    if sampling.temperature == 0:
        token_B1 = logits_BV.argmax(-1, keepdim=True)
    else:
        reached_BV = _filter_top_k_top_p((logits_BV - total_B1).exp(), sampling).cumsum(-1)
        whole_B1 = reached_BV[:, -1:].contiguous()
        token_B1 = torch.searchsorted(reached_BV, chance_B[:, None] * whole_B1, right=True)
        # Rounding must not lead beyond the last token that has a chance.
        token_B1 = token_B1.minimum(torch.searchsorted(reached_BV, whole_B1))
    return token_B1[:, 0], (logits_BV.gather(-1, token_B1) - total_B1)[:, 0]


def _filter_top_k_top_p(chance_BV: Tensor, sampling: Sampling) -> Tensor:
    if sampling.top_p >= 1 and not sampling.top_k:
        return chance_BV
    sorted_BV, index_BV = chance_BV.sort(dim=-1, descending=True)
    out_BV = sorted_BV.cumsum(-1) - sorted_BV >= sampling.top_p
    if sampling.top_k:
        out_BV[:, sampling.top_k :] = True
    return chance_BV.scatter(-1, index_BV, sorted_BV.masked_fill(out_BV, 0))


def _split_rows(count_B: Sequence[int], most: int) -> Iterator[range]:
    """Neighbouring rows of at most `most` tokens, padded to the longest; at least one row."""
    first = longest = 0
    for row, count in enumerate(count_B):
        longest = max(longest, count)
        if row > first and longest * (row + 1 - first) > most:
            yield range(first, row)
            first, longest = row, count
    yield range(first, len(count_B))


def _count_common_ids(held: Sequence[int], ids: Sequence[int]) -> int:
    """How many ids of the prompt are held already; never its last one, whose logits are wanted."""
    most = min(len(held), len(ids) - 1)
    differ = np.flatnonzero(np.asarray(held[:most]) != np.asarray(ids[:most]))
    return int(differ[0]) if len(differ) else most
