"""What a model makes of tokens that were sampled: log-probabilities, entropies, values.

Axes: B sequences, T tokens, S sampled tokens, D dialogues, L tokens of a dialogue's tree, H width
of the hidden state, V vocabulary. Padding is on the right and needs no mask, since attention is
causal. Nothing of the vocabulary's size is made for a prompt.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from rlver_gym.policy.models.model import find_causal_lm, find_unsupported_layer_types
from rlver_gym.policy.models.prefixes import build_prefix_trees
from rlver_gym.util.errors import TrainingError

LOGITS_AT_ONCE = 2**26
"""Logits at the same time (256 MB in float32); of more tokens, chunks are computed twice."""


class TokenScores(NamedTuple):
    """Of each sampled token; 0 elsewhere."""

    logprob_BT: Tensor | None = None
    """In nats, at the temperature asked for; None from a critic."""
    entropy_BT: Tensor | None = None
    """Of the distribution that the token was drawn from, in nats; None from a critic."""
    value_BT: Tensor | None = None
    """The return that is expected from here on, this token not yet said; None from a policy."""


Scorer = Callable[..., TokenScores]
"""Called as `Actor.forward` is."""


class Actor(nn.Module):
    """A causal LM of Hugging Face, with LoRA adapters or without, that scores what was said."""

    def __init__(self, model: nn.Module, use_bf16: bool = False) -> None:
        """`use_bf16`: compute in bfloat16. TrainingError for a model that reworks its logits."""
        super().__init__()
        self.model = model
        self._use_bf16 = use_bf16
        _check_output_layer(find_causal_lm(model))

    def forward(
        self,
        id_BT: Tensor,
        action_mask_BT: Tensor,
        temperature: float = 1.0,
        entropy_learns: bool = True,
        dialogue_B: NDArray[np.int64] | None = None,
    ) -> TokenScores:
        """Scores of the sampled tokens. `entropy_learns`: whether gradients flow through the
        entropy too, which costs as much memory as the logits. `dialogue_B`: neighbours of one
        dialogue share the computation of what they begin with; None for nothing shared.
        """
        model = find_causal_lm(self.model)
        with _autocast_context(self._use_bf16, id_BT):
            hidden_SH = _compute_hidden(model.base_model, id_BT, action_mask_BT, dialogue_B)
            logprob_S, entropy_S = _score_tokens(
                hidden_SH,
                id_BT[action_mask_BT],
                _get_output_layer(model),
                temperature,
                entropy_learns,
            )
        return TokenScores(_scatter(logprob_S, action_mask_BT), _scatter(entropy_S, action_mask_BT))


class Critic(nn.Module):
    """A trunk of its own that guesses values."""

    def __init__(self, model: nn.Module, use_bf16: bool = False) -> None:
        """`model`: a causal LM; its head is not kept."""
        super().__init__()
        lm = find_causal_lm(model)
        self.trunk, self._use_bf16 = lm.base_model, use_bf16
        self.value_head = nn.Linear(lm.config.get_text_config().hidden_size, 1, device=lm.device)
        nn.init.zeros_(self.value_head.weight)  # at first, every value is 0
        nn.init.zeros_(self.value_head.bias)

    def forward(
        self,
        id_BT: Tensor,
        action_mask_BT: Tensor,
        temperature: float = 1.0,
        entropy_learns: bool = False,
        dialogue_B: NDArray[np.int64] | None = None,
    ) -> TokenScores:
        """Values; `dialogue_B` as of `Actor.forward`, temperature and entropy play no part."""
        with _autocast_context(self._use_bf16, id_BT):
            hidden_SH = _compute_hidden(self.trunk, id_BT, action_mask_BT, dialogue_B)
        value_S = self.value_head(hidden_SH.to(self.value_head.weight.dtype)).squeeze(-1)
        return TokenScores(value_BT=_scatter(value_S, action_mask_BT))


class Models(NamedTuple):
    """What learns, and what it is held to."""

    actor: nn.Module
    critic: nn.Module | None = None
    reference: Scorer | None = None

    @property
    def learners(self) -> dict[str, nn.Module]:
        return {"actor": self.actor} | ({"critic": self.critic} if self.critic else {})


def make_reference_without_adapters(actor: Actor) -> Scorer:
    """The model below an actor's adapters. TrainingError for an actor without."""
    disabled = getattr(actor.model, "disable_adapter", None)
    if disabled is None:
        raise TrainingError(
            "a policy without LoRA adapters has no base to fall back to. Load a second model as"
            " reference."
        )

    def score(*given: Any, **named: Any) -> TokenScores:
        with disabled():
            return actor(*given, **named)

    return score


