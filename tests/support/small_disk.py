"""A small file system that a test can fill."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(mounted_at: Path, size: str, enlarged: str = "64m") -> Iterator[Callable[[], None]]:
    """Mount a file system of this size and yield a function that enlarges it. Skips without the right to mount."""
    mounted_at.mkdir(parents=True)

    def mount(options: str) -> bool:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(mounted_at)]
        return os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0

    if not mount(f"size={size}"):
        pytest.skip("needs the right to mount a file system")
    try:
        yield lambda: mount(f"remount,size={enlarged}") or pytest.fail("the disk cannot be enlarged")
    finally:
        subprocess.run(["umount", "-l", str(mounted_at)], check=True)
