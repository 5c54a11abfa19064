"""The oracle's key groups against the product's."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fraud_rules.engine.keygroup import hash_text, key_groups_of
from tests.support.oracle.key_groups import key_group


@given(
    st.lists(st.sampled_from(["payeeId", "beneficiaryId", "paymentType"]), max_size=3, unique=True).map(sorted),
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5), min_size=3, max_size=3),
    st.integers(1, 500),
)
def test_a_key_has_the_same_key_group_to_both(names: list[str], values: list[int | str], key_groups: int) -> None:
    values = values[: len(names)]
    hashes = [
        np.array([hash_text(v) if isinstance(v, str) else v & 0xFFFF_FFFF_FFFF_FFFF], dtype=np.uint64) for v in values
    ]
    assert key_group(names, values, key_groups) == key_groups_of(names, hashes, 1, key_groups)[0]
