"""Reads the topic `quarantine`, and sends repaired records to the transactions again, each exactly once.

One Kafka transaction writes a record to `transactions` and its mark to `quarantine-replays`. All replays of a
quarantine have the same transactional id, so a second replay fences the first. The marks are read after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from fraud_rules.codec.transactions.codec import decode_transactions
from fraud_rules.codec.transactions.quarantine import QuarantinedRecord, decode_quarantined
from fraud_rules.codec.transactions.raw import RawTransactions
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import settled_ends
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.kafka.transactional_ids import quarantine_replay_id
from fraud_rules.kafka.writer import BatchWriter, OutRecord
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime import clock

_CHUNK_RECORDS = 1_000
_CHUNK_BYTES = 33_554_432
_ORIGIN = ("fraud-quarantine", "fraud-source")
"""The headers of a record that is sent again: its positions in the quarantine and in the transactions. Its other
headers are its producer's."""


def read_quarantine(kafka: KafkaConnection, topic: str, since_ms: int = 0) -> Iterator[QuarantinedRecord]:
    """Yield the current records that were quarantined at `since_ms` or later. Raises BrokerUnavailable."""
    with TopicReader(kafka, topic) as reader:
        for partition in reader.partitions():
            first, end = reader.ends(partition)
            start = first if since_ms <= 0 else reader.offset_at(since_ms, partition)
            for record in () if start is None else reader.read(max(first, start), end, partition):
                place = partition, record.offset, record.append_ms
                yield decode_quarantined(*place, record.key, record.value, record.headers)


def read_marks(kafka: KafkaConnection, topic: str) -> set[bytes]:
    """The marks of the replayed records. Raises TransactionOpen, BrokerUnavailable."""
    with TopicReader(kafka, topic) as reader:
        return {
            record.key
            for partition, ends in settled_ends(reader).items()
            for record in reader.read(*ends, partition)
            if record.key is not None
        }


@dataclass(slots=True)
class ReplayResult:
    """The result of a replay: the number of sent records, the number of records that were sent before, and the
    (position, reason) pairs of the records that are still unreadable."""

    fed: int = 0
    before: int = 0
    unreadable: list[tuple[str, str]] = field(default_factory=list)


def replay(
    kafka: KafkaConnection, settings: DetectorSettings, schema: TransactionSchema, records: Iterable[QuarantinedRecord]
) -> ReplayResult:
    """Send the readable records that were not sent before. Raises BrokerUnavailable, Fenced."""
    topics = settings.topics
    writer = BatchWriter(kafka, quarantine_replay_id(topics.quarantine))
    writer.open()
    marks = read_marks(kafka, topics.quarantine_replays)
    result = ReplayResult()
    for chunk in _chunks(records):
        fresh = {each.mark: each for each in chunk if each.mark not in marks}
        result.before += len(chunk) - len(fresh)
        now_ms = clock.now_ms()
        rejected = _rejected(list(fresh.values()), schema, settings, now_ms)
        result.unreadable += rejected.items()
        feed = [each for each in fresh.values() if each.position not in rejected]
        if feed:
            writer.write(_out(feed, settings, now_ms))
        marks.update(each.mark for each in feed)
        result.fed += len(feed)
    return result


def _chunks(records: Iterable[QuarantinedRecord]) -> Iterator[list[QuarantinedRecord]]:
    """Split the records into parts that fit into memory and into one Kafka transaction."""
    chunk: list[QuarantinedRecord] = []
    size = 0
    for record in records:
        chunk.append(record)
        size += len(record.raw)
        if len(chunk) == _CHUNK_RECORDS or size >= _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _rejected(
    records: Sequence[QuarantinedRecord], schema: TransactionSchema, settings: DetectorSettings, now_ms: int
) -> dict[str, str]:
    """The positions of the records that the detector would quarantine again, with the reasons."""
    n = len(records)
    raw = RawTransactions.of(
        [each.raw for each in records],
        [each.partition for each in records],
        [each.offset for each in records],
        [now_ms] * n,
        settings.topics.transactions,
        [each.key for each in records],
        [each.headers for each in records],
    )
    decoded = decode_transactions(raw, schema, settings.record_limits)
    rejected = {records[each.index].position: f"{each.reason}: {each.detail}" for each in decoded.rejects}
    return rejected | {each.position: "the quarantine holds only its beginning" for each in records if each.cut}


def _out(records: Sequence[QuarantinedRecord], settings: DetectorSettings, now_ms: int) -> Iterator[OutRecord]:
    for each in records:
        texts = each.position.encode(), each.source.encode("utf-8", "backslashreplace")
        own = [header for header in each.headers if header[0] not in _ORIGIN]
        mark = {"position": each.position, "quarantinedAt": each.time_ms, "replayedAt": now_ms, "source": each.source}
        headers = [*own, *zip(_ORIGIN, texts, strict=True)]
        yield OutRecord(settings.topics.transactions, each.raw, each.key, headers)
        yield OutRecord(settings.topics.quarantine_replays, msgspec.json.encode(mark), each.mark)
