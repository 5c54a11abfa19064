"""Proves an alert or a decision, or answers why there is none, from the topics: finds the records that it needs."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Final, TypeAlias

import msgspec
from confluent_kafka import Message

from fraud_rules.batch.archive.manifest import Table
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.archive.topic_identity import is_of_topic
from fraud_rules.batch.proof.answers import PaymentAnswer, answers_of, rules_in_force
from fraud_rules.batch.proof.archive import (
    ALERT_TABLES,
    added_alert,
    archived_part,
    retracted_ms,
    with_archive,
)
from fraud_rules.batch.proof.budget import ReadBudget
from fraud_rules.batch.proof.builder import PaymentLog, build_proof, first_read_ms
from fraud_rules.batch.proof.written import (
    ProofSource,
    alerts_of_decision,
    alerts_since,
    corrected_alerts,
    earlier_alerts,
    read_alert,
    read_decision,
    records_of,
    restrictions_of,
)
from fraud_rules.codec.rules.codec import parse_rule_document, read_entry
from fraud_rules.codec.transactions.codec import decode_transactions
from fraud_rules.codec.transactions.needle import Needle
from fraud_rules.errors import InputInvalid, NotProvable, RuleRejected
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.logs.recorder import RunPart, record_part, recorded_rules
from fraud_rules.logs.transactions import raw_transactions
from fraud_rules.model.limits import UNBOUNDED
from fraud_rules.model.rule import Rule
from fraud_rules.model.schema import ID_FIELD, TIME_FIELD, TransactionSchema
from fraud_rules.proof.audit import with_audit
from fraud_rules.proof.decision import DecisionProof, DecisionStatement
from fraud_rules.proof.document import FORMAT, EvaluationOrder, Proof, ProvedAuditRow
from fraud_rules.replay.replay import settings_of_recording

AuditRows: TypeAlias = Mapping[int, Sequence[ProvedAuditRow]]
"""The rows of the audit log about rules, by the rule's id, ascending."""

NO_ROWS: Final[AuditRows] = {}
_SEARCHED: Final = 20
"""The search for a payment reads so many times the records of an answer, because it keeps none of them."""


def prove_from_topics(alert_id: str, source: ProofSource, made_at_ms: int, *, retraction: bool = False) -> Proof:
    """Prove a published alert, or its `retraction`.

    Raises NotProvable if topics and archive lack it, BrokerUnavailable, and the errors of the archive.
    """
    budget, topics = ReadBudget(source.most_records), source.settings.topics
    record = next(records_of(alert_id, (topics.alerts, topics.shadow_alerts), ALERT_TABLES, source, budget), None)
    if record is not None:
        return prove_record(record, source, made_at_ms, retraction=retraction)
    corrections = records_of(alert_id, (topics.alert_corrections,), [Table.CORRECTIONS], source, budget)
    record = next(filter(None, map(added_alert, corrections)), None)
    if record is not None:
        return prove_record(record, source, made_at_ms, order="event", retraction=retraction)
    names = f"{topics.alerts}, in {topics.shadow_alerts}, in {topics.alert_corrections}"
    raise NotProvable(f"no alert {alert_id} is in {names} or in the archive")


def prove_record(
    record: bytes,
    source: ProofSource,
    made_at_ms: int,
    audit: Sequence[ProvedAuditRow] = (),
    order: EvaluationOrder = "arrival",
    *,
    retraction: bool = False,
) -> Proof:
    """Prove an alert as it was written. `audit` has the rows of the audit log about its rule, ascending. `order` is
    that of its payments: "event" for an alert that a re-evaluation added. With `retraction`, prove that a re-evaluation
    was right to retract it.

    Raises NotProvable, BrokerUnavailable, and the errors of the archive.
    """
    alert, budget = read_alert(record), ReadBudget(source.most_records)
    if order == "arrival" and not retraction:
        [proof] = _prove_written([record], source, made_at_ms, {alert["ruleId"]: audit}, budget)
        return proof
    first_ms = _first_ms(alert, source.schema)
    seen_ms = _retracted_ms(alert["alertId"], source, budget) if retraction else alert["detectionTime"]
    log, part = _re_evaluated_payments(source, alert, first_ms, seen_ms, budget)
    earlier = list(corrected_alerts(alert, source, first_ms, budget))
    proof = build_proof(
        record, log, made_at_ms, earlier_alerts=earlier, missing=part.missing, from_ms=part.from_ms, order="event"
    )
    statement = msgspec.structs.replace(proof.statement, is_retracted=retraction)
    proof = msgspec.structs.replace(proof, statement=statement)
    return _completed(proof, alert, audit, source, budget)


