"""The measurement of the rules' CPU time: every rule has a figure, and no result depends on it."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.engine import KeyGroupEngine
from fraud_rules.engine.fanout import fan_out
from fraud_rules.engine.rule_meter import RuleMeter
from fraud_rules.engine.state.store import HeapViews
from fraud_rules.engine.statelog import MemoryStateLog
from fraud_rules.engine.window.instructions import HAS_CYCLES
from fraud_rules.model.output import KeyGroupOutput, RuleCost
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.stream.rule_costs import INTERVAL_MS, RuleCosts
from tests.support.records.decoded import decoded
from tests.support.rules import SCHEMA, rule_log

START_MS = 1_700_000_000_000
ROWS, BATCHES = 400, 12
pytestmark = pytest.mark.skipif(not HAS_CYCLES, reason="this CPU offers programs no cycle counter")

SUM: dict[str, Any] = {"aggregatorFunctionType": "SUM", "limit": 10**9, "windowMinutes": 20}
FIRING, FILTERED, CONDITIONAL, PAUSED, OTHER, PLAIN = 2, 3, 4, 5, 6, 7
RULES: dict[int, dict[str, Any]] = {
    1: SUM,
    FIRING: {**SUM, "limit": 1},
    FILTERED: {**SUM, "filter": "paymentType in ('CSH', 'CRD', 'XYZ') and paymentAmount >= 1 and payeeId <> 3"},
    CONDITIONAL: {**SUM, "when": "paymentAmount > 1000000"},
    PAUSED: {**SUM, "ruleState": "PAUSE"},
    OTHER: {**SUM, "groupingKeyNames": ["beneficiaryId"], "aggregatorFunctionType": "MAX"},
    PLAIN: SUM,
}


def timeline() -> RuleTimeline:
    common = {"ruleState": "ACTIVE", "groupingKeyNames": ["payeeId"], "limitOperatorType": ">"}
    common["aggregateFieldName"] = "paymentAmount"
    return rule_log([{"ruleId": rule_id, **common, **each} for rule_id, each in RULES.items()], START_MS - 1)


def outputs(meter: RuleMeter | None) -> list[KeyGroupOutput]:
    rules, log, views, found = timeline(), MemoryStateLog(), HeapViews(), []
    for batch in range(BATCHES):
        first = batch * ROWS
        at_ms = START_MS + (first + np.arange(ROWS)) * 10
        values = [
            b'{"transactionId":%d,"eventTime":%d,"payeeId":%d,"beneficiaryId":%d,"paymentType":"CSH",'
            b'"paymentAmount":12.50}' % (first + i, at_ms[i], i % 10, i % 3)
            for i in range(ROWS)
        ]
        batch_rows = decoded(values, at_ms, first + np.arange(ROWS))
        engine = KeyGroupEngine(0, SCHEMA, DetectorSettings(key_groups=1), log, views, meter=meter)
        found.append(engine.process([fan_out(batch_rows, rules, SCHEMA, 1)[0]], rules, batch, START_MS))
    return [KeyGroupOutput.decode(each.encode()) for each in found]


def test_every_evaluated_rule_gets_a_figure_and_the_results_stay_the_same() -> None:
    measured, plain = outputs(RuleMeter(interval_s=0)), outputs(None)
    assert [msgspec.structs.replace(each, costs=[]) for each in measured] == plain
    assert not any(each.costs for each in plain)

    costs = RuleCosts()
    costs.add(measured)
    found = {each.rule_id: each.cpu_ns for each in costs.due_report(timeline().latest, 0)}
    assert found.keys() == RULES.keys()
    assert all(0 <= cpu_ns < 1_000_000 for cpu_ns in found.values()), found
    assert found[FIRING] > 3 * found[PLAIN], "the construction of alerts counts"
    assert found[FILTERED] > found[PLAIN], "the filter counts"
    assert found[PAUSED] < found[FILTERED]


def test_a_grouping_is_measured_once_an_interval() -> None:
    measured = outputs(RuleMeter(interval_s=3_600))
    assert not any(each.costs for each in measured), "the first sample waits for an interval"
    meter = RuleMeter(interval_s=0)
    assert meter.sample(("payeeId",), 5_000, ROWS) is not None
    assert meter.sample(("payeeId",), 5_000, ROWS) is None, "a grouping with many rules is measured less often"
    assert meter.sample(("beneficiaryId",), 5_000, ROWS) is not None


def test_reports_are_sorted_bounded_and_only_about_rules_in_force() -> None:
    def output(*found: RuleCost) -> KeyGroupOutput:
        return KeyGroupOutput(0, 0, 0, 0, None, [], [], [], [], costs=list(found))

    in_force = RuleTimeline(timeline().entries[:2]).latest
    costs = RuleCosts()
    costs.add([output(RuleCost(0, 10.0, 100), RuleCost(1, 50.0, 10), RuleCost(9, 99.0, 10))])
    costs.add([output(RuleCost(0, 40.0, 50))])
    assert [(each.rule_id, each.rule_version, each.cpu_ns) for each in costs.due_report(in_force, 1_000)] == [
        (2, 1, 50.0),
        (1, 0, 20.0),
    ]
    assert costs.due_report(in_force, 1_000 + INTERVAL_MS - 1) == []
    assert len(costs.due_report(in_force, 1_000 + INTERVAL_MS)) == 2
