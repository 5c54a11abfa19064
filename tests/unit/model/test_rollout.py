"""The keys for which a rule with a rollout is evaluated."""

from __future__ import annotations

import hashlib
import itertools

import numpy as np
import pytest

from fraud_rules.model.expressions.expression import FieldRef
from fraud_rules.model.expressions.rollout import Rollout
from fraud_rules.model.schema import FieldType
from fraud_rules.model.transaction import Column

PAYEE = FieldRef("payeeId", FieldType.LONG)
KEY = (
    FieldRef("cardPresent", FieldType.BOOLEAN),
    FieldRef("country", FieldType.STRING),
    FieldRef("paymentAmount", FieldType.DECIMAL, 2, 18),
)


def longs(*values: int) -> Column:
    return Column(np.array(values, dtype=np.int64), None, None)


def share_of(*parts: str) -> int:
    """The place of a key among the hundred shares, from the definition."""
    named = b"".join(str(len(part.encode())).encode() + b":" + part.encode() for part in parts)
    return int(hashlib.sha256(named).hexdigest()[:16], 16) % 100


def test_the_share_of_each_key_follows_from_its_bytes() -> None:
    payees = [1, 2, 3, 4, 2, -7, 2**63 - 1]
    shares = [share_of("1", str(payee)) for payee in payees]
    assert shares[:4] == [52, 46, 73, 21]
    for percent in (1, 21, 22, 30, 47, 99):
        passing = Rollout(1, percent, (PAYEE,)).mask({"payeeId": longs(*payees)}, len(payees))
        assert passing.tolist() == [share < percent for share in shares]


def test_values_of_all_types() -> None:
    assert share_of("5", "true", "Ä", "1.5") == 37
    columns = {
        "cardPresent": longs(1, 1, 0),
        "country": Column(np.array([1, 1, 0]), None, ("", "Ä")),
        "paymentAmount": longs(150, 150, -100),
    }
    other = share_of("5", "false", "", "-1")
    for percent in (37, 38):
        expected = [percent > 37, percent > 37, other < percent]
        assert Rollout(5, percent, KEY).mask(columns, 3).tolist() == expected


def test_a_timestamp_is_its_milliseconds() -> None:
    key = (FieldRef("opened", FieldType.TIMESTAMP),)
    percent = share_of("9", "1700000000000") + 1
    assert Rollout(9, percent, key).mask({"opened": longs(1_700_000_000_000)}, 1).tolist() == [True]
    assert Rollout(9, percent - 1, key).mask({"opened": longs(1_700_000_000_000)}, 1).tolist() == [False]


@pytest.mark.parametrize("n", [0, 3])
def test_a_column_of_nulls(n: int) -> None:
    nulls = Column(np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.bool_), ())
    assert len(Rollout(1, 50, (FieldRef("country", FieldType.STRING),)).mask({"country": nulls}, n)) == n


def test_a_higher_percentage_keeps_the_keys_and_another_rule_has_other_keys() -> None:
    columns = {"payeeId": longs(*range(2_000))}
    masks = [Rollout(1, percent, (PAYEE,)).mask(columns, 2_000) for percent in range(1, 100)]
    assert all((low <= high).all() for low, high in itertools.pairwise(masks))
    assert [abs(int(mask.sum()) - 20 * percent) < 100 for percent, mask in enumerate(masks, 1)] == [True] * 99
    assert (masks[49] != Rollout(2, 50, (PAYEE,)).mask(columns, 2_000)).any()
