"""All or nothing: what raises has left environments where they were, their random numbers too."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np


class _RandomState(NamedTuple):
    owner: Any
    generator: np.random.Generator | None
    seed: int | None
    state: Any

    @classmethod
    def of(cls, owner: Any) -> "_RandomState":
        generator = owner._np_random
        state = generator and generator.bit_generator.state
        return cls(owner, generator, owner._np_random_seed, state)

    def restore(self) -> None:
        self.owner._np_random, self.owner._np_random_seed = self.generator, self.seed
        if self.generator is not None:
            self.generator.bit_generator.state = self.state


@contextmanager
def undo_on_error(
    envs: Sequence[Any], *others: Any, unless: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """An error leaves the dialogues of `envs`, EmpathyEnvs, where they were, but for `unless`."""
    restores = [
        *(env._keep_position() for env in envs),
        *(_RandomState.of(owner).restore for owner in (*envs, *others)),
    ]
    try:
        yield
    except BaseException as error:
        if not isinstance(error, unless):
            for restore in restores:
                restore()
        raise
