"""Settings of glibc's memory allocator for processes that handle large arrays again and again.

By default, or with the environment variables that a JVM needs, glibc returns each freed large block to the system. The
next block of that size then consists of new pages, and the kernel has to clear each of them at its first use. A virtual
machine also has to get them from its host.
"""

from __future__ import annotations

import ctypes
from typing import Final

# Parameters of mallopt(3).
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3

_LARGEST_MMAP_THRESHOLD: Final = 33_554_432
"""mallopt refuses a higher one."""


def keep_freed_memory(kept_bytes: int) -> bool:
    """Let this process, and the processes that it forks, keep up to `kept_bytes` of freed memory for later blocks.

    Blocks above 32 MiB still return to the system. Overrides `MALLOC_MMAP_THRESHOLD_` and `MALLOC_TRIM_THRESHOLD_`.
    Returns False without any change if the C library has no mallopt.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD) and mallopt(_TRIM_THRESHOLD, kept_bytes))
