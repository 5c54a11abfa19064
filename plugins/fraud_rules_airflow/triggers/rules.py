"""Waits until the detector has acknowledged records of the rule log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Container, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.tail import TopicsTail
from fraud_rules_airflow.hooks.detector import FraudDetectorHook
from fraud_rules_airflow.triggers.detector import SETTLE_S

if TYPE_CHECKING:
    from fraud_rules.logs.rule_status import RuleOperation


class RulesLiveTrigger(BaseTrigger):
    """Fires when the detector has acknowledged all versions. The event has the live ones and the rejected ones."""

    def __init__(self, versions: Sequence[int], *, kafka_conn_id: str, look_s: float = 1.0) -> None:
        super().__init__()
        self.versions = sorted(versions)
        self.kafka_conn_id = kafka_conn_id
        self.look_s = look_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.{type(self).__qualname__}", {
            "versions": self.versions,
            "kafka_conn_id": self.kafka_conn_id,
            "look_s": self.look_s,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        hook = FraudDetectorHook(self.kafka_conn_id)
        await hook.resolve_kafka()
        await asyncio.sleep(SETTLE_S)
        topic = hook.settings.topics.rule_operations
        reported: dict[int, RuleOperation] = {}
        with closing(TopicsTail(hook.kafka, {topic: None})) as tail:
            while not set(self.versions) <= reported.keys():
                try:
                    reported |= await asyncio.to_thread(_new_reports, tail, topic, frozenset(self.versions))
                except BrokerUnavailable as error:
                    self.log.warning("%s", error)
                await asyncio.sleep(self.look_s)
        yield TriggerEvent(_event([reported[version] for version in self.versions]))


def _new_reports(tail: TopicsTail, topic: str, versions: Container[int]) -> dict[int, RuleOperation]:
    """The new reports on these versions. The whole topic may be new, so the event loop must not decode it."""
    from fraud_rules.kafka.decoding import decode_or_skip
    from fraud_rules.logs.rule_status import decode_operation

    reports = (decode_or_skip(topic, record, decode_operation) for record in tail.new()[topic])
    return {each.rule_version: each for each in reports if each is not None and each.rule_version in versions}


def _event(reports: Sequence[RuleOperation]) -> dict[str, Any]:
    refused = {
        str(report.rule_version): "; ".join(f"{reason.field}: {reason.message}" for reason in report.reasons)
        for report in reports
        if report.rejected
    }
    return {"live": [report.rule_version for report in reports if not report.rejected], "refused": refused}
