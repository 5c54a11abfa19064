"""Plans that are put together from compiled rules: equal to a whole compilation, and bounded."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.state import plans
from fraud_rules.engine.state.arrays import HeapArrays
from fraud_rules.engine.state.grouping_state import GroupingState
from fraud_rules.engine.state.plans import PlanCache, runs_within
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.aggregates import aggregate_of
from fraud_rules.engine.window.plan import NO_MEASURES, GroupingPlan, Measures, compile_plan
from fraud_rules.model.rule import RuleDeletion
from fraud_rules.model.ruleset import GroupingInForce, LogEntry, RuleTimeline
from fraud_rules.model.transaction import Column, TransactionBatch
from fraud_rules.replay.recording import Recording
from fraud_rules.replay.replay import replay
from tests.support.conformance import load_schema, same_answer
from tests.support.rules import sum_rule
from tests.support.streams.generated import changing_documents
from tests.support.streams.runs import STREAMS, drawn, stream_seeds

SCHEMA = load_schema("nullable")
SETTINGS = DetectorSettings()
PAYEE = ("payeeId",)


def entry(version: int, rule_id: int, **members: Any) -> LogEntry:
    record = sum_rule(rule_id + 1, **{"aggregateFieldName": "points", "limit": 10**9, "windowSeconds": 60, **members})
    found = read_entry(version, version, json.dumps(record).encode(), SCHEMA, SETTINGS.limits)
    assert found.change, found.reasons
    return found


def versions_of(document: dict[str, Any]) -> list[list[GroupingInForce]]:
    """The versions of each grouping in the rule log of a document."""
    records = Recording.of_document(document).rules
    log = [read_entry(each.version, each.append_ms, each.value, SCHEMA, SETTINGS.limits) for each in records]
    timeline = RuleTimeline(log)
    found: dict[tuple[str, ...], list[GroupingInForce]] = {}
    for count in range(len(log) + 1):
        for fields, grouping in timeline.rule_set(count).groupings.items():
            known = found.setdefault(fields, [])
            if not known or known[-1] is not grouping:
                known.append(grouping)
    return list(found.values())


def comparable(plan: GroupingPlan) -> tuple[Any, ...]:
    """A plan without the numbers that are free: those of conditions, of limits and of shared aggregates."""
    rows = plan.rules.rows.copy()
    predicates = (None, *plan.measures.filters, *plan.conditions)
    conditions = [predicates[number] for number in rows[:, at.R_WHEN].tolist()]
    limits = [None if number < 0 else plan.limits[number] for number in rows[:, at.R_LIMIT].tolist()]
    rows[:, [at.R_WHEN, at.R_SHARED, at.R_LIMIT]] = 0
    arrays = plan.rules._replace(rows=rows, shared=0)
    kept = [each.tolist() if isinstance(each, np.ndarray) else each for each in arrays]
    return plan.measures, frozenset(plan.conditions), frozenset(plan.limits), plan.in_force, kept, conditions, limits


def shared_pairs(plan: GroupingPlan) -> set[tuple[int, int]]:
    """The pairs of rules with extremes or distinct values that share their aggregate."""
    shares = [aggregate_of(each.rule).is_shared for each in plan.in_force]
    number = plan.rules.rows[:, at.R_SHARED].tolist()
    assert all(number[i] < plan.rules.shared for i, own in enumerate(shares) if own)
    places = [i for i, own in enumerate(shares) if own]
    return {(i, j) for i in places for j in places if number[i] == number[j]}


@stream_seeds(STREAMS // 10)
def test_a_plan_of_compiled_rules_is_the_plan_that_compiles_them_all(stream_seed: int) -> None:
    cache, together = PlanCache(), PlanCache()
    for versions in versions_of(drawn(stream_seed, changing_documents())):
        known = plans.shared_measures(compile_plan(versions, SCHEMA, NO_MEASURES).measures)
        whole = compile_plan(versions, SCHEMA, known)
        for version in versions:
            cache.plan([version], SCHEMA, known)
        for plan in (cache.plan(versions, SCHEMA, known), together.plan(versions, SCHEMA, NO_MEASURES)):
            assert comparable(plan) == comparable(whole)
            assert shared_pairs(plan) == shared_pairs(whole)


def test_a_change_compiles_the_changed_rule_only() -> None:
    timeline = RuleTimeline([entry(n, n) for n in range(50)])
    cache = PlanCache()
    known = cache.plan([timeline.latest.groupings[PAYEE]], SCHEMA, NO_MEASURES).measures
    table = cache._table(known, SCHEMA)
    before = {words.words: words for words in table.rules.values()}
    timeline = timeline.extended([entry(50, 7, limit=5)])
    plan = cache.plan([timeline.latest.groupings[PAYEE]], SCHEMA, known)
    assert plan.measures is known
    assert len(table.rules) == 51
    assert [each for each in table.rules.values() if each.words not in before] == [list(table.rules.values())[-1]]


def test_the_cache_is_bounded_however_often_rules_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "_CACHED_RULES", 200)
    monkeypatch.setattr(plans, "_SPARE", 10)
    timeline = RuleTimeline([entry(n, n) for n in range(40)])
    cache, measures = PlanCache(), NO_MEASURES
    for n in range(40, 400):
        timeline = timeline.extended([entry(n, n % 40, limit=n, when=f"points > {n}")])
        plan = cache.plan([timeline.latest.groupings[PAYEE]], SCHEMA, measures)
        measures = plan.measures
        assert len(plan.conditions) <= 40
        assert sum(len(known.in_force) for known, _, _ in cache._plans.values()) == cache._planned_rules <= 200
        assert sum(len(table.rules) for table in cache._tables.values()) <= 200
        assert sum(len(table.conditions) for table in cache._tables.values()) <= 200


def edited(change: Callable[[int], dict[str, Any]], edits: int) -> list[Measures]:
    """The measures of a grouping state with payments, after each edit of one of two rules."""
    state = GroupingState.create(SCHEMA, PAYEE, HeapArrays())
    values = np.array([1], dtype=np.int64)
    found, timeline = list[Measures](), RuleTimeline([entry(0, 1)])
    for n in range(1, edits):
        timeline = timeline.extended([entry(n, 2, **change(n))])
        plan = state.plan([timeline.latest.groupings[PAYEE]])
        columns = {name: Column(values * n, None, None) for name in SCHEMA.names if name != "paymentType"}
        columns["paymentType"] = Column(values * 0, None, ("CSH",))
        state.accept(
            TransactionBatch(values * n, np.zeros(1, np.int32), values * n, columns), values * 0, plan, 0, False
        )
        found.append(state.measures)
    return found


@pytest.mark.parametrize(
    "members",
    [
        {"windowSeconds": 1},
        {"aggregatorFunctionType": "MAX", "filter": "points > 1"},
        {"aggregatorFunctionType": "COUNT_DISTINCT", "unique": ["beneficiaryId"], "windowSeconds": 1},
    ],
)
def test_edits_of_a_rule_leave_no_measures_behind(members: dict[str, Any]) -> None:
    def change(n: int) -> dict[str, Any]:
        texts = {"filter": f"points > {n}"} if "filter" in members else {}
        seconds = {"windowSeconds": n} if "windowSeconds" in members else {}
        return {**members, **texts, **seconds}

    for measures in edited(change, 60):
        assert len(measures.windows) <= 2
        assert max(len(measures.filters), len(measures.trees), len(measures.distincts)) <= 1


def test_deletions_of_rules_free_their_measures() -> None:
    distinct = {"aggregatorFunctionType": "COUNT_DISTINCT", "unique": ["beneficiaryId"]}
    timeline = RuleTimeline([entry(n, n, **distinct, windowSeconds=n + 1) for n in range(40)])
    cache = PlanCache()
    measures = cache.plan([timeline.latest.groupings[PAYEE]], SCHEMA, NO_MEASURES).measures
    assert len(measures.distincts) == 40
    timeline = timeline.extended(LogEntry.accepted(40 + n, 40 + n, RuleDeletion(n + 1)) for n in range(39))
    assert len(cache.plan([timeline.latest.groupings[PAYEE]], SCHEMA, measures).measures.distincts) == 1


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6).flatmap(
        lambda rules: st.tuples(st.just(rules), st.lists(st.integers(0, len(rules) - 1), min_size=1, max_size=30))
    ),
    st.integers(1, 20),
)
def test_the_versions_of_a_run_fit_into_a_plan(drawn: tuple[list[int], list[int]], most: int) -> None:
    rules, rows = drawn
    runs = list(runs_within(rules, np.array(rows, dtype=np.int64), most))
    assert [row for start, end in runs for row in range(start, end)] == list(range(len(rows)))
    for start, end in runs:
        used = set(rows[start:end])
        assert len(used) == 1 or sum(rules[version] for version in used) <= most


@stream_seeds(STREAMS // 10)
def test_small_plans_give_the_same_results(stream_seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    document = drawn(stream_seed, changing_documents())
    expected = replay(document, SCHEMA, SETTINGS)
    with monkeypatch.context() as small:
        small.setattr("fraud_rules.engine.engine.PLAN_RULES", 2)
        assert not same_answer(expected, replay(document, SCHEMA, SETTINGS))
