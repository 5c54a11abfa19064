"""Proves an alert, or answers why there is none, from the topics: finds the records that its windows can count."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec
from confluent_kafka import Message

from fraud_rules.batch.archive.place import ArchivePath
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.archive.topic_identity import is_of_topic
from fraud_rules.batch.proof.answers import PaymentAnswer, answers_of, rules_in_force
from fraud_rules.batch.proof.archive import (
    added_alert,
    archived_added_alert,
    archived_alert,
    archived_alerts,
    archived_part,
    with_archive,
)
from fraud_rules.batch.proof.budget import MOST_RECORDS, ReadBudget
from fraud_rules.batch.proof.builder import PaymentLog, build_proof, first_read_ms, is_of_key
from fraud_rules.batch.reevaluation.corrections import read_tails
from fraud_rules.batch.reevaluation.published import PublishedAlerts
from fraud_rules.codec.rules.codec import parse_rule_document, read_entry
from fraud_rules.codec.transactions.codec import decode_transactions
from fraud_rules.codec.transactions.needle import Needle
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import InputInvalid, NotProvable, RuleRejected
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.decoding import UNDECODABLE, decode_or_skip, decode_reason
from fraud_rules.kafka.reader import Record, TopicReader
from fraud_rules.logs.recorder import RunPart, record_part, recorded_rules
from fraud_rules.logs.transactions import raw_transactions
from fraud_rules.model.day import Day, days_between
from fraud_rules.model.limits import UNBOUNDED
from fraud_rules.model.rule import Rule
from fraud_rules.model.schema import ID_FIELD, TIME_FIELD, TransactionSchema
from fraud_rules.proof.audit import with_audit
from fraud_rules.proof.document import EvaluationOrder, Proof, ProvedAuditRow
from fraud_rules.replay.replay import settings_of_recording

__all__ = ["ProofSource", "answers_from_topics", "prove_from_topics", "prove_record"]

_FIRST_SPAN: Final = 4_096
_MOST_SPAN: Final = 262_144
_SEARCHED: Final = 20
"""The search for a payment reads so many times the records of an answer, because it keeps none of them."""

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


@dataclass(frozen=True, slots=True)
class ProofSource:
    """The cluster, the archive, the settings of the detector, and the most records that one proof or answer reads."""

    kafka: KafkaConnection
    archive: ArchivePath
    schema: TransactionSchema
    settings: DetectorSettings
    most_records: int = MOST_RECORDS


def prove_from_topics(alert_id: str, source: ProofSource, made_at_ms: int) -> Proof:
    """Prove a published alert. Raises NotProvable if topics and archive lack it, BrokerUnavailable, and the errors of
    the archive."""
    budget, store, topics = ReadBudget(source.most_records), ArchiveStore(source.archive), source.settings.topics
    record = next(_records_of(alert_id, (topics.alerts, topics.shadow_alerts), source, budget), None)
    record = archived_alert(store, alert_id) if record is None else record
    if record is not None:
        return prove_record(record, source, made_at_ms)
    corrections = map(added_alert, _records_of(alert_id, (topics.alert_corrections,), source, budget))
    record = next((each for each in corrections if each is not None), None)
    record = archived_added_alert(store, alert_id) if record is None else record
    if record is not None:
        return prove_record(record, source, made_at_ms, order="event")
    names = f"{topics.alerts}, in {topics.shadow_alerts}, in {topics.alert_corrections}"
    raise NotProvable(f"no alert {alert_id} is in {names} or in the archive")


def prove_record(
    record: bytes,
    source: ProofSource,
    made_at_ms: int,
    audit: Sequence[ProvedAuditRow] = (),
    order: EvaluationOrder = "arrival",
) -> Proof:
    """Prove an alert as it was written. `audit` has the rows of the audit log about its rule, ascending. `order` is
    that of its payments: "event" for an alert that a re-evaluation added.

    Raises NotProvable, BrokerUnavailable, and the errors of the archive.
    """
    try:
        alert = _document(record)
    except UNDECODABLE as error:
        raise NotProvable(f"the alert is unreadable: {decode_reason(error)}") from error
    budget = ReadBudget(source.most_records)
    first_ms = _first_ms(alert, source.schema)
    if order == "event":
        log, part = _re_evaluated_payments(source, alert, first_ms, budget)
        earlier = list(_corrected_alerts(alert, source, first_ms, budget))
    else:
        since_ms = first_ms - source.settings.future_tolerance_ms
        log, part = _payments(source, since_ms, alert["ingestionTime"], budget)
        earlier = list(_earlier_alerts(alert, source, since_ms, budget))
    proof = build_proof(
        record, log, made_at_ms, earlier_alerts=earlier, missing=part.missing, from_ms=part.from_ms, order=order
    )
    return with_audit(proof, audit)


def _payments(source: ProofSource, from_ms: int, last_ms: int, budget: ReadBudget) -> tuple[PaymentLog, RunPart]:
    """The payments that were appended in a time, from the topics, and from the archive what has expired there."""
    settings, schema = source.settings, source.schema
    part = record_part(source.kafka, settings, schema, from_ms, last_ms, budget.take)
    if part.missing:
        store = ArchiveStore(source.archive)
        if is_of_topic(source.kafka, store.latest(), settings.topics.transactions):
            part = with_archive(part, store, settings, schema, (from_ms, last_ms), budget)
    return PaymentLog(part.recording, schema, settings_of_recording(part.recording, settings), part.archived), part


def _re_evaluated_payments(
    source: ProofSource, alert: Mapping[str, Any], first_ms: int, budget: ReadBudget
) -> tuple[PaymentLog, RunPart]:
    """The payments that a re-evaluation read up to an alert's, by event time, from the archive as the re-evaluation."""
    settings, schema = source.settings, source.schema
    rules = recorded_rules(source.kafka, settings.topics.rules)
    events_ms = first_ms, alert["eventTime"]
    store = ArchiveStore(source.archive)
    part = archived_part(store, settings, schema, rules, events_ms, alert["detectionTime"], budget)
    return PaymentLog(part.recording, schema, settings, part.archived), part


