"""The oracle's day of a grouping by an entity, and the digits of `own()`."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tests.support import oracle
from tests.support.conformance import load_cases, load_schema
from tests.support.oracle.day import completed, identity
from tests.support.oracle.expressions import NO_DIGITS, Digits
from tests.support.oracle.filters import FilterRefused, Scope, read_limit
from tests.support.oracle.needs import OWN


@pytest.mark.parametrize("key_groups", [1, 3])
def test_a_day_in_order_has_the_same_alerts(key_groups: int) -> None:
    case = next(case for case in load_cases("entities.json") if case.name == "one_row_for_each_role")
    document = {**case.document, "keyGroups": key_groups}
    live = oracle.evaluate(document, load_schema(case.schema))["alerts"]
    assert [identity(alert) for alert in completed(document, load_schema(case.schema))] == [identity(a) for a in live]


def test_own_has_digits() -> None:
    schema = load_schema("third_edition")
    assert read_limit("0.8 * own()", schema, Scope.CONDITION_LIMIT, own=Digits(37, 0)).read({OWN: Fraction(5)}) == 4
    for own, scope in ((Digits(38, 0), Scope.CONDITION_LIMIT), (NO_DIGITS, Scope.LIMIT)):
        with pytest.raises(FilterRefused):
            read_limit("0.8 * own()", schema, scope, own=own)
