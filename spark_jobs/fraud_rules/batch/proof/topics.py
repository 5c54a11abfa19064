"""Proves an alert, or answers why there is none, from the topics: finds the records that its windows can count."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec
from confluent_kafka import Message

from fraud_rules.batch.proof.answers import PaymentAnswer, answers_of, rules_in_force
from fraud_rules.batch.proof.builder import PaymentLog, build_proof, first_read_ms, is_of_key
from fraud_rules.codec.rules.codec import parse_rule_document, read_entry
from fraud_rules.codec.transactions.codec import decode_transactions
from fraud_rules.codec.transactions.needle import Needle
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import InputInvalid, NotProvable, RuleRejected
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.decoding import UNDECODABLE, decode_or_skip, decode_reason
from fraud_rules.kafka.reader import Record, TopicReader
from fraud_rules.logs.recorder import record_part
from fraud_rules.logs.transactions import raw_transactions
from fraud_rules.model.limits import UNBOUNDED
from fraud_rules.model.rule import Rule
from fraud_rules.model.schema import ID_FIELD, TIME_FIELD, TransactionSchema
from fraud_rules.proof.document import Proof
from fraud_rules.replay.replay import settings_of_recording

__all__ = ["answers_from_topics", "prove_from_topics"]

_FIRST_SPAN: Final = 4_096
_MOST_SPAN: Final = 262_144
_NO_AUDIT: Final = "the audit log of the control plane, which no topic has"
_decode = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode


class _AlertMembers(msgspec.Struct, rename="camel"):
    """The members of an alert that a proof reads."""

    rule_id: int
    rule_version: int
    violated_rule: dict[str, Any]
    key: dict[str, Any]
    triggering_event: dict[str, Any]
    event_time: int
    ingestion_time: int


_check = msgspec.json.Decoder(_AlertMembers).decode


def prove_from_topics(
    alert_id: str, kafka: KafkaConnection, settings: DetectorSettings, schema: TransactionSchema, made_at_ms: int
) -> Proof:
    """Prove a published alert. Raises NotProvable if the topics lack it, and BrokerUnavailable."""
    record = _find_alert(alert_id, kafka, settings)
    try:
        alert = _document(record)
    except UNDECODABLE as error:
        raise NotProvable(f"alert {alert_id} is unreadable: {decode_reason(error)}") from error
    since_ms = _first_ms(alert, schema) - settings.future_tolerance_ms
    part = record_part(kafka, settings, schema, since_ms, alert["ingestionTime"])
    log = PaymentLog(part.recording, schema, settings_of_recording(part.recording, settings))
    earlier = list(_earlier_alerts(alert, kafka, settings, since_ms))
    missing = [*part.missing, _NO_AUDIT]
    return build_proof(record, log, made_at_ms, earlier_alerts=earlier, missing=missing, from_ms=part.from_ms)


@dataclass(frozen=True, slots=True)
class FoundPayment:
    """The record of a payment in its topic."""

    partition: int
    offset: int
    append_ms: int
    event_ms: int


def answers_from_topics(
    transaction_id: str,
    rule_id: int | None,
    kafka: KafkaConnection,
    settings: DetectorSettings,
    schema: TransactionSchema,
    since_ms: int,
) -> list[PaymentAnswer]:
    """Why a payment that was appended at `since_ms` or later has no alert, for a rule or for all rules in force.

    Raises NotProvable if the topic lacks the payment, and BrokerUnavailable.
    """
    payment = _find_payment(transaction_id, kafka, settings, schema, since_ms)
    from_ms = _reach_ms(payment.event_ms, kafka, settings, schema) - settings.future_tolerance_ms
    part = record_part(kafka, settings, schema, from_ms, payment.append_ms)
    log = PaymentLog(part.recording, schema, settings_of_recording(part.recording, settings))
    position = log.position_of(payment.partition, payment.offset)
    alerts: dict[int, list[bytes]] = {}
    for alert in _alerts_since(kafka, settings, from_ms):
        alerts.setdefault(alert.document["ruleId"], []).append(alert.value)
    rules = rules_in_force(log, position) if rule_id is None else [rule_id]
    return [answer for each in rules for answer in answers_of(log, position, each, alerts.get(each, ()), part.from_ms)]


def _find_payment(
    transaction_id: str, kafka: KafkaConnection, settings: DetectorSettings, schema: TransactionSchema, since_ms: int
) -> FoundPayment:
    """The first delivery of a payment. Raises NotProvable, also for a record that went to quarantine."""
    declared = schema.field(ID_FIELD)
    is_number = declared is not None and declared.numeric
    if is_number and not transaction_id.lstrip("-").isdecimal():
        raise InputInvalid(f"{transaction_id[:40]!r} is no id of a payment: it must be a whole number")
    value = int(transaction_id) if is_number else transaction_id
    needle = Needle.of(schema, ID_FIELD, value)
    reasons: list[str] = []
    with closing(_records_with(needle, kafka, settings.topics.transactions, since_ms)) as records:
        for partition, message in records:
            result = decode_transactions(raw_transactions([message], schema, settings), schema, settings.record_limits)
            reasons += [f"{each.reason}: {each.detail}" for each in result.rejects]
            for row in result.batch.rows(range(len(result.batch)), schema):
                if row[ID_FIELD] == value:
                    event_ms, append_ms = int(str(row[TIME_FIELD])), int(result.batch.append_ms[0])
                    return FoundPayment(partition, message.offset() or 0, append_ms, event_ms)
    quarantined = f"; a record with it is unreadable: {reasons[0]}" if reasons else ""
    raise NotProvable(f"{settings.topics.transactions} has no payment {transaction_id} in this time{quarantined}")


def _records_with(
    needle: Needle, kafka: KafkaConnection, topic: str, since_ms: int
) -> Generator[tuple[int, Message], None, None]:
    """The records from a time on that have the bytes of a value, with their partitions."""
    with TopicReader(kafka, topic) as reader:
        for partition in reader.partitions():
            start, end = reader.offset_at(since_ms, partition), reader.ends(partition)[1]
            with closing(reader.read_ranges({partition: (end if start is None else start, end)})) as messages:
                for message in messages:
                    if needle.is_in(message.key(), message.value()):
                        yield partition, message


def _reach_ms(event_ms: int, kafka: KafkaConnection, settings: DetectorSettings, schema: TransactionSchema) -> int:
    """The oldest event time that a rule of the log reads for a payment."""
    with TopicReader(kafka, settings.topics.rules) as reader:
        entries = [
            read_entry(each.offset, each.append_ms, each.value, schema, settings.limits).change
            for each in reader.read(*reader.ends())
        ]
    return min((first_read_ms(each, event_ms) for each in entries if isinstance(each, Rule)), default=event_ms)


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
    for each in _alerts_since(kafka, settings, from_ms):
        if is_of_key(each.document, alert["ruleId"], alert["key"]):
            yield each.value


class _WrittenAlert(NamedTuple):
    """An alert as it was written, and decoded."""

    value: bytes
    document: Mapping[str, Any]


def _alerts_since(kafka: KafkaConnection, settings: DetectorSettings, from_ms: int) -> Iterator[_WrittenAlert]:
    """The live and shadow alerts that were written at a time or later. Unreadable records are skipped."""
    for topic in (settings.topics.alerts, settings.topics.shadow_alerts):
        with TopicReader(kafka, topic) as reader:
            for partition in reader.partitions():
                start, end = reader.offset_at(from_ms, partition), reader.ends(partition)[1]
                for record in [] if start is None else reader.read(start, end, partition):
                    document = decode_or_skip(topic, record, _document, partition)
                    if document is not None and record.value is not None:
                        yield _WrittenAlert(record.value, document)


def _document(value: bytes) -> dict[str, Any]:
    """Decode an alert. Raises one of UNDECODABLE, also for another form of a member that a proof reads."""
    _check(value)
    return _decode(value)
