"""Proves an alert from the topics: finds it, its payment's batch, and the records that its windows can count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec

from fraud_rules.batch.proof.builder import PaymentLog, build_proof, first_read_ms, is_of_key
from fraud_rules.codec.rules.codec import parse_rule_document
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import NotProvable, RuleRejected
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import Record, TopicReader
from fraud_rules.logs.recorder import record_part
from fraud_rules.model.limits import UNBOUNDED
from fraud_rules.model.rule import Rule
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.proof.document import Proof
from fraud_rules.replay.replay import settings_of_recording

__all__ = ["prove_from_topics"]

_FIRST_SPAN: Final = 4_096
_MOST_SPAN: Final = 262_144
_decode = msgspec.json.Decoder(float_hook=Decimal).decode


def prove_from_topics(
    alert_id: str, kafka: KafkaConnection, settings: DetectorSettings, schema: TransactionSchema, made_at_ms: int
) -> Proof:
    """Prove a published alert. Raises NotProvable if the topics lack it, and BrokerUnavailable."""
    record = _find_alert(alert_id, kafka, settings)
    alert = _decode(record)
    since_ms = _first_ms(alert, schema) - settings.future_tolerance_ms
    part = record_part(kafka, settings, schema, since_ms, alert["ingestionTime"])
    log = PaymentLog(part.recording, schema, settings_of_recording(part.recording, settings))
    earlier = list(_earlier_alerts(alert, kafka, settings, since_ms))
    return build_proof(record, log, made_at_ms, earlier_alerts=earlier, missing=part.missing, from_ms=part.from_ms)


def _find_alert(alert_id: str, kafka: KafkaConnection, settings: DetectorSettings) -> bytes:
    """The alert as it was written, from its topic or that of shadow alerts. Raises NotProvable."""
    key = alert_id.encode()
    for topic in (settings.topics.alerts, settings.topics.shadow_alerts):
        for record in _newest_first(kafka, topic):
            if record.key == key and record.value is not None:
                return record.value
    raise NotProvable(f"no alert {alert_id} is in {settings.topics.alerts} or {settings.topics.shadow_alerts}")


def _newest_first(kafka: KafkaConnection, topic: str) -> Iterator[Record]:
    """The records of all partitions of a topic, those near the ends first."""
    with TopicReader(kafka, topic) as reader:
        for partition in reader.partitions():
            first, end = reader.ends(partition)
            span = _FIRST_SPAN
            while end > first:
                start = max(first, end - span)
                yield from reader.read(start, end, partition)
                end, span = start, min(4 * span, _MOST_SPAN)


def _first_ms(alert: Mapping[str, Any], schema: TransactionSchema) -> int:
    """The oldest event time that the alert's rule reads. Raises NotProvable for a rule that is unreadable today."""
    try:
        rule = parse_rule_document(alert["violatedRule"], schema, UNBOUNDED)
    except RuleRejected as error:
        raise NotProvable(f"rule {alert['ruleId']} does not fit the schema of today: {error}") from error
    event_ms: int = alert["eventTime"]
    return first_read_ms(rule, event_ms) if isinstance(rule, Rule) else event_ms


def _earlier_alerts(
    alert: Mapping[str, Any], kafka: KafkaConnection, settings: DetectorSettings, since_ms: int
) -> Iterator[bytes]:
    """The alerts of the same rule and key from before an alert, back to the time that can affect it: the marks of
    COUNT_WITH_RESET in its windows, and its cool-down."""
    cooldown_ms = int(alert["violatedRule"].get("cooldownSeconds", 0)) * 1_000
    from_ms = min(since_ms, alert["eventTime"] - cooldown_ms - settings.future_tolerance_ms)
    for topic in (settings.topics.alerts, settings.topics.shadow_alerts):
        with TopicReader(kafka, topic) as reader:
            for partition in reader.partitions():
                start, end = reader.offset_at(from_ms, partition), reader.ends(partition)[1]
                for record in [] if start is None else reader.read(start, end, partition):
                    if record.value is not None and is_of_key(_decode(record.value), alert["ruleId"], alert["key"]):
                        yield record.value