def _corrected_alerts(
    alert: Mapping[str, Any], source: ProofSource, first_ms: int, budget: ReadBudget
) -> Iterator[bytes]:
    """The alerts of the same rule and key that are in effect after all corrections so far, of the days of a window."""
    store, topics = ArchiveStore(source.archive), source.settings.topics
    manifest = store.latest()
    for day in days_between(Day.of(first_ms), Day.of(alert["eventTime"])):
        published = PublishedAlerts.archived(store, manifest, day)
        read_tails(source.kafka, topics, day, manifest.ends, published)
        texts = [*map(published.text_of, sorted(published.in_effect())), *published.shadow.values()]
        budget.take(len(texts))
        for text in texts:
            with suppress(*UNDECODABLE):
                if text is not None and is_of_key(_document(text), alert["ruleId"], alert["key"]):
                    yield text


@dataclass(frozen=True, slots=True)
class FoundPayment:
    """The record of a payment in its topic."""

    partition: int
    offset: int
    append_ms: int
    event_ms: int


def answers_from_topics(
    transaction_id: str, rule_id: int | None, source: ProofSource, since_ms: int
) -> list[PaymentAnswer]:
    """Why a payment that was appended at `since_ms` or later has no alert, for a rule or for all rules in force.

    Raises NotProvable if the topic lacks the payment, BrokerUnavailable, and the errors of the archive.
    """
    payment = _find_payment(transaction_id, source, since_ms, ReadBudget(_SEARCHED * source.most_records))
    budget = ReadBudget(source.most_records)
    from_ms = _reach_ms(payment.event_ms, source) - source.settings.future_tolerance_ms
    log, part = _payments(source, from_ms, payment.append_ms, budget)
    position = log.position_of(payment.partition, payment.offset)
    alerts: dict[int, list[bytes]] = {}
    for alert in _alerts_since(source, from_ms, payment.append_ms, budget):
        alerts.setdefault(alert.document["ruleId"], []).append(alert.value)
    rules = rules_in_force(log, position) if rule_id is None else [rule_id]
    return [answer for each in rules for answer in answers_of(log, position, each, alerts.get(each, ()), part.from_ms)]


