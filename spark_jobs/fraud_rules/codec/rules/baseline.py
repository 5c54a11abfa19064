"""Reads the member `baseline` of a rule: the past with which the rule compares its aggregate."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from fraud_rules.codec.rules.members import MemberReader
from fraud_rules.codec.rules.numbers import MAX_RULE_ID
from fraud_rules.model.aggregate import COMPARABLE, LEVELS, AggregateFunction
from fraud_rules.model.documents.rules import BaselineOfRuleDocument, members_of
from fraud_rules.model.expressions.expression import Expression
from fraud_rules.model.rule import Baseline, Operator
from fraud_rules.model.window import Window

_MEMBERS: Final = members_of(BaselineOfRuleDocument)
_INHERITED: Final = ("aggregatorFunctionType", "aggregateFieldName", "filter")
_ORDERED: Final = (Operator.GREATER, Operator.GREATER_EQUAL, Operator.LESS, Operator.LESS_EQUAL)


def read_baseline(
    reader: MemberReader,
    function: AggregateFunction | None,
    operator: Operator | None,
    limit: Decimal | Expression | None,
    window: Window | None,
) -> Baseline | None:
    """Read the baseline of a rule with this function, operator, limit and window; None without a valid baseline."""
    members = reader.nested("baseline", _INHERITED)
    if members is None:
        return None
    if function is not None and function not in COMPARABLE:
        reader.reject("baseline", f"needs a rule with one of {', '.join(COMPARABLE)}, not {function}")
    if isinstance(limit, Expression):
        reader.reject("limit", "must be a number in a rule with a baseline, not an expression")
    baseline = _read(members, reader.longest_minutes)
    if baseline is not None and baseline.deviations:
        _check_deviations(reader, function, operator, limit)
    reader.add_reasons(members)
    if window is not None and window.calendar is not None:
        reader.reject("baseline", "needs windowMinutes or windowSeconds, not windowCalendar")
    elif window is not None and baseline is not None:
        reader.check_reach(window.reach_ms + baseline.window_ms)
    return baseline


def _read(members: MemberReader, longest_minutes: int) -> Baseline | None:
    members.reject_unknown(_MEMBERS)
    window_ms = members.window_ms(longest_minutes)
    function = members.aggregate_function()
    if function is not None and function not in COMPARABLE:
        members.reject("aggregatorFunctionType", f"must be one of {', '.join(COMPARABLE)}, not {function}")
    aggregate_field = members.aggregate_field(function)
    row_filter = members.filter()
    min_count = members.integer("minCount", 1, MAX_RULE_ID)
    deviations = members.flag("deviations")
    if deviations and function is not None and function is not AggregateFunction.AVG:
        members.reject("aggregatorFunctionType", f"must be AVG with deviations, not {function}")
    if window_ms is None or function is None:
        return None
    return Baseline(
        window_ms=window_ms,
        aggregate_function=function,
        aggregate_field=aggregate_field,
        filter=row_filter,
        min_count=1 if min_count is None else min_count,
        deviations=deviations,
    )


def _check_deviations(
    reader: MemberReader,
    function: AggregateFunction | None,
    operator: Operator | None,
    limit: Decimal | Expression | None,
) -> None:
    """Check the members of the rule that deviations restrict."""
    if function is not None and function not in LEVELS:
        reader.reject("baseline", f"has deviations, which need a rule with {', '.join(LEVELS)}, not {function}")
    if operator is not None and operator not in _ORDERED:
        reader.reject("limitOperatorType", f"must be one of {', '.join(_ORDERED)} with deviations, not {operator}")
    if isinstance(limit, Decimal) and limit < 0:
        reader.reject("limit", "must not be negative with deviations")
