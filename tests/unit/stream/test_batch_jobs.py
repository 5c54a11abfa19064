"""Which batches get many tasks."""

from __future__ import annotations

import pytest

from fraud_rules.stream.driver.batch_jobs import LARGE_BATCH_TRANSACTIONS as LARGE
from fraud_rules.stream.driver.batch_jobs import is_large


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"transactions": LARGE, "rules": 0}, True),
        ({"transactions": LARGE - 1, "rules": 0}, False),
        ({"transactions": LARGE - 1, "rules": 1}, False),
        ({"transactions": 7, "rules": 10 * LARGE}, False),
        ({"rules": LARGE}, False),
    ],
)
def test_only_transactions_make_a_batch_large(counts: dict[str, int], expected: bool) -> None:
    assert is_large(counts, "transactions") is expected
