"""How this process treats a machine that it does not have to itself."""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_MOST = 2**31 - 1


def keep_freed_memory() -> None:
    """Keep what tensors leave, up to 2 GiB of the heap: glibc gives large pieces back at once, and
    clearing them again is a quarter of a small model's training time.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, _MOST)
