"""The CPU budget: rules whose estimated cost exceeds it are refused, by the rules alone."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal
from functools import partial

import pytest

from fraud_rules.codec.rules.filter import parse_filter, parse_number
from fraud_rules.codec.rules.sentence import rule_sentence
from fraud_rules.engine.admission.cpu_cost import GROUPING_NS, CpuLoad, estimate_cpu_ns, over_cpu_budget
from fraud_rules.model.aggregate import AggregateFunction
from fraud_rules.model.expressions.expression import FieldRef
from fraud_rules.model.expressions.rollout import Rollout
from fraud_rules.model.rule import AggregateCondition, Baseline, Operator, Rule, RuleState
from fraud_rules.model.ruleset import LogEntry, RuleSet, RuleTimeline
from fraud_rules.model.schema import FieldType
from fraud_rules.model.window import Window
from tests.support.rules import LIMITS, SCHEMA, counting

A, B = ("payeeId",), ("beneficiaryId",)
CASH = parse_filter("paymentType = 'CSH'", SCHEMA, LIMITS)
LARGE = parse_filter("paymentType = 'CSH' and paymentAmount >= 10 or payeeId in (1, 2, 3)", SCHEMA, LIMITS)


rule = partial(counting, aggregate_function=AggregateFunction.SUM, aggregate_field="paymentAmount")
HOURLY = AggregateCondition(AggregateFunction.SUM, "paymentAmount", (), Operator.GREATER, Decimal(1), Window(3_600_000))


def function(each: Rule, aggregate: AggregateFunction) -> Rule:
    unique = ("beneficiaryId",) if aggregate is AggregateFunction.COUNT_DISTINCT else ()
    return replace(
        each,
        aggregate_function=aggregate,
        aggregate_field="paymentAmount" if aggregate.needs_field else None,
        unique=unique,
    )


def in_force(*rules: Rule) -> RuleSet:
    return RuleTimeline(LogEntry.accepted(version, 0, one) for version, one in enumerate(rules)).latest


def load_of(*rules: Rule) -> CpuLoad:
    load = CpuLoad()
    load.follow(in_force(*rules).rules)
    return load


def alone_ns(each: Rule) -> int:
    return GROUPING_NS + estimate_cpu_ns(each)


@pytest.mark.parametrize("aggregate", AggregateFunction)
def test_every_aggregate_has_a_price_and_words(aggregate: AggregateFunction) -> None:
    each = function(rule(1), aggregate)
    assert estimate_cpu_ns(each) > 0
    assert rule_sentence(each, SCHEMA).startswith("Alert when one ")


def test_a_rule_alone_costs_its_estimate_and_its_grouping() -> None:
    assert load_of(rule(1)).total_ns == alone_ns(rule(1))
    assert CpuLoad().total_ns == 0


@pytest.mark.parametrize(
    ("other", "shares"),
    [
        pytest.param(rule(2), True, id="the same grouping, window and field"),
        pytest.param(rule(2, minutes=10), True, id="the same grouping"),
        pytest.param(rule(2, B), False, id="another grouping shares nothing"),
    ],
)
def test_shared_work_counts_once(other: Rule, shares: bool) -> None:
    together, alone = load_of(rule(1), other).total_ns, alone_ns(rule(1)) + alone_ns(other)
    assert (together < alone) is shares
    assert together > alone_ns(rule(1))


def test_a_rule_by_an_entity_costs_as_much_as_the_rows_of_its_roles() -> None:
    each = replace(rule(1), filter=CASH, conditions=(HOURLY,))
    assert load_of(replace(each, roles=2)).total_ns == 2 * load_of(each).total_ns
    assert estimate_cpu_ns(replace(each, roles=2)) == 2 * estimate_cpu_ns(each)


def test_each_feature_of_a_rule_costs_something() -> None:
    plain = estimate_cpu_ns(rule(1))
    baseline = Baseline(60_000, AggregateFunction.AVG, "paymentAmount", CASH)
    for richer in (
        replace(rule(1), filter=CASH),
        replace(rule(1), when=CASH),
        replace(rule(1), baseline=baseline),
        replace(rule(1), limit=parse_number("paymentAmount", SCHEMA, LIMITS, "limit")),
        replace(rule(1), rollout=Rollout(1, 5, (FieldRef("payeeId", FieldType.LONG),))),
        function(rule(1), AggregateFunction.STDDEV),
        function(rule(1), AggregateFunction.MAX),
        replace(rule(1), conditions=(HOURLY,)),
    ):
        assert estimate_cpu_ns(richer) > plain
    assert estimate_cpu_ns(replace(rule(1), filter=LARGE)) > estimate_cpu_ns(replace(rule(1), filter=CASH))
    assert estimate_cpu_ns(replace(rule(1), state=RuleState.PAUSE)) < plain


def test_a_condition_shares_the_work_of_the_rule() -> None:
    own_window = replace(HOURLY, window=rule(1).window)
    plain, apart, shared = (
        estimate_cpu_ns(replace(rule(1), conditions=each)) for each in ((), (HOURLY,), (own_window,))
    )
    assert plain < shared < apart
    assert load_of(replace(rule(1), conditions=(own_window, HOURLY))).total_ns > alone_ns(rule(1))


@pytest.mark.parametrize(
    ("text", "more_ns"),
    [
        ("paymentAmount = 1", 20),
        ("paymentAmount = payeeId", 30),
        ("payeeId in (1, 2)", 24),
        ("payeeId * 2 - 1 = 3", 20 + 2 * 5),
        ("-payeeId / 2 = 3", 20 + 5 + 10),
        ("lower(paymentType) like 'c%' and hour(eventTime) < 6", 20 + 20 + 10 + 20),
        ("coalesce(abs(payeeId), 1) is null", 20 + 10 + 5),
        ("distance_m(payeeId, 1, 2, 3) > 5", 20 + 200),
        ("round(payeeId, -2) in list('a')", 100 + 10),
        ("paymentAmount > previous(paymentAmount)", 30 + 450 + 40),
    ],
)
def test_each_part_of_an_expression_costs(text: str, more_ns: int) -> None:
    bare, with_when = rule(1), replace(rule(1), when=parse_filter(text, SCHEMA, LIMITS, "when"))
    assert estimate_cpu_ns(with_when) - estimate_cpu_ns(bare) == more_ns


@pytest.mark.parametrize(
    ("before", "added", "budget_ns", "refused"),
    [
        pytest.param([], rule(1), alone_ns(rule(1)), False, id="just fits"),
        pytest.param([], rule(1), alone_ns(rule(1)) - 1, True, id="a nanosecond too much"),
        pytest.param([], replace(rule(1), force=True), 1, False, id="forced"),
        pytest.param([rule(1)], rule(2, B), 2_500, True, id="another grouping"),
        pytest.param([rule(1)], rule(2), 2_500, False, id="shares the work of a rule"),
        pytest.param([rule(1)], rule(1), 1, False, id="an edit that costs the same"),
        pytest.param([rule(1)], replace(rule(1), state=RuleState.PAUSE), 1, False, id="a pause"),
        pytest.param([rule(1), rule(2, B)], rule(2, A), 1, False, id="a move that frees a grouping"),
        pytest.param([rule(1)], function(rule(1), AggregateFunction.STDDEV), 900, True, id="an edit that costs more"),
    ],
)
def test_a_rule_that_adds_cost_beyond_the_budget_is_refused(
    before: list[Rule], added: Rule, budget_ns: int, refused: bool
) -> None:
    reason = over_cpu_budget(added, load_of(*before), budget_ns)
    assert (reason is not None) is refused


def test_the_reason_names_the_cost_the_sum_and_the_budget() -> None:
    load = load_of(rule(1))
    added, total = alone_ns(rule(2, B)), load.total_ns + alone_ns(rule(2, B))
    reason = over_cpu_budget(rule(2, B), load, 1_000)
    assert reason is not None
    assert f"{added / 1_000:g} us of CPU time more" in reason.message
    assert f"{total / 1_000:g} us in all, over the budget of 1 us" in reason.message


def test_a_load_that_follows_changes_equals_one_from_scratch() -> None:
    draw = random.Random(17)
    load, rules = CpuLoad(), dict[int, Rule]()
    for _ in range(300):
        rule_id = draw.randrange(12)
        if draw.random() < 0.25:
            rules.pop(rule_id, None)
        else:
            made = function(rule(rule_id, draw.choice([A, B]), draw.choice([5, 20])), draw.choice([*AggregateFunction]))
            state = draw.choice([RuleState.ACTIVE, RuleState.PAUSE])
            rules[rule_id] = replace(made, filter=draw.choice([None, CASH, LARGE]), state=state)
        load.follow(in_force(*rules.values()).rules, [rule_id])
        assert load.total_ns == load_of(*rules.values()).total_ns
    load.follow({})
    assert load.total_ns == 0
