"""A planted fraud: one payment above the limit of a rule, and its alert."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from compose_check.errors import CheckFailed
from fraud_rules.configuration.topic_names import TopicNames
from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import read_topic
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.runtime.clock import now_ms
from fraud_rules.runtime.retry import wait_for

__all__ = ["PlantedFraud", "plant"]

_ALERT_S = 900.0
_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class PlantedFraud:
    """A rule and a large payment that this rule must report."""

    rule_id: int
    transaction_id: int
    amount: str

    def payment(self, at_ms: int) -> bytes:
        """The payment's record. Payer and beneficiary have no other payments."""
        document = {
            "transactionId": self.transaction_id,
            "eventTime": at_ms,
            "payeeId": self.transaction_id,
            "beneficiaryId": self.transaction_id,
            "paymentType": "CRD",
            "paymentAmount": self.amount,
        }
        return json.dumps(document).encode()

    def is_reported_by(self, alert: dict[str, Any]) -> bool:
        """Whether an alert is the one for this payment."""
        return (alert["ruleId"], alert["triggeringEvent"]["transactionId"]) == (self.rule_id, self.transaction_id)


def plant(kafka: KafkaConnection, fraud: PlantedFraud) -> float:
    """Write the payment and wait for its alert. Return the seconds between. Raises CheckFailed."""
    topics = TopicNames()
    started = time.monotonic()
    append_records(kafka, topics.transactions, [(str(fraud.transaction_id).encode(), fraud.payment(now_ms()))])

    def is_reported() -> bool:
        try:
            found = read_topic(kafka, topics.alerts)
        except BrokerUnavailable:
            return False
        values = (record.value for records in found.values() for record in records if record.value is not None)
        return any(fraud.is_reported_by(json.loads(value)) for value in values)

    def late() -> CheckFailed:
        return CheckFailed(f"no alert of rule {fraud.rule_id} for a payment of {fraud.amount} within {_ALERT_S:g} s")

    wait_for(is_reported, within_s=_ALERT_S, every_s=_POLL_S, timed_out=late)
    return time.monotonic() - started
