"""All or nothing: what raises has left environments where they were, their random numbers too."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any


def _keep_random_state(owner: Any) -> Callable[[], None]:
    generator, seed = owner._np_random, owner._np_random_seed
    state = generator and generator.bit_generator.state

    def restore() -> None:
        owner._np_random, owner._np_random_seed = generator, seed
        if generator is not None:
            generator.bit_generator.state = state

    return restore


@contextmanager
def undo_on_error(
    envs: Sequence[Any], *others: Any, unless: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """An error leaves the dialogues of `envs`, EmpathyEnvs, where they were, but for `unless`."""
    restores = [*(env._keep_position() for env in envs), *map(_keep_random_state, (*envs, *others))]
    try:
        yield
    except BaseException as error:
        if not isinstance(error, unless):
            for restore in restores:
                restore()
        raise
