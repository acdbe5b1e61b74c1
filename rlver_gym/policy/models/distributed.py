"""More than one process, started by torchrun: who I am and what the others have. One process needs
none of it, and every function here then does the obvious thing.

All processes hold the same batch and compute different rows of it, so that whatever follows from
the batch (advantages, denominators, the order of minibatches) is the same everywhere without a word
between them.
"""

import gc
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from rlver_gym.policy.models.actor import Actor, Critic
from rlver_gym.util.errors import TrainingError

Item = TypeVar("Item")


@contextmanager
def process_group() -> Iterator[None]:
    """The connection to other processes; let go of models and optimizers before it ends."""
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
    """This process's run of neighbours, so that `all_gather` restores the order."""
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


@contextmanager
def enter_on_first(
    make_context: Callable[[], AbstractContextManager[Item]],
) -> Iterator[Item | None]:
    """What the first process entered, None on the others. All raise its TrainingError."""
    with ExitStack() as stack:
        entered, problem = None, ""
        if rank() == 0:
            try:
                entered = stack.enter_context(make_context())
            except TrainingError as error:
                problem = str(error)
        if problem := all_gather([problem])[0]:
            raise TrainingError(problem)
        yield entered


def distribute(module: Actor | Critic) -> nn.Module:
    """The module, with several processes one that averages its gradients over them."""
    if ranks() == 1:
        return module
    with warnings.catch_warnings():
        # torch 2.13 has another name for the option, which older ones do not know
        warnings.simplefilter("ignore", FutureWarning)
        return DistributedDataParallel(module, broadcast_buffers=False)


def unwrap(module: nn.Module) -> nn.Module:
    return module.module if isinstance(module, DistributedDataParallel) else module


def sync_gradients(module: nn.Module, last: bool) -> AbstractContextManager[None]:
    """A context in which gradients stay on their process, unless they are the last of a step."""
    return (
        module.no_sync()
        if isinstance(module, DistributedDataParallel) and not last
        else nullcontext()
    )
