"""How this process treats a machine that it does not have to itself."""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_MOST = 2**31 - 1


def keep_freed_memory() -> None:
    """Memory that tensors leave is kept for the next ones, up to 2 GiB at the end of the heap. By
    default glibc gives large pieces back at once, and the kernel clears each when it is asked for
    again: a quarter of a small model's training time. Does nothing where there is no glibc.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, _MOST)
