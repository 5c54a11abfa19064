"""Decoded records as columns: the quick reader of trees and the careful reader agree on each value."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest

from fraud_rules.codec.formats.values import EpochMs
from fraud_rules.codec.transactions.raw import RawTransactions
from fraud_rules.codec.transactions.record import read_tree
from fraud_rules.codec.transactions.tree_columns import read_trees
from fraud_rules.errors import RecordRejected
from fraud_rules.model.schema import TransactionSchema

SCHEMA = TransactionSchema.parse(
    {
        "fields": [
            {"name": "transactionId", "type": "string", "path": "head.id"},
            {"name": "eventTime", "type": "timestamp", "path": "head.at"},
            {"name": "seen", "type": "timestamp", "unit": "us", "nullable": True},
            {"name": "amount", "type": "decimal", "precision": 6, "scale": 2, "nullable": True},
            {"name": "cents", "type": "decimal", "precision": 6, "scale": 2, "scaled": True, "nullable": True},
            {"name": "account", "type": "long", "aliases": ["acc"], "nullable": True},
            {"name": "isNew", "type": "boolean", "nullable": True},
            {"name": "second", "type": "string", "path": "lines[1].text", "nullable": True},
        ]
    }
)
VALUES: list[Any] = [
    None, True, False, 0, 7, -1, 2**63, -(2**63), 10**30, "", "text", "x" * 257, "a\0b", "12.50", b"bytes",
    "2023-11-14T22:13:20Z",
    [], {}, [None, {"text": "t"}], EpochMs(1_700_000_000_000), EpochMs(10**18), Decimal("12.5"),
    Decimal("1E+3"), Decimal("NaN"), Decimal("Infinity"), Decimal("12.34" + "0" * 30 + "1"), Decimal("0.001"),
    Decimal("9999.99"), Decimal(10000), Decimal("-0"), 1_700_000_000_000_999,
]  # fmt: skip


def tree(rng: random.Random) -> Any:
    usual: dict[str, Any] = {
        "head": {"id": "p-1", "at": EpochMs(1_700_000_000_000)},
        "seen": 1_700_000_000_000_999,
        "amount": Decimal("12.5"),
        "cents": Decimal(1250),
        "account": 7,
        "isNew": True,
        "lines": [{"text": "a"}, {"text": "b"}],
    }
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        head = usual.get("head")
        place = rng.choice([usual, usual, head if isinstance(head, dict) else usual])
        name = rng.choice([*place, "acc"])
        if rng.random() < 0.2:
            place.pop(name, None)
        else:
            place[name] = rng.choice(VALUES)
    others = [None, [], "text", RecordRejected("malformed_avro", "x")]
    return usual if rng.random() < 0.97 else rng.choice(others)


def test_both_readers_agree() -> None:
    rng = random.Random(11)
    trees = [tree(rng) for _ in range(5_000)]
    none = RawTransactions.of([], [], [], [])
    found = read_trees(trees, none, SCHEMA)
    certain = dict(zip(found.positions.tolist(), range(len(found.positions)), strict=True))
    assert sorted([*certain, *found.doubtful]) == list(range(len(trees)))
    assert len(certain) > len(trees) // 4
    for position, row in certain.items():
        for field, expected in zip(SCHEMA.fields, read_tree(trees[position], SCHEMA) or (), strict=True):
            column = found.columns[field.name]
            value: Any = int(column.values[row])
            if column.dictionary is not None:
                value = column.dictionary[value] if column.dictionary else None
            is_valid = column.valid is None or column.valid[row]
            assert expected == (value if is_valid else None), trees[position]


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"head": {"at": EpochMs(0)}}, "missing_field:transactionId"),
        ({"amount": Decimal("NaN")}, "wrong_type:amount"),
        ({"amount": b"\1"}, "wrong_type:amount"),
        ({"amount": Decimal("0.001")}, "does_not_fit:amount"),
        ({"account": EpochMs(1)}, "wrong_type:account"),
        ({"account": True}, "wrong_type:account"),
        ({"account": 1, "acc": 1}, "duplicate_field"),
        ({"lines": {"text": "a"}}, "wrong_shape:second"),
    ],
)
def test_values_of_another_type_have_the_reasons_of_json(members: dict[str, Any], reason: str) -> None:
    usual = {"head": {"id": "p-1", "at": EpochMs(1_700_000_000_000)}}
    with pytest.raises(RecordRejected) as caught:
        read_tree({**usual, **members}, SCHEMA)
    assert caught.value.reason == reason
