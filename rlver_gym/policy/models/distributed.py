"""More than one process, started by torchrun: who I am, what the others have, and whose engine
shards the model. One process needs none of it, and every function here then does the obvious thing.

All processes hold the same batch and compute different rows of it, so that whatever follows from
the batch (advantages, denominators, the order of minibatches) is the same everywhere without a word
between them.
"""

import gc
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from rlver_gym.policy.models.actor import Actor, Critic
from rlver_gym.policy.models.model import find_causal_lm

Item = TypeVar("Item")
Engine = Literal["ddp", "fsdp"]


@contextmanager
def process_group() -> Iterator[None]:
    """The connection to the other processes, while it is needed; nothing without torchrun.

    Let go of models and optimizers before it ends.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield
        dist.barrier()
    finally:
        # what still holds the group when it is destroyed can abort the process at exit
        gc.collect()
        dist.destroy_process_group()


def rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def ranks() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def local_slice(items: Sequence[Item]) -> Sequence[Item]:
    """This process's part of what there is to play: a run of neighbours, so that `all_gather` puts
    all back in the same order.
    """
    start, end = (len(items) * at // ranks() for at in (rank(), rank() + 1))
    return items[start:end]


def all_gather(items: Sequence[Item]) -> list[Item]:
    """The items of all processes, in the order of the processes. They travel pickled."""
    if ranks() == 1:
        return list(items)
    parts: list[list[Item]] = [[] for _ in range(ranks())]
    dist.all_gather_object(parts, list(items))
    return [item for part in parts for item in part]


def all_reduce_sum(value: Tensor) -> Tensor:
    """The sum over all processes; `value` is overwritten with it."""
    if ranks() > 1:
        dist.all_reduce(value)
    return value


def distribute(module: Actor | Critic, engine: Engine, use_bf16: bool = False) -> nn.Module:
    """The module with its gradients averaged over the processes: a copy on each (ddp), or a part of
    the weights on each (fsdp, FSDP2). With one process, the module itself.

    Sharded weights are those of the first process; what stood in the others (`load_empty_model`) is
    overwritten. `use_bf16`: they are gathered and multiplied in bfloat16, while the shards, their
    gradients' sums and the optimizer stay in float32.
    """
    if ranks() == 1:
        return module
    if engine == "ddp":
        with (
            warnings.catch_warnings()
        ):  # torch 2.13 has another name for the option, which older ones do not know
            warnings.simplefilter("ignore", FutureWarning)
            return DistributedDataParallel(module, broadcast_buffers=False)
    weights = module.state_dict() if rank() == 0 else {}
    precision = MixedPrecisionPolicy(
        torch.bfloat16 if use_bf16 else None, reduce_dtype=torch.float32
    )
    trunk = module.trunk if isinstance(module, Critic) else find_causal_lm(module).base_model
    for layer in trunk.layers:  # pyright: ignore[reportGeneralTypeIssues]
        fully_shard(layer, mp_policy=precision)
    if isinstance(module, Critic):
        fully_shard(module.value_head)
    # By itself the root would stay whole after a pass without gradients, and its parameters would
    # not be those that the optimizer changes.
    fully_shard(module, reshard_after_forward=True, mp_policy=precision)
    set_model_state_dict(
        module, weights, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    )
    for buffer in module.buffers():  # those that a state has not: the angles of rotary embeddings
        dist.broadcast(buffer, 0)
    _fix_fsdp_root(module)
    return module


def unwrap(module: nn.Module) -> nn.Module:
    """The module inside a DDP wrapper, for sampling and saving; any other as it is."""
    return module.module if isinstance(module, DistributedDataParallel) else module


@contextmanager
def full_params(module: nn.Module) -> Iterator[nn.Module]:
    """The module with all its weights on this process, for as long as it samples: the processes
    then need not keep step.
    """
    parts = [part for part in module.modules() if isinstance(part, FSDPModule)]
    for part in parts:
        part.set_reshard_after_forward(False, recurse=False)
        part.unshard()
    try:
        yield unwrap(module)
    finally:
        for part in parts:
            part.reshard()
            part.set_reshard_after_forward(True, recurse=False)


def sync_gradients(module: nn.Module, last: bool) -> AbstractContextManager[None]:
    """A context in which each process keeps its gradients to itself, unless they are the last ones
    of a step: they are added up over the processes once.
    """
    if isinstance(module, FSDPModule):
        module.set_requires_gradient_sync(last)
    return (
        module.no_sync()
        if isinstance(module, DistributedDataParallel) and not last
        else nullcontext()
    )


def clip_gradients(module: nn.Module, most: float) -> float:
    """Shrink the gradients to a norm of at most `most`; returns the norm they had, over all
    processes.
    """
    norm = nn.utils.clip_grad_norm_(module.parameters(), most)
    return float(norm.full_tensor() if isinstance(norm, DTensor) else norm)


@torch.no_grad()
def _fix_fsdp_root(module: nn.Module) -> None:
    """FSDP takes the first module that is called for the root, for ever; sampling calls inner
    ones.
    """
    id_BT = torch.zeros((1, 2), dtype=torch.int64, device=next(module.parameters()).device)
    module(id_BT, torch.tensor([[False, True]], device=id_BT.device))
