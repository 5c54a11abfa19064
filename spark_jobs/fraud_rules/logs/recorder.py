"""Makes a recording of a live run from its topics: the logs, and the offsets and pins of the detector's batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import FraudError, Reason
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import TopicReader, append_ms_of, headers_of, key_of
from fraud_rules.logs.batch_history import WrittenBatch, batches_of, read_history
from fraud_rules.logs.detector_status import rejected_versions
from fraud_rules.logs.rule_status import RuleOperation, read_operations
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.replay.need import HistoryNeed
from fraud_rules.replay.recording import (
    RecordedBatch,
    RecordedRule,
    RecordedSettings,
    RecordedTransaction,
    RecordedWarmUp,
    Recording,
)


def record_run(kafka: KafkaConnection, settings: DetectorSettings, schema: TransactionSchema) -> Recording:
    """Record the input of the detector, from the start of its history to its last batch, with the keys and headers that
    the schema reads.

    Raises BrokerUnavailable, and FraudError if there is no batch or Kafka does not hold all of the input anymore.
    """
    history = read_history(kafka, settings)
    _require(history.lost)
    batches = list(batches_of(history, kafka, settings))
    ranges = {partition: (history.starts.get(partition, 0), end) for partition, end in history.ends.items()}
    transactions = _transactions(kafka, settings, schema, ranges)
    return _recording(kafka, settings, batches, transactions)


@dataclass(frozen=True, slots=True)
class RunPart:
    """A part of a run. `from_ms` is the append time from which on it has all transactions, None if it begins with the
    first batch. `missing` names what Kafka does not hold anymore. `kept` has the first offset of each partition of
    transactions whose beginning Kafka has removed. `archived` has transactions that only the archive has: JSON of their
    values."""

    recording: Recording
    from_ms: int | None
    missing: Sequence[str]
    kept: Mapping[int, int] = field(default_factory=dict)
    archived: Sequence[RecordedTransaction] = ()


def record_part(
    kafka: KafkaConnection,
    settings: DetectorSettings,
    schema: TransactionSchema,
    from_ms: int,
    last_ms: int,
    counts: Callable[[int], None] = lambda records: None,
) -> RunPart:
    """Record the input of the detector from an append time on, up to the batches that have read the transactions that
    were appended at `last_ms`. `counts` receives the number of transactions before they are read.

    Raises BrokerUnavailable, and FraudError if there is no batch or Kafka does not hold the whole rule log anymore.
    """
    topic = settings.topics.transactions
    with TopicReader(kafka, topic) as reader:
        untils = {each: reader.offset_at(last_ms + 1, each) for each in reader.partitions()}
        wanted = {each: reader.ends(each)[1] if until is None else until for each, until in untils.items()}

        def is_enough(batch: WrittenBatch) -> bool:
            ends = batch.ends_of(topic)
            return all(ends.get(partition, 0) >= end for partition, end in wanted.items())

        history = read_history(kafka, settings, need=HistoryNeed(from_ms, marks=False), is_enough=is_enough)
        ranges, removed = dict[int, tuple[int, int]](), dict[int, int]()
        is_whole = history.known_from_ms is None and not history.lost
        for partition, end in sorted(history.ends.items()):
            first, kept = reader.offset_at(from_ms, partition), reader.ends(partition)[0]
            start = history.starts.get(partition, 0)
            chosen = max(start, end if first is None else first)
            is_whole = is_whole and chosen <= max(start, kept)
            if 0 < kept >= chosen:
                removed[partition] = kept
            ranges[partition] = chosen, max(chosen, min(end, wanted.get(partition, end)))
    batches = list(batches_of(history, kafka, settings))
    counts(sum(end - start for start, end in ranges.values()))
    transactions = _transactions(kafka, settings, schema, ranges)
    recording = _recording(kafka, settings, batches, transactions)
    return RunPart(recording, None if is_whole else from_ms, history.lost, removed)


def _transactions(
    kafka: KafkaConnection, settings: DetectorSettings, schema: TransactionSchema, ranges: Mapping[int, tuple[int, int]]
) -> list[RecordedTransaction]:
    found: list[RecordedTransaction] = []
    with TopicReader(kafka, settings.topics.transactions) as reader:
        for partition, bounds in sorted(ranges.items()):
            found += [
                RecordedTransaction(
                    append_ms_of(message, producer_times=settings.producer_times),
                    partition,
                    message.offset() or 0,
                    message.value(),
                    key_of(message) if schema.reads_keys else None,
                    headers_of(message) if schema.reads_headers else (),
                )
                for message in reader.read_ranges({partition: bounds})
            ]
    return found


def _recording(
    kafka: KafkaConnection,
    settings: DetectorSettings,
    batches: Sequence[WrittenBatch],
    transactions: list[RecordedTransaction],
) -> Recording:
    """The recording of these batches, with the rule log that the last one has read."""
    topics = settings.topics
    rules = recorded_rules(kafka, topics.rules, batches[-1].rules_end)
    operations = read_operations(kafka, topics.rule_operations)
    recorded = [_batch(each, topics.transactions, operations) for each in batches]
    return Recording(rules, transactions, recorded, settings.key_groups, _settings(settings))


def recorded_rules(kafka: KafkaConnection, topic: str, end: int | None = None) -> list[RecordedRule]:
    """The records of the rule log below an end, by default all. Raises BrokerUnavailable, and FraudError if the topic
    has lost its beginning."""
    with TopicReader(kafka, topic) as reader:
        first, last = reader.ends()
        _require([f"{topic}-0 from 0 to {first}"] if first else [])
        return [
            RecordedRule(record.offset, record.append_ms, record.value, record.headers)
            for record in reader.read(0, last if end is None else end)
        ]


def _require(lost: Sequence[str]) -> None:
    if lost:
        raise FraudError(f"the topics no longer hold {', '.join(lost)}: no replay is possible")


def _batch(batch: WrittenBatch, topic: str, operations: Mapping[int, RuleOperation]) -> RecordedBatch:
    rejections = {version: _reasons(operations.get(version)) for version in rejected_versions(batch.rules_rejected)}
    warm_ups = tuple(
        RecordedWarmUp(each.version, {int(partition): end for partition, end in each.ends.items()})
        for each in batch.warm_ups
    )
    return RecordedBatch(batch.ends_of(topic), batch.rules_end, rejections, warm_ups, batch.time_zones)


def _reasons(operation: RuleOperation | None) -> list[Reason]:
    reasons = [] if operation is None else [Reason(each.field, each.message) for each in operation.reasons]
    return reasons or [Reason("state", "refused by the detector")]


def _settings(settings: DetectorSettings) -> RecordedSettings:
    return RecordedSettings(
        settings.max_out_of_orderness_ms,
        settings.future_tolerance_ms,
        settings.max_transaction_bytes,
        settings.event_time_floor_ms,
        settings.limits.detail_minutes,
        settings.limits.max_long_window_minutes,
    )
