"""Makes a recording of a live run from its topics: the logs, and the offsets and pins of the detector's batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import FraudError
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.decoding import decode_or_skip
from fraud_rules.kafka.reader import TopicReader, append_ms_of
from fraud_rules.logs.detector_status import BatchProgress, decode_progress
from fraud_rules.logs.rule_status import RuleOperation, read_operations
from fraud_rules.replay.recording import (
    RecordedBatch,
    RecordedRule,
    RecordedSettings,
    RecordedTransaction,
    RecordedWarmUp,
    Recording,
)

__all__ = ["record_run"]


@dataclass(frozen=True, slots=True)
class _Run:
    """The batches that made the detector's state, and the start offsets of the first one."""

    batches: Sequence[BatchProgress]
    starts: Mapping[int, int]

    def ends(self, topic: str) -> dict[int, int]:
        return self.batches[-1].ends_of(topic)


def record_run(kafka: KafkaConnection, settings: DetectorSettings) -> Recording:
    """Record the input of the detector, from the start of its history to its last batch.

    Raises BrokerUnavailable, and FraudError if there is no batch or Kafka does not hold all of the input anymore.
    """
    topics = settings.topics
    run = _last_run(kafka, settings)
    transactions: list[RecordedTransaction] = []
    with TopicReader(kafka, topics.transactions) as reader:
        for partition, end in sorted(run.ends(topics.transactions).items()):
            start = run.starts.get(partition, 0)
            _check_kept(topics.transactions, partition, reader.ends(partition)[0], start)
            transactions += [
                RecordedTransaction(
                    append_ms_of(message, producer_times=settings.producer_times),
                    partition,
                    message.offset() or 0,
                    message.value(),
                )
                for message in reader.read_ranges({partition: (start, end)})
            ]
    with TopicReader(kafka, topics.rules) as reader:
        _check_kept(topics.rules, 0, reader.ends()[0], 0)
        rules = [
            RecordedRule(record.offset, record.append_ms, record.value)
            for record in reader.read(0, run.batches[-1].rules_end)
        ]
    operations = read_operations(kafka, topics.rule_operations)
    batches = [_batch(progress, topics.transactions, operations) for progress in run.batches]
    return Recording(rules, transactions, batches, settings.key_groups, _settings(settings))


def _last_run(kafka: KafkaConnection, settings: DetectorSettings) -> _Run:
    batches: list[BatchProgress] = []
    starts: Mapping[int, int] = {}
    for progress in _batches(kafka, settings):
        if batches and _starts_new_state(batches[-1], progress):
            # A new history always starts at the end of the previous one.
            starts = batches[-1].ends_of(settings.topics.transactions)
            batches.clear()
        batches.append(progress)
    if not batches:
        raise FraudError(f"the detector {settings.detector} has not evaluated anything at {kafka} yet")
    if batches[0].batch_id != 0:
        missing = batches[0].batch_id
        raise FraudError(f"the first {missing} batches are no longer in {settings.topics.detector_progress}")
    return _Run(batches, starts)


def _batches(kafka: KafkaConnection, settings: DetectorSettings) -> Iterator[BatchProgress]:
    """Yield the batches of the detector, in order."""
    detector, topic = settings.detector.encode(), settings.topics.detector_progress
    with TopicReader(kafka, topic) as reader:
        for partition in reader.partitions():
            for record in reader.read(*reader.ends(partition), partition):
                if record.key == detector:
                    progress = decode_or_skip(topic, record, decode_progress, partition)
                    if progress is not None:
                        yield progress


def _starts_new_state(before: BatchProgress, progress: BatchProgress) -> bool:
    """Whether a batch starts without the state of the previous batch."""
    return progress.query_id != before.query_id and not progress.rebuilt


def _check_kept(topic: str, partition: int, first: int, start: int) -> None:
    if first > start:
        raise FraudError(
            f"{topic}-{partition} no longer has the records from {start} to {first}: no replay is possible"
        )


def _batch(progress: BatchProgress, topic: str, operations: Mapping[int, RuleOperation]) -> RecordedBatch:
    refused = {version: _reasons(operations.get(version)) for version in progress.refused_versions()}
    warm_ups = tuple(
        RecordedWarmUp(each.version, {int(partition): end for partition, end in each.ends.items()})
        for each in progress.warm_ups
    )
    return RecordedBatch(progress.ends_of(topic), progress.rules_end, refused, warm_ups)


def _reasons(operation: RuleOperation | None) -> list[tuple[str, str]]:
    reasons: Iterable[tuple[str, str]] = (
        () if operation is None else ((reason.field, reason.message) for reason in operation.reasons)
    )
    return list(reasons) or [("state", "refused by the detector")]


def _settings(settings: DetectorSettings) -> RecordedSettings:
    return RecordedSettings(
        settings.max_out_of_orderness_ms,
        settings.future_tolerance_ms,
        settings.max_transaction_bytes,
        settings.event_time_floor_ms,
    )
