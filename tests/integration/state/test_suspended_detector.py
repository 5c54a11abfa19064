"""A whole detector is suspended in its transaction for longer than the broker permits: nothing is lost or doubled."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.errors import BrokerUnavailable, TransactionExpired
from fraud_rules.kafka.ends import TopicEnds
from fraud_rules.runtime.clock import now_ms
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce, read_all
from tests.support.processes.running_detector import Installation, RunningDetector
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(1_200)]

_RULE = {
    "ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["payeeId"], "aggregatorFunctionType": "COUNT",
    "limitOperatorType": ">=", "limit": 1, "windowSeconds": 60,
}  # fmt: skip
_REPAIRABLE = {TransactionExpired.exit_code, BrokerUnavailable.exit_code}
"""Ends after which the supervisor starts the detector again. If the pause comes while the writer waits for the broker,
the limit of this wait ends the detector first."""
_LOOKS = 50
"""A transaction whose commit the broker has received ends before this number of looks."""
_EXPIRY_S = 180
"""The transaction expires after 60 s, and the broker looks for such transactions every 10 s."""


class _Payments:
    """The payments that were sent, each with a payee of its own."""

    def __init__(self, topics: OwnTopics) -> None:
        self._topics, self.sent = topics, 0

    def send(self, count: int) -> None:
        numbers = range(self.sent, self.sent + count)
        produce(self._topics.bootstrap, self._topics.names.transactions, list(map(_payment, numbers)))
        self.sent += count

    def all_alerted_once(self) -> bool:
        alerts = read_all(self._topics.bootstrap, self._topics.names.alerts)
        payees = [json.loads(each.value() or b"")["key"]["payeeId"] for each in alerts]
        assert len(set(payees)) == len(payees), "a payment has two alerts"
        return len(payees) == self.sent


def _payment(number: int) -> bytes:
    return json.dumps(
        {
            "transactionId": number, "eventTime": now_ms(), "payeeId": number, "beneficiaryId": 2, "paymentType": "CSH",
            "paymentAmount": 1,
        }
    ).encode()  # fmt: skip


def test_a_detector_that_outlasts_its_transaction_ends_and_the_next_start_continues(
    project: Project, topics: OwnTopics, tmp_path: Path
) -> None:
    installation, payments = Installation.make(tmp_path, project, topics), _Payments(topics)
    produce(topics.bootstrap, topics.names.rules, [json.dumps(_RULE).encode()])
    detector = RunningDetector(installation)
    detector.wait_ready()
    payments.send(1)
    until(payments.all_alerted_once, "the first payment is evaluated")
    ends = TopicEnds(topics.kafka)
    outputs = {name: ends.partitions(name) for name in (topics.names.alerts, topics.names.detector_marker)}

    def holds_a_transaction() -> bool:
        return ends.committed(outputs) != ends.written(outputs)

    def is_suspended_in_a_transaction() -> bool:
        payments.send(50)
        detector.suspend()
        if all(holds_a_transaction() for _ in range(_LOOKS)):
            return True
        detector.signal_all(signal.SIGCONT)
        return False

    until(is_suspended_in_a_transaction, "the detector is suspended in a transaction", every_s=0.05)
    payments.send(50)
    until(lambda: not holds_a_transaction(), "the broker ends the transaction", _EXPIRY_S, every_s=1)
    detector.signal_all(signal.SIGCONT)
    assert detector.wait_end() in _REPAIRABLE, detector.said()[-2_000:]

    detector = RunningDetector(installation)
    detector.wait_ready()
    until(payments.all_alerted_once, "every payment has its alert", every_s=1)
    assert detector.stop() == 0
