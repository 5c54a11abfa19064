"""Arrays in mapped files: two workers see the same content, and a mapping holds no file descriptor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fraud_rules.engine.state.arrays import MappedArrays

ARRAYS = 300


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def mappings(folder: Path) -> int:
    return Path("/proc/self/maps").read_text(encoding="utf-8").count(str(folder))


def test_two_workers_share_an_array_that_grows(tmp_path: Path) -> None:
    mine, other = MappedArrays(tmp_path), MappedArrays(tmp_path)
    mine.open("rows", np.int64, 4, 2)[:] = 7
    other.open("rows", np.int64, 4, 2)[3, 1] = 9
    grown = mine.open("rows", np.int64, 5_000, 2)
    assert grown[:5].tolist() == [[7, 7], [7, 7], [7, 7], [7, 9], [0, 0]]
    assert grown.shape == (5_000, 2)


def test_an_array_grows_within_its_mapping(tmp_path: Path) -> None:
    """Another mapping would fault on each page again."""
    arrays, other = MappedArrays(tmp_path), MappedArrays(tmp_path)
    first = arrays.open("rows", np.int64, 10_000, 2)
    other.open("rows", np.int64, 1, 2)
    grown = arrays.open("rows", np.int64, 11_000, 2)
    assert grown.ctypes.data == first.ctypes.data
    grown[10_999] = 5
    assert other.open("rows", np.int64, 1, 2)[10_999].tolist() == [5, 5]
    far = arrays.open("rows", np.int64, 100_000, 2)
    assert far[10_999].tolist() == [5, 5]


def test_a_mapping_holds_no_descriptor_and_ends_with_its_array(tmp_path: Path) -> None:
    """A worker maps thousands of files if rules often clear their groupings; the system limits open files."""
    before = descriptors()
    arrays = MappedArrays(tmp_path)
    for number in range(ARRAYS):
        arrays.open(f"array-{number}", np.int64, 4, 0)[:] = number
    assert descriptors() <= before + 1
    assert mappings(tmp_path) == ARRAYS
    kept = arrays.open("array-7", np.int64, 4, 0)
    for number in range(ARRAYS):
        arrays.drop(f"array-{number}")
    assert kept.tolist() == [7] * 4
    assert mappings(tmp_path) == 1
    del kept
    assert mappings(tmp_path) == 0


def test_a_failed_mapping_is_an_error_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fraud_rules.engine.state.arrays.mmap.MAP_SHARED", -1)
    with pytest.raises(OSError, match="Invalid argument"):
        MappedArrays(tmp_path).open("rows", np.int64, 4, 2)
