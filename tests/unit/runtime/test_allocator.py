"""Freed memory is used again. Each case has a process of its own, because the settings last as long as a process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_BLOCKS = """
import resource
import sys

from fraud_rules.runtime.allocator import keep_freed_memory

if sys.argv[1] == "keep":
    assert keep_freed_memory(256 * 1024 * 1024)
def fill_and_free():
    block = bytearray(8 * 1024 * 1024)
    block[:] = b"1" * len(block)
fill_and_free()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    fill_and_free()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
_PAGES = 2 * 20 * 8 * 1024 // 4
"""The pages of all blocks."""


def _faults(setting: str) -> int:
    environ = os.environ | {"MALLOC_MMAP_THRESHOLD_": "131072"}
    done = subprocess.run(
        [sys.executable, "-c", _BLOCKS, setting], env=environ, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.parametrize(("setting", "few"), [("return", False), ("keep", True)])
def test_a_process_that_keeps_freed_memory_uses_its_pages_again(setting: str, few: bool) -> None:
    assert (_faults(setting) < _PAGES // 20) is few
