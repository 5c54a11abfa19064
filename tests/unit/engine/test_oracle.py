"""The oracle against every conformance case, and its arithmetic against values worked out by hand."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from fraud_rules.model.aggregate import AggregateFunction
from fraud_rules.model.rule import Operator
from tests.support import oracle
from tests.support.conformance import Case, differences, failing_cases, load_cases, load_schema, same_answer
from tests.support.oracle.arithmetic import compare_with_limit
from tests.support.oracle.filters import read_limit
from tests.support.oracle.rules.rule import Aggregate
from tests.support.oracle.rules.windows import FixedWindow

NULLABLE = load_schema("nullable")


def test_answers_every_case() -> None:
    def faults_of(case: Case) -> list[str]:
        return differences(case.expect, oracle.evaluate(case.document, load_schema(case.schema)))

    assert failing_cases(faults_of) == {}


def _rule(aggregator: str, sign: str, limit: str, unique: tuple[str, ...] = ()) -> Aggregate:
    function, operator, number = AggregateFunction[aggregator], Operator(sign), read_limit(limit, NULLABLE)
    return Aggregate(function, "v", unique, operator, number, says_limit=False, window=FixedWindow(1000), filter=None)


def _compared(rule: Aggregate, window: list[dict[str, Any]]) -> tuple[bool, str] | None:
    return compare_with_limit(rule, window, rule.limit.read({}))


@pytest.mark.parametrize(
    ("aggregator", "values", "text"),
    [
        ("SUM", ["0.10", "0.20"], "0.3"),
        ("SUM", ["-1.5", "1.50"], "0"),
        ("SUM", ["9999999999999999.99"] * 3, "29999999999999999.97"),
        ("AVG", ["1", "2"], "1.5"),
        ("AVG", ["-1", "-1", "0"], "-0.666667"),
        ("AVG", ["0.01", *["0"] * 31], "0.000312"),  # 0.0003125: half even, downwards
        ("AVG", ["0.03", *["0"] * 31], "0.000938"),  # 0.0009375: half even, upwards
        ("AVG", ["-0.01", *["0"] * 31], "-0.000312"),
        ("AVG", ["0.00000001"], "0"),
        ("MIN", ["3", "-2.50"], "-2.5"),
        ("MAX", ["100.00", "20"], "100"),
        ("STDDEV", ["5"], "0"),
        ("STDDEV", ["1", "2", "4"], "1.247219"),
        ("STDDEV", ["0", "0.000001"], "0"),  # 0.0000005: half even
        ("STDDEV", ["0", "0.000003"], "0.000002"),  # 0.0000015: half even
        ("STDDEV", ["9999999999999999.98", "9999999999999999.99"], "0.005"),
        ("COUNT", ["1", "2", "3"], "3"),
    ],
)
def test_writes_aggregates_exactly(aggregator: str, values: list[str], text: str) -> None:
    verdict = _compared(_rule(aggregator, ">", "-1000"), [{"v": Decimal(value)} for value in values])
    assert verdict == (True, text)


@pytest.mark.parametrize(
    ("sign", "limit", "holds"),
    [
        (">", "-1", True),
        ("<", "-1", False),
        ("=", "-1", False),
        ("!=", "-1", True),
        ("=", "0", True),
        (">", "0", False),
    ],
)
def test_compares_no_deviation_with_limits_of_any_sign(sign: str, limit: str, holds: bool) -> None:
    verdict = _compared(_rule("STDDEV", sign, limit), [{"v": Decimal(5)}])
    assert verdict == (holds, "0")


def test_compares_a_mean_beyond_any_float() -> None:
    window: list[dict[str, Any]] = [{"v": Decimal("0.1")}, {"v": Decimal("0.1")}, {"v": Decimal("0.2")}]
    assert _compared(_rule("AVG", ">", "0.1333333333333333333333"), window) == (True, "0.133333")
    assert _compared(_rule("AVG", ">", "0.1333333333333333333334"), window) == (False, "0.133333")


def test_aggregates_of_nothing_give_no_verdict() -> None:
    window: list[dict[str, Any]] = [{"v": None, "u": None}]
    for aggregator in ("SUM", "AVG", "MIN", "MAX", "STDDEV"):
        assert _compared(_rule(aggregator, "<", "10"), window) is None
    assert _compared(_rule("COUNT_DISTINCT", "<", "10", ("u",)), window) == (True, "0")
    assert _compared(_rule("COUNT", "<", "10"), window) == (True, "1")


def test_differences_name_each_part() -> None:
    case = next(case for case in load_cases("semantics.json") if case.name == "redelivery_counts_once")
    answer = oracle.evaluate(case.document, load_schema("default"))
    wrong = {**answer, "alerts": [{**answer["alerts"][0], "windowCount": 3}], "late": [7]}
    assert not same_answer(answer, answer)
    assert [text.split(":")[0] for text in same_answer(answer, wrong)] == ["alert 0", "late"]
    assert [text.split(":")[0] for text in same_answer(answer, {**answer, "alerts": []})] == ["alert 0"]
    assert [text.split(":")[0] for text in same_answer({**answer, "alerts": []}, answer)] == ["alert 0"]


def test_fractions_never_meet_floats() -> None:
    verdict = _compared(_rule("SUM", "=", "0.3"), [{"v": Decimal("0.1")}, {"v": Decimal("0.2")}])
    assert verdict == (True, "0.3")
    assert Fraction(Decimal("0.3")) != Fraction(0.3)
