"""A disk that is full, for the process of the tests."""

import resource
from contextlib import contextmanager


@contextmanager
def files_of_at_most(size):
    """A disk that is full as soon as a file has so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
