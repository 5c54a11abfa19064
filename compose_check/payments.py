"""Planted frauds: single payments above the limit of a rule, and their alerts."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
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

__all__ = ["PlantedFraud", "await_alerts", "plant", "write_payment"]

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
    started = time.monotonic()
    write_payment(kafka, fraud)
    await_alerts(kafka, [fraud])
    return time.monotonic() - started


def write_payment(kafka: KafkaConnection, fraud: PlantedFraud) -> None:
    """Append the payment of a fraud to the topic of transactions. Raises BrokerUnavailable."""
    record = (str(fraud.transaction_id).encode(), fraud.payment(now_ms()))
    append_records(kafka, TopicNames().transactions, [record])


def await_alerts(kafka: KafkaConnection, frauds: Sequence[PlantedFraud]) -> None:
    """Wait until each fraud has an alert. Raises CheckFailed, also if one has several."""
    alerts: dict[PlantedFraud, int] = {}

    def are_reported() -> bool:
        try:
            found = read_topic(kafka, TopicNames().alerts)
        except BrokerUnavailable:
            return False
        values = [json.loads(each.value) for records in found.values() for each in records if each.value is not None]
        alerts.update({fraud: sum(map(fraud.is_reported_by, values)) for fraud in frauds})
        return all(alerts.values())

    def late() -> CheckFailed:
        missing = [fraud for fraud in frauds if not alerts.get(fraud)]
        return CheckFailed(f"no alert within {_ALERT_S:g} s for {missing}")

    wait_for(are_reported, within_s=_ALERT_S, every_s=_POLL_S, timed_out=late)
    if several := {fraud: count for fraud, count in alerts.items() if count > 1}:
        raise CheckFailed(f"several alerts for one payment: {several}")
