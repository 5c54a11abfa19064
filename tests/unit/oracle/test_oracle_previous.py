"""The oracle's `previous(field)`: where it stands, and its value."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from tests.support.conformance import load_schema
from tests.support.oracle.filters import FilterRefused, Scope, read_formula, read_limit
from tests.support.oracle.needs import PREVIOUS

SCHEMA = load_schema("third_edition")
NULLS = {field.name: None for field in SCHEMA.fields}


def test_reads_fields_of_the_previous_row() -> None:
    limit = read_limit("coalesce(previous(paymentAmount), 7) + paymentAmount", SCHEMA)
    row = {**NULLS, "paymentAmount": Decimal("1.5")}
    assert limit.needs.previous == ["paymentAmount"]
    assert limit.read({**row, PREVIOUS: None}) == Fraction("8.5")
    assert limit.read({**row, PREVIOUS: NULLS}) == Fraction("8.5")
    assert limit.read({**row, PREVIOUS: row}) == 3


def test_has_the_type_of_the_field() -> None:
    when = read_formula("eventTime - PREVIOUS(eventTime) < 2 and previous(payerId) = 1", SCHEMA, Scope.WHEN)
    assert when.needs.previous == ["eventTime", "payeeId"]
    last = {**NULLS, "eventTime": 1000, "payeeId": 1}
    assert when.holds({**NULLS, "eventTime": 2999, PREVIOUS: last})
    assert not when.holds({**NULLS, "eventTime": 3000, PREVIOUS: last})
    assert read_formula("previous(cardPresent)", SCHEMA, Scope.WHEN).holds({PREVIOUS: {"cardPresent": True}})


@pytest.mark.parametrize(
    "text",
    [
        "previous(1) = 1",
        "previous(payeeId + 1) = 1",
        "previous(previous(payeeId)) = 1",
        "previous(payeeId, 1) = 1",
        "previous() = 1",
        "previous(unknown) = 1",
        "previous(country) = 1",
    ],
)
def test_takes_one_field(text: str) -> None:
    with pytest.raises(FilterRefused):
        read_formula(text, SCHEMA, Scope.WHEN)


def test_is_not_for_filters() -> None:
    with pytest.raises(FilterRefused):
        read_formula("previous(payeeId) = 1", SCHEMA, Scope.FILTER)
