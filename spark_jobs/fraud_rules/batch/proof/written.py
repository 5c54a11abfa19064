"""Finds alerts, decisions and restrictions as they were written, in the topics and in the archive."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from fraud_rules.batch.archive.manifest import Table
from fraud_rules.batch.archive.place import ArchivePath
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.proof.archive import archived_alerts, archived_records
from fraud_rules.batch.proof.budget import MOST_RECORDS, ReadBudget
from fraud_rules.batch.proof.builder import is_of_key
from fraud_rules.batch.reevaluation.corrections import read_tails
from fraud_rules.batch.reevaluation.published import PublishedAlerts
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import NotProvable
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.decoding import UNDECODABLE, decode_or_skip, decode_reason
from fraud_rules.kafka.reader import Record, TopicReader
from fraud_rules.model.day import Day, days_between
from fraud_rules.model.schema import TransactionSchema

_FIRST_SPAN: Final = 4_096
_MOST_SPAN: Final = 262_144
_CORRECTED: Final = (Table.ALERTS, Table.SHADOW_ALERTS, Table.CORRECTIONS)

_decode = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode


class _AlertMembers(msgspec.Struct, rename="camel"):
    """The members of an alert that a proof reads."""

    alert_id: str
    rule_id: int
    rule_version: int
    violated_rule: dict[str, Any]
    key: dict[str, Any]
    triggering_event: dict[str, Any]
    event_time: int
    ingestion_time: int


_check = msgspec.json.Decoder(_AlertMembers).decode


class _DecidingAlert(msgspec.Struct, rename="camel"):
    alert_id: str


class _DecisionMembers(msgspec.Struct, rename="camel"):
    """The members of a decision that a proof reads."""

    alerts: Annotated[list[_DecidingAlert], msgspec.Meta(min_length=1)]
    event_time: int
    ingestion_time: int


_check_decision = msgspec.json.Decoder(_DecisionMembers).decode


@dataclass(frozen=True, slots=True)
class ProofSource:
    """The cluster, the archive, the settings of the detector, and the most records that one proof or answer reads."""

    kafka: KafkaConnection
    archive: ArchivePath
    schema: TransactionSchema
    settings: DetectorSettings
    most_records: int = MOST_RECORDS


def records_of(
    name: str, topics: Sequence[str], tables: Sequence[Table], source: ProofSource, budget: ReadBudget
) -> Iterator[bytes]:
    """The records with an id as their key: those of the topics, then those of the archive, each the newest first."""
    key = name.encode()
    for topic in topics:
        for record in _newest_first(source.kafka, topic, key, budget):
            if record.value is not None:
                yield record.value
    yield from archived_records(ArchiveStore(source.archive), tables, name)


def _newest_first(kafka: KafkaConnection, topic: str, key: bytes, budget: ReadBudget) -> Iterator[Record]:
    """The records of all partitions of a topic with a key, the newest of each partition first."""
    with TopicReader(kafka, topic) as reader:
        for partition in reader.partitions():
            first, end = reader.ends(partition)
            span = _FIRST_SPAN
            while end > first:
                start = max(first, end - span)
                budget.take(end - start)
                yield from reversed([each for each in reader.read(start, end, partition) if each.key == key])
                end, span = start, min(4 * span, _MOST_SPAN)


def record_at(source: ProofSource, topic: str, offset: int) -> bytes | None:
    """The value of the record at an offset of the first partition. None if Kafka has removed it."""
    with TopicReader(source.kafka, topic) as reader:
        if offset < reader.ends()[0]:
            return None
        return next((each.value for each in reader.read(offset, offset + 1)), None)


def corrected_alerts(
    alert: Mapping[str, Any], source: ProofSource, first_ms: int, budget: ReadBudget
) -> Iterator[bytes]:
    """The alerts of the same rule and key that are in effect after all corrections so far, of the days of a window."""
    store = ArchiveStore(source.archive)
    manifest = store.latest()
    days = {day: PublishedAlerts() for day in days_between(Day.of(first_ms), Day.of(alert["eventTime"]))}
    budget.take(sum(file.rows for table in _CORRECTED for day in days for file in manifest.of(table, day)))
    days = {day: PublishedAlerts.archived(store, manifest, day) for day in days}
    read_tails(source.kafka, source.settings.topics, manifest.ends, days, budget.take)
    for published in days.values():
        for text in (*map(published.text_of, sorted(published.in_effect())), *published.shadow.values()):
            with suppress(*UNDECODABLE):
                if text is not None and is_of_key(_document(text), alert["ruleId"], alert["key"]):
                    yield text


def earlier_alerts(
    alerts: Collection[Mapping[str, Any]], source: ProofSource, since_ms: int, budget: ReadBudget
) -> Iterator[bytes]:
    """The alerts of the rules and keys of a payment's alerts from before it, back to the time that can affect one: the
    marks of COUNT_WITH_RESET in its windows, and its cool-down."""
    cooldowns_ms = [int(each["violatedRule"].get("cooldownSeconds", 0)) * 1_000 for each in alerts]
    (event_ms, last_ms), *_ = {(each["eventTime"], each["ingestionTime"]) for each in alerts}
    from_ms = min(since_ms, event_ms - max(cooldowns_ms) - source.settings.future_tolerance_ms)
    for each in alerts_since(source, from_ms, last_ms, budget):
        if any(is_of_key(each.document, own["ruleId"], own["key"]) for own in alerts):
            yield each.value


def alerts_of_decision(decision: Mapping[str, Any], source: ProofSource, budget: ReadBudget) -> list[bytes]:
    """The alerts that a decision names, in its order. Raises NotProvable if topics and archive lack one."""
    names, found = [each["alertId"] for each in decision["alerts"]], dict[str, bytes]()
    first_ms, last_ms = sorted((decision["eventTime"], decision["ingestionTime"]))
    with closing(alerts_since(source, first_ms, last_ms, budget)) as written:
        for each in written:
            if each.document.get("alertId") in names:
                found.setdefault(each.document["alertId"], each.value)
            if len(found) == len(names):
                break
    for name in names:
        if name not in found:
            raise NotProvable(f"neither the topics nor the archive have alert {name} of the decision")
    return [found[name] for name in names]


def restrictions_of(alert: Mapping[str, Any], source: ProofSource, budget: ReadBudget) -> tuple[list[bytes], list[str]]:
    """The restriction of an alert, and the record that lifted it; and what is missing."""
    rule, topic = alert["violatedRule"], source.settings.topics.restrictions
    if rule.get("action") != "RESTRICT" or rule["ruleState"] != "ACTIVE":
        return [], []
    found, key = list[bytes](), alert["alertId"].encode()
    with TopicReader(source.kafka, topic) as reader:
        start, end = reader.offset_at(alert["ingestionTime"]), reader.ends()[1]
        budget.take(0 if start is None else end - start)
        for record in [] if start is None else reader.read(start, end):
            if record.key == key and record.value is not None:
                found.append(record.value)
    return found, [] if found else [f"the restriction of the alert, which {topic} does not have"]


class WrittenAlert(NamedTuple):
    """An alert as it was written, and decoded."""

    value: bytes
    document: Mapping[str, Any]


def alerts_since(source: ProofSource, from_ms: int, last_ms: int, budget: ReadBudget) -> Generator[WrittenAlert]:
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
                        yield WrittenAlert(record.value, document)
    for value in archived_alerts(ArchiveStore(source.archive), from_ms, last_ms) if expired else ():
        budget.take(1)
        if value in seen:
            continue
        try:
            document = _document(value)
        except UNDECODABLE:
            continue
        yield WrittenAlert(value, document)


def read_alert(value: bytes) -> Mapping[str, Any]:
    """Decode an alert. Raises NotProvable."""
    try:
        return _document(value)
    except UNDECODABLE as error:
        raise NotProvable(f"the alert is unreadable: {decode_reason(error)}") from error


def read_decision(value: bytes) -> Mapping[str, Any]:
    """Decode a decision. Raises NotProvable."""
    try:
        _check_decision(value)
        return _decode(value)
    except UNDECODABLE as error:
        raise NotProvable(f"the decision is unreadable: {decode_reason(error)}") from error


def _document(value: bytes) -> dict[str, Any]:
    """Decode an alert. Raises one of UNDECODABLE, also for another form of a member that a proof reads."""
    _check(value)
    return _decode(value)
