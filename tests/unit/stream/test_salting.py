"""Key groups are spread over partitions as Spark itself would put them."""

from __future__ import annotations

from collections import Counter

import pytest

from fraud_rules.stream.worker.salting import partition_of, salts


@pytest.mark.parametrize("key_groups", [1, 2, 8, 16, 61])
@pytest.mark.parametrize("partitions", [1, 2, 3, 7, 200])
def test_key_groups_take_turns(key_groups: int, partitions: int) -> None:
    found = [partition_of(group, lane, partitions) for group, lane in enumerate(salts(key_groups, partitions))]
    assert found == [group % partitions for group in range(key_groups)]
    shares = Counter(found)
    assert max(shares.values()) - min(shares[p] for p in range(min(partitions, key_groups))) <= 1


# From Spark 4.2: spark.range(1).selectExpr("hash(int(key_group), int(lane))")
@pytest.mark.parametrize(
    ("key_group", "lane", "hashed"),
    [
        (0, 0, 59727262),
        (1, 0, 292098604),
        (0, 1, -1834803471),
        (7, 3, 1218244675),
        (-1, 0, -1055433904),
        (4095, 123456, 2040537994),
        (-5, 2147483647, -895689515),
    ],
)
def test_the_hash_is_sparks(key_group: int, lane: int, hashed: int) -> None:
    assert partition_of(key_group, lane, 2**31) == hashed % 2**31
