"""The oracle's groupings by an entity, against cases worked out by hand, and the digits of `own()`.

The cases name the entities that their schema declares.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from tests.support import oracle
from tests.support.conformance import Case, differences, load_cases_of, load_schema
from tests.support.oracle.day import completed, identity
from tests.support.oracle.expressions import NO_DIGITS, Digits
from tests.support.oracle.filters import FilterRefused, Scope, read_limit
from tests.support.oracle.needs import OWN

CASES = load_cases_of(Path(__file__).parent / "entities.json")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_answers_every_case(case: Case) -> None:
    answer = oracle.evaluate(case.document, load_schema(case.schema))
    assert not differences(case.expect, answer), case.shows


@pytest.mark.parametrize("key_groups", [1, 3])
def test_a_day_in_order_has_the_same_alerts(key_groups: int) -> None:
    case = next(case for case in CASES if case.name == "one_row_for_each_role")
    document = {**case.document, "keyGroups": key_groups}
    live = oracle.evaluate(document, load_schema(case.schema))["alerts"]
    assert [identity(alert) for alert in completed(document, load_schema(case.schema))] == [identity(a) for a in live]


def test_own_has_digits() -> None:
    schema = load_schema("third_edition")
    assert read_limit("0.8 * own()", schema, Scope.CONDITION_LIMIT, own=Digits(37, 0)).read({OWN: Fraction(5)}) == 4
    for own, scope in ((Digits(38, 0), Scope.CONDITION_LIMIT), (NO_DIGITS, Scope.LIMIT)):
        with pytest.raises(FilterRefused):
            read_limit("0.8 * own()", schema, scope, own=own)