def _find_payment(transaction_id: str, source: ProofSource, since_ms: int, budget: ReadBudget) -> FoundPayment:
    """The first delivery of a payment. Raises NotProvable, also for a record that went to quarantine."""
    settings, schema = source.settings, source.schema
    declared = schema.field(ID_FIELD)
    is_number = declared is not None and declared.numeric
    if is_number and not transaction_id.lstrip("-").isdecimal():
        raise InputInvalid(f"{transaction_id[:40]!r} is no id of a payment: it must be a whole number")
    value = int(transaction_id) if is_number else transaction_id
    needle = Needle.of(schema, ID_FIELD, value)
    reasons: list[str] = []
    with closing(_records_with(needle, source, since_ms, budget)) as records:
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
    needle: Needle, source: ProofSource, since_ms: int, budget: ReadBudget
) -> Generator[tuple[int, Message], None, None]:
    """The payments from a time on that have the bytes of a value, with their partitions."""
    with TopicReader(source.kafka, source.settings.topics.transactions) as reader:
        for partition in reader.partitions():
            start, end = reader.offset_at(since_ms, partition), reader.ends(partition)[1]
            start = end if start is None else start
            budget.take(end - start)
            with closing(reader.read_ranges({partition: (start, end)})) as messages:
                for message in messages:
                    if needle.is_in(message.key(), message.value()):
                        yield partition, message


def _reach_ms(event_ms: int, source: ProofSource) -> int:
    """The oldest event time that a rule of the log reads for a payment."""
    with TopicReader(source.kafka, source.settings.topics.rules) as reader:
        entries = [
            read_entry(each.offset, each.append_ms, each.value, source.schema, source.settings.limits).change
            for each in reader.read(*reader.ends())
        ]
    return min((first_read_ms(each, event_ms) for each in entries if isinstance(each, Rule)), default=event_ms)


def _records_of(alert_id: str, topics: Sequence[str], source: ProofSource, budget: ReadBudget) -> Iterator[bytes]:
    """The records with the id of an alert as their key, those near the ends first."""
    key = alert_id.encode()
    for topic in topics:
        for record in _newest_first(source.kafka, topic, budget):
            if record.key == key and record.value is not None:
                yield record.value


def _newest_first(kafka: KafkaConnection, topic: str, budget: ReadBudget) -> Iterator[Record]:
    """The records of all partitions of a topic, those near the ends first."""
    with TopicReader(kafka, topic) as reader:
        for partition in reader.partitions():
            first, end = reader.ends(partition)
            span = _FIRST_SPAN
            while end > first:
                start = max(first, end - span)
                budget.take(end - start)
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
    alert: Mapping[str, Any], source: ProofSource, since_ms: int, budget: ReadBudget
) -> Iterator[bytes]:
    """The alerts of the same rule and key from before an alert, back to the time that can affect it: the marks of
    COUNT_WITH_RESET in its windows, and its cool-down."""
    cooldown_ms = int(alert["violatedRule"].get("cooldownSeconds", 0)) * 1_000
    from_ms = min(since_ms, alert["eventTime"] - cooldown_ms - source.settings.future_tolerance_ms)
    for each in _alerts_since(source, from_ms, alert["ingestionTime"], budget):
        if is_of_key(each.document, alert["ruleId"], alert["key"]):
            yield each.value


class _WrittenAlert(NamedTuple):
    """An alert as it was written, and decoded."""

    value: bytes
    document: Mapping[str, Any]


def _alerts_since(source: ProofSource, from_ms: int, last_ms: int, budget: ReadBudget) -> Iterator[_WrittenAlert]:
    """The live and shadow alerts that were written at a time or later, each once. If a topic has lost its beginning,
    the archive has those of payments up to `last_ms`. Unreadable records are skipped."""
    seen: set[bytes] = set()
    expired = False
    for topic in (source.settings.topics.alerts, source.settings.topics.shadow_alerts):
        with TopicReader(source.kafka, topic) as reader:
            for partition in reader.partitions():
                start, (first, end) = reader.offset_at(from_ms, partition), reader.ends(partition)
                expired = expired or (first > 0 and (start is None or start <= first))
                budget.take(0 if start is None else end - start)
                for record in [] if start is None else reader.read(start, end, partition):
                    document = decode_or_skip(topic, record, _document, partition)
                    if document is not None and record.value is not None:
                        seen.add(record.value)
                        yield _WrittenAlert(record.value, document)
    for value in archived_alerts(ArchiveStore(source.archive), from_ms, last_ms) if expired else ():
        budget.take(1)
        if value in seen:
            continue
        try:
            document = _document(value)
        except UNDECODABLE:
            continue
        yield _WrittenAlert(value, document)


def _document(value: bytes) -> dict[str, Any]:
    """Decode an alert. Raises one of UNDECODABLE, also for another form of a member that a proof reads."""
    _check(value)
    return _decode(value)
