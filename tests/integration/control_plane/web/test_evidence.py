"""The transactions of an alert's window, found again in the topic."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fraud_control.service.reading.evidence_search import EvidenceSearch, EvidenceSource
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime import clock
from tests.support.control_plane.alerts import alert_json
from tests.support.control_plane.web.server import RULE
from tests.support.kafka.own_topics import OwnTopics
from tests.support.records.payments import payment_record


def payment(number: int, event_ms: int, payer: int = 7, kind: str = "CSH") -> bytes:
    return payment_record(number, event_ms, payeeId=payer, paymentAmount=5, paymentType=kind)


def test_evidence_has_the_counted_transactions_and_no_others(topics: OwnTopics, project: Project) -> None:
    now_ms = clock.now_ms()
    minute_ms = 60_000
    payments = [
        payment(1, now_ms - 20 * minute_ms - 1),  # before the window
        payment(2, now_ms - 20 * minute_ms),
        payment(3, now_ms - 5 * minute_ms, payer=8),
        payment(4, now_ms - 5 * minute_ms, kind="CRD"),  # the filter excludes it
        b"no transaction of 7",
        payment(5, now_ms - 5 * minute_ms),
        payment(5, now_ms - 5 * minute_ms),  # delivered twice
        payment(6, now_ms),
    ]
    append_records(topics.kafka, topics.names.transactions, [(b"k", each) for each in payments])
    loaded = DetectorSettings.load(project.config / "detector.yaml", {})
    schema = TransactionSchema.load(project.config / "schema.yaml")
    reader = EvidenceSearch(EvidenceSource(topics.kafka, schema, replace(loaded, topics=topics.names)))

    def asked(**members: Any) -> bytes:
        facts = {"key": {"payeeId": 7}, "windowStart": now_ms - 20 * minute_ms, "windowEnd": now_ms, "windowCount": 3}
        rule = {**RULE, "ruleId": 1, "ruleState": "ACTIVE", "filter": "paymentType = 'CSH'"}
        later_ms = clock.now_ms() + minute_ms
        return alert_json(1, **{"violatedRule": rule, "ingestionTime": later_ms, **facts, **members})

    found = reader.find(asked())
    assert [row["transactionId"] for row in found.transactions] == [2, 5, 6]
    assert (found.count, found.missing) == (3, None)
    fewer = reader.find(asked(windowCount=2))
    assert fewer.missing is not None and "counted 2" in fewer.missing
    assert reader.find(asked(key={"payeeId": 9}, windowCount=0)).count == 0
    members = {"aggregatorFunctionType": "COUNT", "limitOperatorType": ">=", "limit": 1, "windowMinutes": 30}
    combined = {"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["payeeId"], "conditions": [members]}
    counted = reader.find(
        asked(violatedRule=combined, windowStart=now_ms, windowCount=0, conditions=[{"windowStart": now_ms - 1}])
    )
    assert ([row["transactionId"] for row in counted.transactions], counted.missing) == ([6], None)
    both = {**combined, **RULE, "filter": "paymentType = 'CSH'", "conditions": [{**members, "filter": ""}]}
    counted = reader.find(asked(violatedRule=both, conditions=[{"windowStart": now_ms - 10 * minute_ms}]))
    assert ([row["transactionId"] for row in counted.transactions], counted.missing) == ([2, 4, 5, 6], None)
    unfiltered = reader.find(asked(violatedRule={"ruleId": 1}, windowCount=4))
    assert [row["transactionId"] for row in unfiltered.transactions] == [2, 4, 5, 6]
