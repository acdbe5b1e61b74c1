"""The optimizer, with a learning rate for the policy and one for its critic."""

from torch import nn
from torch.optim import AdamW


def make_optimizer(
    actor: nn.Module,
    critic: nn.Module | None = None,
    *,
    lr: float = 1e-6,
    critic_lr: float = 5e-6,
    weight_decay: float = 0.0,
) -> AdamW:
    """AdamW over all weights that learn. `critic_lr` goes to the critic, or to the actor's value head. Make it after the modules were spread out over
    processes. The default rates are RLVER's (arXiv:2507.03112, appendix B)."""
    policy, values = [], list(critic.parameters()) if critic else []
    for name, weight in actor.named_parameters():
        (values if "value_head" in name.split(".") else policy).append(weight)
    groups = [
        {"params": [weight for weight in weights if weight.requires_grad], "lr": rate, "full_lr": rate}
        for weights, rate in ((policy, lr), (values, critic_lr))
    ]
    return AdamW([group for group in groups if group["params"]], weight_decay=weight_decay)


def schedule(optimizer: AdamW, iteration: int, iterations: int, warmup: int = 0, anneal: bool = False) -> None:
    """Set the learning rates for an iteration, from 0. They rise in equal steps and reach their values in the last of the `warmup` iterations; with
    `anneal` they also fall in equal steps, to a tenth in the last of all `iterations`."""
    rise = min(1.0, (iteration + 1) / max(warmup, 1))
    fall = 1 - 0.9 * iteration / max(iterations - 1, 1) if anneal else 1.0
    for group in optimizer.param_groups:
        group["lr"] = group["full_lr"] * rise * fall
