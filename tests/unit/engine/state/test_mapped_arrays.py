"""Arrays in mapped files: two workers see the same content, and small arrays share one mapping without a descriptor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fraud_rules.engine.state.arrays import REGION_BYTES, MappedArrays
from fraud_rules.errors import MappingsExhausted

ARRAYS = 20
LARGE = REGION_BYTES // 8 + 1


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def mappings(folder: Path) -> int:
    return Path("/proc/self/maps").read_text(encoding="utf-8").count(str(folder))


def blocks(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.iterdir())


def test_two_workers_share_an_array_that_grows(tmp_path: Path) -> None:
    mine, other = MappedArrays(tmp_path), MappedArrays(tmp_path)
    mine.open("rows", np.int64, 4, 2)[:] = 7
    other.open("rows", np.int64, 4, 2)[3, 1] = 9
    grown = mine.open("rows", np.int64, 5_000, 2)
    assert grown[:5].tolist() == [[7, 7], [7, 7], [7, 7], [7, 9], [0, 0]]
    assert grown.shape == (5_000, 2)


@pytest.mark.parametrize("rows", [10_000, LARGE])
def test_an_array_grows_within_its_mapping(rows: int, tmp_path: Path) -> None:
    """Another mapping would fault on each page again."""
    arrays, other = MappedArrays(tmp_path), MappedArrays(tmp_path)
    first = arrays.open("rows", np.int64, rows, 2)
    other.open("rows", np.int64, 1, 2)
    grown = arrays.open("rows", np.int64, rows + 1_000, 2)
    assert grown.ctypes.data == first.ctypes.data
    grown[rows + 999] = 5
    assert other.open("rows", np.int64, 1, 2)[rows + 999].tolist() == [5, 5]
    far = arrays.open("rows", np.int64, 10 * rows, 2)
    assert far[rows + 999].tolist() == [5, 5]


def test_an_unchanged_array_is_the_same_object(tmp_path: Path) -> None:
    arrays = MappedArrays(tmp_path)
    for rows in (10, LARGE):
        assert arrays.open("rows", np.int64, rows, 0) is arrays.open("rows", np.int64, 5, 0)


def test_an_array_that_outgrows_its_region_moves_for_every_worker(tmp_path: Path) -> None:
    arrays, other = MappedArrays(tmp_path), MappedArrays(tmp_path)
    arrays.open("before", np.int64, 4, 0)[:] = 1
    other.open("rows", np.int64, 1_000, 0)[:] = 2
    arrays.open("after", np.int64, 4, 0)[:] = 3
    moved = arrays.open("rows", np.int64, LARGE, 0)
    assert moved[:1_000].tolist() == [2] * 1_000
    assert not moved[1_000:].any()
    moved[-1] = 4
    assert other.open("rows", np.int64, 1, 0)[[999, LARGE - 1]].tolist() == [2, 4]
    assert other.open("before", np.int64, 1, 0).tolist() == [1] * 4
    assert other.open("after", np.int64, 1, 0).tolist() == [3] * 4


@pytest.mark.parametrize("rows", [10, LARGE])
def test_a_dropped_array_is_zero_when_another_worker_opens_it(rows: int, tmp_path: Path) -> None:
    arrays, other = MappedArrays(tmp_path), MappedArrays(tmp_path)
    arrays.open("rows", np.int64, rows, 0)[:] = 7
    other.open("rows", np.int64, rows, 0)
    arrays.drop("rows")
    assert not other.open("rows", np.int64, 4, 0).any()
    assert len(arrays.open("rows", np.int64, 4, 0)) == 4
    assert mappings(tmp_path) == 2


def test_a_dropped_array_gives_its_disk_space_back(tmp_path: Path) -> None:
    arrays = MappedArrays(tmp_path)
    arrays.open("rows", np.uint8, REGION_BYTES, 0)[:] = 7
    assert blocks(tmp_path) >= REGION_BYTES
    arrays.drop("rows")
    assert blocks(tmp_path) < REGION_BYTES // 10


def test_arrays_share_a_mapping_that_holds_no_descriptor_and_ends_with_them(tmp_path: Path) -> None:
    """A worker maps thousands of states if rules often clear their groupings; the system limits files and mappings."""
    before = descriptors()
    arrays = MappedArrays(tmp_path)
    for number in range(ARRAYS):
        arrays.open(f"array-{number}", np.int64, 4, 0)[:] = number
    assert descriptors() <= before + 1
    assert mappings(tmp_path) == 1
    kept = arrays.open("array-7", np.int64, 4, 0)
    del arrays
    assert kept.tolist() == [7] * 4
    assert mappings(tmp_path) == 1
    del kept
    assert mappings(tmp_path) == 0


def test_a_worker_without_mappings_left_names_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No process can map 2 ** 62 bytes: the system's error is that of too many mappings."""
    monkeypatch.setattr("fraud_rules.engine.state.arrays.REGION_BYTES", 2**57)
    with pytest.raises(MappingsExhausted, match=r"raise vm\.max_map_count"):
        MappedArrays(tmp_path).open("rows", np.int64, 4, 2)


def test_a_failed_mapping_is_an_error_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fraud_rules.engine.state.arrays.mmap.MAP_SHARED", -1)
    with pytest.raises(OSError, match="Invalid argument"):
        MappedArrays(tmp_path).open("rows", np.int64, 4, 2)
