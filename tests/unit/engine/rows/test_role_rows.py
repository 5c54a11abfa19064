"""The rows of transactions in a grouping by an entity."""

from __future__ import annotations

from typing import Any

import numpy as np

from fraud_rules.engine.role_rows import has_no_role, role_rows
from fraud_rules.model.schema import DeclaredEntity, TransactionSchema
from fraud_rules.model.transaction import Column, TransactionBatch

TEXT = {"type": "string", "nullable": True}
SCHEMA = TransactionSchema.parse(
    {
        "fields": [
            {"name": "transactionId", "type": "long"}, {"name": "eventTime", "type": "timestamp"},
            {"name": "a", **TEXT}, {"name": "b", **TEXT}, {"name": "c", **TEXT},
        ],
        "entities": [{"name": "place", "roles": {"home": "a", "shop": "b", "bank": "c"}}],
    }
)  # fmt: skip
(PLACE,) = SCHEMA.entities


def texts(*values: str | None) -> Column:
    known = tuple(dict.fromkeys(each for each in values if each is not None))
    codes = np.array([0 if each is None else known.index(each) for each in values], np.int64)
    return Column(codes, np.array([each is not None for each in values]), known)


def batch(a: Column, b: Column, c: Column) -> TransactionBatch:
    n = len(a.values)
    ids = Column(np.arange(n, dtype=np.int64), None, None)
    numbers = np.arange(n, dtype=np.int64)
    columns = {"transactionId": ids, "eventTime": ids, "a": a, "b": b, "c": c}
    return TransactionBatch(numbers, np.zeros(n, np.int32), numbers, columns)


def rows(given: TransactionBatch, entity: DeclaredEntity | None = PLACE) -> list[tuple[Any, ...]]:
    found = role_rows(given, entity)
    of_rows = SCHEMA.of_rows(["place"])
    return [(each["transactionId"], each["place"], each["role"]) for each in found.rows(range(len(found)), of_rows)]


def test_a_transaction_has_a_row_for_each_role_that_is_not_null() -> None:
    given = batch(texts("x", None, None, "y"), texts("y", "z", None, "y"), texts(None, "x", None, "y"))
    assert rows(given) == [
        (0, "x", "home"), (0, "y", "shop"), (1, "z", "shop"), (1, "x", "bank"),
        (3, "y", "home"), (3, "y", "shop"), (3, "y", "bank"),
    ]  # fmt: skip
    assert has_no_role(given, PLACE).tolist() == [False, False, True, False]


def test_no_role_and_no_transaction_have_no_rows() -> None:
    nothing = texts(None)
    assert rows(batch(nothing, nothing, nothing)) == []
    empty = texts()
    assert rows(batch(empty, empty, empty)) == []


def test_without_an_entity_the_rows_are_the_transactions() -> None:
    given = batch(texts("x"), texts("y"), texts("z"))
    assert role_rows(given, None) is given
