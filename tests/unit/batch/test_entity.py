"""The report about one entity: its aggregates are those of a replay of all payments."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from dataclasses import replace
from decimal import Decimal
from statistics import fmean, pstdev
from typing import Any

import msgspec
import pytest

from fraud_rules.batch.entity.aggregates import entity_aggregates, rules_of_other_keys
from fraud_rules.batch.entity.report import entity_report
from fraud_rules.batch.entity.rows import EntityQuery, EntityRows
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.state.store import HeapViews
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import DeclaredEntity
from fraud_rules.model.transaction import TransactionBatch
from fraud_rules.replay.recording import RecordedTransaction
from fraud_rules.replay.replay import Replay
from tests.support.records.decoded import decoded_recording
from tests.support.records.payments import payment_record
from tests.support.rules import SCHEMA, rule_log, sum_rule

SETTINGS = DetectorSettings(key_groups=3)
BEGIN_MS = 1_700_000_000_000
MINUTE_MS = 60_000


def rule(rule_id: int, **members: Any) -> dict[str, Any]:
    return sum_rule(rule_id, **{"name": f"Rule {rule_id}", "limit": 500, "windowMinutes": 30, **members})


DEVIATIONS = {"windowMinutes": 240, "aggregatorFunctionType": "AVG", "deviations": True}
RULES = [
    rule(1),
    rule(2, aggregatorFunctionType="AVG", windowMinutes=60, filter="paymentType = 'CSH'"),
    rule(3, groupingKeyNames=["payeeId", "beneficiaryId"], aggregatorFunctionType="COUNT", aggregateFieldName=None),
    rule(4, aggregatorFunctionType="COUNT_DISTINCT", unique=["beneficiaryId"], aggregateFieldName=None, limit=3),
    rule(5, aggregatorFunctionType="COUNT_WITH_RESET", aggregateFieldName=None, limit=4, windowMinutes=120),
    rule(6, groupingKeyNames=["beneficiaryId"], limit=1),
    rule(7, limit=2, baseline={"windowMinutes": 240, "minCount": 2}),
    rule(8, ruleState="PAUSE"),
    rule(9, aggregatorFunctionType="MAX", limit=3, baseline=DEVIATIONS),
    rule(10, limit=2, baseline={"windowMinutes": 240, "minCount": 10_000}),
    rule(11, groupingKeyNames=["payeeId", "paymentType"], aggregatorFunctionType="STDDEV", limit=100),
    rule(12, limit="paymentAmount * 4"),
    rule(13, limit="paymentAmount / (payeeId - 1)"),
    rule(1, limit=700, windowMinutes=45),
]
EDITED_AFTER_MS = 1_500 * MINUTE_MS


def timeline() -> RuleTimeline:
    """The rules from the first payment on, and an edit of the first rule."""
    times = [BEGIN_MS - 1_000] * (len(RULES) - 1) + [BEGIN_MS + EDITED_AFTER_MS]
    documents = [{name: value for name, value in each.items() if value is not None} for each in RULES]
    return rule_log(documents, times, SCHEMA)


def payments(count: int = 400) -> list[RecordedTransaction]:
    """Payments of five payers to four beneficiaries, a few of them out of order."""
    dice = random.Random(7)
    found = []
    for number in range(count):
        append_ms = BEGIN_MS + number * MINUTE_MS
        record = payment_record(
            number,
            append_ms - dice.choice([0, 0, 0, 5_000]),
            payeeId=dice.randrange(5),
            beneficiaryId=100 + dice.randrange(4),
            paymentType=dice.choice(["CSH", "CRD"]),
            paymentAmount=dice.randrange(1, 30_000) / 100,
        )
        found.append(RecordedTransaction(append_ms, number % 2, number // 2, record))
    return found


def rows_of(records: list[RecordedTransaction]) -> TransactionBatch:
    return decoded_recording(records, SCHEMA, SETTINGS.record_limits)


def replayed(records: list[RecordedTransaction]) -> dict[int, dict[tuple[int, tuple[Any, ...]], tuple[Any, ...]]]:
    """By payer, the last evaluation of each rule and key, from a replay of the payments of all payers."""
    run = Replay(SCHEMA, replace(SETTINGS, evaluations=True), HeapViews())
    found: dict[int, dict[tuple[int, tuple[Any, ...]], tuple[Any, ...]]] = defaultdict(dict)
    for output in run.evaluate(records, timeline(), 0).outputs:
        for text in output.evaluations:
            each = msgspec.json.decode(text)
            if "payeeId" in each["key"] and each["value"] is not None:
                key = each["ruleId"], tuple(each["key"].values())
                last = each["value"], each["windowCount"], each["eventTime"], each["outcome"]
                found[each["key"]["payeeId"]][key] = last
    return found


@pytest.mark.parametrize("count", [400, 3_000])
def test_the_aggregates_are_those_of_a_replay_of_all_payments(count: int) -> None:
    records = payments(count)
    expected = replayed(records)
    for payer in range(5):
        own = [each for each in records if json.loads(each.value or b"")["payeeId"] == payer]
        found = entity_aggregates(rows_of(own), "payeeId", timeline(), SCHEMA, SETTINGS, 0)
        here = {
            (each.rule_id, tuple(each.key.values())): (
                each.value,
                each.window_count,
                each.event_time,
                each.outcome.replace("none", "no"),
            )
            for each in found
        }
        assert here == expected[payer]
        assert {each.rule_id for each in found} >= {1, 2, 3, 4, 5, 7, 9, 10, 11, 12, 13}


def test_the_distance_to_the_limit() -> None:
    own = [each for each in payments() if json.loads(each.value or b"")["payeeId"] == 1]
    found = {each.rule_id: each for each in entity_aggregates(rows_of(own), "payeeId", timeline(), SCHEMA, SETTINGS, 0)}
    assert found[1].share == pytest.approx(float(found[1].value) / 500, abs=1e-4)
    assert found[7].baseline is not None
    assert found[7].share == pytest.approx(float(found[7].value) / (2 * float(found[7].baseline)), abs=1e-4)
    assert (found[1].limit_is, found[1].bound) == ("VALUE", "500")
    assert (found[7].limit_is, found[7].bound) == ("FACTOR", f"{2 * Decimal(found[7].baseline).normalize():f}")
    assert (found[10].limit_is, found[10].bound, found[10].share) == ("FACTOR", None, None)
    assert [each.rule_id for each in rules_of_other_keys(timeline(), "payeeId")] == [6]


def test_the_bound_of_a_limit_that_is_an_expression_is_its_value_for_the_last_payment() -> None:
    own = [each for each in payments() if json.loads(each.value or b"")["payeeId"] == 1]
    found = {each.rule_id: each for each in entity_aggregates(rows_of(own), "payeeId", timeline(), SCHEMA, SETTINGS, 0)}
    shown, amount = found[12], json.loads(own[-1].value or b"", parse_float=Decimal)["paymentAmount"]
    assert (shown.limit, shown.limit_is, Decimal(shown.bound or 0)) == ("paymentAmount * 4", "VALUE", 4 * amount)
    assert shown.share == pytest.approx(float(shown.value) / float(4 * amount), abs=1e-4)
    assert (found[13].limit_is, found[13].bound, found[13].share) == ("VALUE", None, None), "the limit is null"


def test_a_limited_answer_has_the_largest_shares() -> None:
    batch = rows_of([each for each in payments() if json.loads(each.value or b"")["payeeId"] == 1])
    found = entity_aggregates(batch, "payeeId", timeline(), SCHEMA, SETTINGS, 0)
    assert entity_aggregates(batch, "payeeId", timeline(), SCHEMA, SETTINGS, 0, 3) == found[:3]
    assert found == sorted(found, key=lambda each: (-(each.share or 0), each.rule_id))
    assert len({each.share for each in found}) > 5
    assert len(found) > 3


def test_the_bound_of_a_rule_that_counts_deviations() -> None:
    own = [json.loads(each.value or b"") for each in payments()]
    own = [each for each in own if each["payeeId"] == 1]
    records = [each for each in payments() if json.loads(each.value or b"")["payeeId"] == 1]
    (found,) = (
        each
        for each in entity_aggregates(rows_of(records), "payeeId", timeline(), SCHEMA, SETTINGS, 0)
        if each.rule_id == 9
    )
    since = found.event_time - 30 * MINUTE_MS
    past = [each["paymentAmount"] for each in own if since - 240 * MINUTE_MS <= each["eventTime"] < since]
    assert len(past) > 10
    assert found.limit_is == "DEVIATIONS"
    assert float(found.baseline or "") == pytest.approx(fmean(past))
    assert float(found.bound or "") == pytest.approx(fmean(past) + 3 * pstdev(past))
    assert found.share == pytest.approx(float(found.value) / float(found.bound or ""), abs=1e-4)
    assert found.says == (
        "Alert when one payer has within 30 minutes a highest amount of more than 3 standard deviations above the "
        "average amount of the 4 hours before."
    )


def test_an_aggregate_has_the_unit_of_its_field_and_a_count_has_none() -> None:
    own = [each for each in payments() if json.loads(each.value or b"")["payeeId"] == 1]
    found = entity_aggregates(rows_of(own), "payeeId", timeline(), SCHEMA, SETTINGS, 0)
    units = {each.rule_id: each.unit for each in found}
    assert units == {
        1: "EUR",
        2: "EUR",
        3: "",
        4: "",
        5: "",
        7: "EUR",
        9: "EUR",
        10: "EUR",
        11: "EUR",
        12: "EUR",
        13: "EUR",
    }


def test_a_report_sums_payments_and_counterparties_exactly() -> None:
    own = [each for each in payments() if json.loads(each.value or b"")["payeeId"] == 1]
    query = EntityQuery("payeeId", 1, BEGIN_MS)
    report = entity_report(query, EntityRows(rows_of(own), BEGIN_MS), timeline(), SCHEMA, SETTINGS, BEGIN_MS + 1)
    amounts = [round(json.loads(each.value or b"")["paymentAmount"] * 100) for each in own]
    assert report.count == len(own)
    assert sum(round(float(each.amount or 0) * 100) for each in report.periods) == sum(amounts)
    assert sum(each.count for each in report.counterparties if each.field == "beneficiaryId") == len(own)
    assert {each.field for each in report.counterparties} == {"beneficiaryId", "paymentType"}
    assert report.payments[0]["eventTime"] == max(each["eventTime"] for each in report.payments)


def test_the_report_of_a_declared_entity_counts_its_rows_in_both_roles() -> None:
    schema = replace(SCHEMA, entities=(DeclaredEntity("account", (("out", "payeeId"), ("in", "beneficiaryId"))),))
    documents = [
        rule(1, groupingKeyNames=["account"], filter="role = 'in'", when="role = 'out'"),
        rule(2, groupingKeyNames=["account", "paymentType"], aggregatorFunctionType="COUNT"),
        rule(3),
    ]
    rules = rule_log(documents, BEGIN_MS - 1_000, schema)
    batch = rows_of(payments())
    batch.columns["beneficiaryId"].values[:] -= 100
    run = Replay(schema, replace(SETTINGS, evaluations=True), HeapViews())
    wanted = {}
    records = [
        replace(each, value=json.dumps({**payment, "beneficiaryId": payment["beneficiaryId"] - 100}).encode())
        for each in payments()
        for payment in [json.loads(each.value or b"")]
    ]
    for output in run.evaluate(records, rules, 0).outputs:
        for text in output.evaluations:
            each = msgspec.json.decode(text)
            if each["key"].get("account") == 1 and each["value"] is not None:
                wanted[each["ruleId"], tuple(each["key"].values())] = each["value"], each["windowCount"]
    own = batch.take((batch.columns["payeeId"].values == 1) | (batch.columns["beneficiaryId"].values == 1))
    query = EntityQuery("account", 1, BEGIN_MS)
    report = entity_report(query, EntityRows(own, BEGIN_MS), rules, schema, SETTINGS, BEGIN_MS + 1)
    assert {
        (each.rule_id, tuple(each.key.values())): (each.value, each.window_count) for each in report.aggregates
    } == wanted
    assert len(wanted) == 3
    assert [each.rule_id for each in report.other_rules] == [3]
    assert report.count == len(own)
    assert 1 not in {each.value for each in report.counterparties}, "an account is no counterparty of itself"


def test_an_entity_without_payments_has_an_empty_report() -> None:
    query = EntityQuery("payeeId", 77, BEGIN_MS)
    report = entity_report(query, EntityRows(rows_of([]), BEGIN_MS), timeline(), SCHEMA, SETTINGS, BEGIN_MS + 1)
    assert (report.count, report.periods, report.aggregates, report.counterparties) == (0, [], [], [])
