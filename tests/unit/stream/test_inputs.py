"""The end offsets of a batch: limited, complete for added partitions, and refused if records are gone."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from fraud_rules.stream.inputs import limited

OFFSETS = st.dictionaries(st.sampled_from("0123"), st.integers(0, 10**9), min_size=1)


@given(OFFSETS, OFFSETS, st.integers(1, 10**6))
def test_a_limited_batch_reads_a_share_of_each_partition(
    starts: Mapping[str, int], sizes: Mapping[str, int], most: int
) -> None:
    ends = {place: starts.get(place, 0) + size for place, size in sizes.items()}
    found = limited({"t": starts}, {"t": ends}, most)["t"]
    taken = {place: found[place] - starts.get(place, 0) for place in sizes}
    assert all((0 < taken[place] <= size) if size else taken[place] == 0 for place, size in sizes.items())
    assert sum(taken.values()) <= max(most, 0) + len(sizes)
    if sum(sizes.values()) <= most:
        assert found == ends


def test_shares_are_proportional() -> None:
    assert limited({"t": {"0": 0, "1": 100}}, {"t": {"0": 3_000, "1": 1_100}}, 400) == {"t": {"0": 300, "1": 200}}