def _get_output_layer(model: PreTrainedModel) -> nn.Linear:
    return cast(nn.Linear, model.get_output_embeddings())


def _compute_hidden(
    trunk: nn.Module, id_BT: Tensor, action_mask_BT: Tensor, dialogue_B: NDArray[np.int64] | None
) -> Tensor:
    """hidden_SH: the last hidden state before each sampled token, which predicts it."""
    if (
        dialogue_B is None
        or len(np.unique(dialogue_B)) == len(dialogue_B)
        or find_unsupported_layer_types(trunk.config)
    ):
        hidden_BTH = trunk(input_ids=id_BT[:, :-1], use_cache=False).last_hidden_state
        return hidden_BTH[action_mask_BT[:, 1:]]
    length_B = (
        (action_mask_BT * torch.arange(id_BT.shape[1], device=id_BT.device)).amax(1).cpu().numpy()
    )
    # Up to the last sampled token, from which nothing is predicted.
    trees = build_prefix_trees(id_BT, length_B, dialogue_B)
    kind, dtype = id_BT.device.type, next(trunk.parameters()).dtype
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else dtype
    mask_DLL = torch.zeros(trees.is_seen_DLL.shape, dtype=dtype, device=id_BT.device)
    mask_DLL.masked_fill_(~trees.is_seen_DLL, -torch.inf)
    hidden_DLH = trunk(
        input_ids=trees.id_DL,
        attention_mask=mask_DLL[:, None],
        position_ids=trees.position_DL,
        use_cache=False,
    ).last_hidden_state
    return hidden_DLH.flatten(0, 1)[trees.place_BT[:, :-1][action_mask_BT[:, 1:]]]


def _score_tokens(
    hidden_SH: Tensor, id_S: Tensor, head: nn.Linear, temperature: float, entropy_learns: bool
) -> tuple[Tensor, Tensor]:
    chunk = max(1, LOGITS_AT_ONCE // head.weight.shape[0])
    if len(id_S) <= chunk:
        return _score_chunk(hidden_SH, id_S, head, temperature, entropy_learns)
    how = head, temperature, entropy_learns
    parts = [
        checkpoint(_score_chunk, hidden, ids, *how, use_reentrant=False)
        for hidden, ids in zip(hidden_SH.split(chunk), id_S.split(chunk), strict=True)
    ]
    logprobs, entropies = zip(*parts, strict=True)
    return torch.cat(logprobs), torch.cat(entropies)


def _score_chunk(
    hidden_SH: Tensor, id_S: Tensor, head: nn.Linear, temperature: float, entropy_learns: bool
) -> tuple[Tensor, Tensor]:
    logits_SV = head(hidden_SH)
    logits_SV = logits_SV.to(torch.promote_types(logits_SV.dtype, torch.float32))
    if temperature != 1:  # a copy of all logits
        logits_SV = logits_SV / temperature
    total_S = logits_SV.logsumexp(-1)
    logprob_S = logits_SV.gather(-1, id_S[:, None]).squeeze(-1) - total_S
    with torch.set_grad_enabled(entropy_learns and torch.is_grad_enabled()):
        entropy_S = total_S - (logits_SV.softmax(-1) * logits_SV).sum(-1)
    return logprob_S, entropy_S


def _scatter(value_S: Tensor, action_mask_BT: Tensor) -> Tensor:
    return value_S.new_zeros(action_mask_BT.shape).masked_scatter(action_mask_BT, value_S)


def _autocast_context(use_bf16: bool, id_BT: Tensor) -> torch.autocast:
    return torch.autocast(id_BT.device.type, dtype=torch.bfloat16, enabled=use_bf16)


@torch.no_grad()
def _check_output_layer(model: PreTrainedModel) -> None:
    """Refuse families that scale or cap logits after the head: another distribution than ours."""
    seen = model(
        input_ids=torch.tensor([[0, 1]], device=model.device),
        output_hidden_states=True,
        use_cache=False,
    )
    ours = _get_output_layer(model)(seen.hidden_states[-1])
    if not torch.allclose(ours.float(), seen.logits.float(), rtol=1e-3, atol=1e-3):
        raise TrainingError(
            f"{type(model).__name__} changes its logits after the output layer, which the learner"
            " does not do. Take a model such as Qwen2, Qwen3 or Llama."
        )