def _prove_written(
    records: Sequence[bytes], source: ProofSource, made_at_ms: int, audit: AuditRows, budget: ReadBudget
) -> list[Proof]:
    """Prove alerts of one payment as the detector wrote them."""
    alerts = [read_alert(each) for each in records]
    since_ms = min(_first_ms(each, source.schema) for each in alerts) - source.settings.future_tolerance_ms
    log, part = _payments(source, since_ms, alerts[0]["ingestionTime"], budget)
    earlier = list(earlier_alerts(alerts, source, since_ms, budget))
    found = []
    for record, alert in zip(records, alerts, strict=True):
        proof = build_proof(record, log, made_at_ms, earlier_alerts=earlier, missing=part.missing, from_ms=part.from_ms)
        found.append(_completed(proof, alert, audit.get(alert["ruleId"], ()), source, budget))
    return found


def _completed(
    proof: Proof, alert: Mapping[str, Any], audit: Sequence[ProvedAuditRow], source: ProofSource, budget: ReadBudget
) -> Proof:
    """The proof with the restriction of its alert, and with the rows of the audit log."""
    restrictions, missing = restrictions_of(alert, source, budget)
    statement = msgspec.structs.replace(
        proof.statement,
        restrictions=[msgspec.Raw(each) for each in restrictions],
        missing=[*proof.statement.missing, *missing],
    )
    return with_audit(msgspec.structs.replace(proof, statement=statement), audit)


def find_decision(transaction_id: str, source: ProofSource) -> bytes:
    """The newest decision about a payment. Raises NotProvable if topic and archive have none, BrokerUnavailable, and
    the errors of the archive."""
    topic, budget = source.settings.topics.decisions, ReadBudget(source.most_records)
    found = next(records_of(transaction_id, (topic,), [Table.DECISIONS], source, budget), None)
    if found is None:
        raise NotProvable(f"no decision about payment {transaction_id} is in {topic} or in the archive")
    return found


def prove_decision(record: bytes, source: ProofSource, made_at_ms: int, audit: AuditRows = NO_ROWS) -> DecisionProof:
    """Prove a decision as it was written, with its alerts. `audit` has the rows of the audit log about their rules.

    Raises NotProvable, BrokerUnavailable, and the errors of the archive.
    """
    budget, thresholds = ReadBudget(source.most_records), source.settings.decisions.thresholds
    alerts = alerts_of_decision(read_decision(record), source, budget)
    proofs = _prove_written(alerts, source, made_at_ms, audit, budget)
    statement = DecisionStatement(
        FORMAT, metadata.version("fraud-rules"), made_at_ms, thresholds.decline, thresholds.review
    )
    return DecisionProof(statement, record, proofs)


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
    source: ProofSource, alert: Mapping[str, Any], first_ms: int, seen_ms: int, budget: ReadBudget
) -> tuple[PaymentLog, RunPart]:
    """The payments up to an alert's, by event time, that a re-evaluation at `seen_ms` read from the archive."""
    settings, schema = source.settings, source.schema
    rules = recorded_rules(source.kafka, settings.topics.rules)
    events_ms = first_ms, alert["eventTime"]
    store = ArchiveStore(source.archive)
    part = archived_part(store, settings, schema, rules, events_ms, seen_ms, budget)
    return PaymentLog(part.recording, schema, settings, part.archived), part


def _retracted_ms(alert_id: str, source: ProofSource, budget: ReadBudget) -> int:
    """When the newest correction of an alert retracted it. Raises NotProvable if it did not."""
    topic = source.settings.topics.alert_corrections
    newest = next(records_of(alert_id, (topic,), [Table.CORRECTIONS], source, budget), None)
    found = None if newest is None else retracted_ms(newest)
    if found is None:
        raise NotProvable(f"the newest correction of alert {alert_id} in {topic} and in the archive retracts nothing")
    return found


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
    for alert in alerts_since(source, from_ms, payment.append_ms, budget):
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


def _first_ms(alert: Mapping[str, Any], schema: TransactionSchema) -> int:
    """The oldest event time that the alert's rule reads. Raises NotProvable for a rule that is unreadable today."""
    try:
        rule = parse_rule_document(alert["violatedRule"], schema, UNBOUNDED)
    except RuleRejected as error:
        raise NotProvable(f"rule {alert['ruleId']} does not fit the schema of today: {error}") from error
    event_ms: int = alert["eventTime"]
    return first_read_ms(rule, event_ms) if isinstance(rule, Rule) else event_ms
