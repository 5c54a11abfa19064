"""The evaluated transactions of a detector and their batches, from which a rebuild recomputes the state.

Each batch recorded its end offsets and its rules in `detector-progress`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import FraudError, HistoryLost
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import ends_of, settled_ends
from fraud_rules.kafka.decoding import decode_or_skip
from fraud_rules.kafka.reader import Record, TopicReader
from fraud_rules.logs.detector_status import Partition, RejectedRuns, Whole, check_rejected
from fraud_rules.model.lost_records import LossReason, LostRecords
from fraud_rules.model.warm_up import BatchWarmUp
from fraud_rules.replay.need import HistoryNeed
from fraud_rules.replay.segments import BatchEnd

_RECENT_OFFSETS: Final = 256
_MOST_OFFSETS: Final = 65_536
"""How many records a search backwards holds at once."""


class WrittenBatch(msgspec.Struct, rename="camel"):
    """The part of a `BatchProgress` that names the batch and its input. It decodes several times as fast."""

    query_id: str
    batch_id: Whole
    end_offsets: dict[str, dict[Partition, Whole]]
    rules_end: Whole
    rules_rejected: RejectedRuns = msgspec.field(name="rulesRefused", default_factory=list)
    lost: list[LostRecords] = []
    watermark: Whole | None = None
    warm_ups: list[BatchWarmUp] = []
    time_zones: str = ""

    def __post_init__(self) -> None:
        check_rejected(self.rules_rejected)

    @property
    def place(self) -> tuple[str, int]:
        """The history and the batch, which together identify a batch."""
        return self.query_id, self.batch_id

    def ends_of(self, topic: str) -> dict[int, int]:
        """The end offsets of one topic by partition."""
        return {int(partition): end for partition, end in self.end_offsets.get(topic, {}).items()}

    def begins_topic(self, topic: str) -> bool:
        """Whether the topic was created again before this batch."""
        return any(each.topic == topic and each.reason is LossReason.RECREATED for each in self.lost)


decode_batch = msgspec.json.Decoder(WrittenBatch).decode


@dataclass(frozen=True, slots=True)
class History:
    """The batches that produced the state: their offsets in `detector-progress` and in each partition of transactions.

    `lost` names the needed parts that the topics do not hold anymore. `known_from_ms` is the append time from which on
    the history has all transactions, None if it begins with the first batch or if a part is lost.
    """

    progress_start: int
    progress_end: int
    starts: Mapping[int, int]
    ends: Mapping[int, int]
    lost: tuple[str, ...] = ()
    known_from_ms: int | None = None

    @property
    def transactions(self) -> int:
        """The number of offsets in all partitions of `transactions`, at least the number of transactions."""
        return sum(max(0, end - self.starts.get(partition, 0)) for partition, end in self.ends.items())

    def require(self, *, partial: bool) -> None:
        """Raise HistoryLost if a part is lost and `partial` does not accept that."""
        if self.lost and not partial:
            raise HistoryLost(
                f"the topics no longer hold {', '.join(self.lost)}: windows that include these records would be "
                "incomplete; --partial continues without them"
            )


def read_history(
    kafka: KafkaConnection,
    settings: DetectorSettings,
    until: tuple[str, int] | None = None,
    reached: Callable[[int, int], None] = lambda done, total: None,
    *,
    recreated: bool = False,
    need: HistoryNeed | None = None,
    is_enough: Callable[[WrittenBatch], bool] = lambda batch: False,
) -> History:
    """The history of a detector's state at its last written batch, at the batch `until` (query id, batch id), or at the
    first batch that is enough.

    `reached` receives the number of read offsets and their total. `recreated` means that the topic of transactions was
    deleted and created again after that batch; then the whole history is lost. Without `need`, the state needs all
    batches.
    Raises FraudError if there is no history or a batch in the middle is missing, and BrokerUnavailable.
    """
    topic = settings.topics.transactions
    history, last = None, None
    with TopicReader(kafka, settings.topics.detector_progress) as reader:
        first, end = settled_ends(reader)[0]
        begin = first if need is None or need.marks else _batch_before(reader, need.from_ms, settings)
        for record, batch in _batches_of(reader, begin, end, settings):
            offset = record.offset
            begins = last is None or batch.query_id != last.query_id
            if last is None and begin > first and batch.batch_id == 0:
                # This batch began a history, and the batch before it has the start offsets.
                everything = None if need is None else need._replace(marks=True)
                return read_history(
                    kafka, settings, until, reached, recreated=recreated, need=everything, is_enough=is_enough
                )
            if begins:
                starts = {**({} if last is None else last.ends_of(topic)), **_restart_offsets(batch, topic)}
                history = History(offset, end, starts, {}, ())
                if batch.batch_id > 0:
                    # The start of the first known batch is unknown, so the history begins at its end.
                    history = History(offset + 1, end, batch.ends_of(topic), {})
                    if need is not None and record.append_ms < need.from_ms:
                        history = replace(history, known_from_ms=need.from_ms)
                    else:
                        lost = f"the batches before offset {offset} of {settings.topics.detector_progress}"
                        history = replace(history, lost=(lost,))
            elif last is not None:
                if batch.batch_id != last.batch_id + 1:
                    raise FraudError(f"{settings.topics.detector_progress} lacks batches before {batch.batch_id}")
                if _changes_offsets(batch, topic):
                    starts = {**last.ends_of(topic), **_restart_offsets(batch, topic)}
                    history = History(offset, end, starts, {}, (f"{topic} before batch {batch.batch_id}",))
            last = batch
            reached(offset - begin, end - begin)
            if until == batch.place or is_enough(batch):
                end = offset + 1
                break
    if history is None or last is None:
        raise FraudError(f"the detector {settings.detector} has not evaluated anything at {kafka} yet")
    if recreated:
        ends = last.ends_of(topic)
        return replace(history, progress_start=end, progress_end=end, starts=ends, ends=ends, lost=(f"all of {topic}",))
    return _clipped(replace(history, progress_end=end, ends=last.ends_of(topic)), kafka, topic, need)


def read_ends(history: History, kafka: KafkaConnection, settings: DetectorSettings) -> Iterator[BatchEnd]:
    """Yield the ends of the batches in order, within the records that Kafka still holds. Raises BrokerUnavailable."""
    for batch in batches_of(history, kafka, settings):
        ends = batch.ends_of(settings.topics.transactions)
        within = {at: min(end, history.ends.get(at, end)) for at, end in ends.items()}
        yield BatchEnd(batch.rules_end, within, tuple(batch.warm_ups))


def batches_of(history: History, kafka: KafkaConnection, settings: DetectorSettings) -> Iterator[WrittenBatch]:
    """Yield the batches of a history in order. Raises BrokerUnavailable."""
    with TopicReader(kafka, settings.topics.detector_progress) as progress:
        for _, batch in _batches_of(progress, history.progress_start, history.progress_end, settings):
            yield batch


def last_batch(kafka: KafkaConnection, settings: DetectorSettings, *, settled: bool = True) -> WrittenBatch | None:
    """The detector's last batch in `detector-progress`, None if the topic has none.

    Without `settled`, an open transaction may hide a later one. Raises TransactionOpen, BrokerUnavailable.
    """
    with TopicReader(kafka, settings.topics.detector_progress) as reader:
        first, end = ends_of(reader, settled=settled)[0]
        found = _last_before(reader, first, end, settings)
    return None if found is None else found[1]


def newest_watermark_ms(kafka: KafkaConnection, settings: DetectorSettings, batch: tuple[str, int]) -> int | None:
    """The newest watermark of a key group after a recent batch (query id, batch id). None if it is unknown.

    Raises BrokerUnavailable.
    """
    with TopicReader(kafka, settings.topics.detector_progress) as reader:
        first, end = settled_ends(reader)[0]
        recent = _batches_of(reader, max(first, end - _RECENT_OFFSETS), end, settings)
        found = [each.watermark for _, each in recent if each.place == batch]
    return found[-1] if found else None


def _batch_before(reader: TopicReader, append_ms: int, settings: DetectorSettings) -> int:
    """The offset of the detector's last batch that was written before a time, the first offset if there is none."""
    first, end = reader.ends()
    until = reader.offset_at(append_ms)
    found = _last_before(reader, first, end if until is None else until, settings)
    return first if found is None else found[0].offset


def _last_before(
    reader: TopicReader, first: int, until: int, settings: DetectorSettings
) -> tuple[Record, WrittenBatch] | None:
    """The detector's last batch in a range of offsets."""
    span = _RECENT_OFFSETS
    while until > first:
        start = max(first, until - span)
        own = list(_batches_of(reader, start, until, settings))
        if own:
            return own[-1]
        until, span = start, min(4 * span, _MOST_OFFSETS)  # other detectors write to the topic too
    return None


def _clipped(history: History, kafka: KafkaConnection, topic: str, need: HistoryNeed | None) -> History:
    """Limit the history to the transactions that Kafka still holds."""
    starts, ends, lost = dict(history.starts), dict(history.ends), list(history.lost)
    known_from_ms = history.known_from_ms
    with TopicReader(kafka, topic) as reader:
        for partition, end in history.ends.items():
            start, (kept, last) = starts.get(partition, 0), reader.ends(partition)
            starts[partition], ends[partition] = max(start, kept), min(end, last)
            if kept > start:
                if need is not None and _first_append_ms(reader, kept, last, partition) < need.from_ms:
                    known_from_ms = need.from_ms
                else:
                    lost.append(f"{topic}-{partition} from {start} to {kept}")
            if end > last:
                lost.append(f"{topic}-{partition} from {last} to {end}")
    known_from_ms = None if lost else known_from_ms
    return replace(history, starts=starts, ends=ends, lost=tuple(lost), known_from_ms=known_from_ms)


def _first_append_ms(reader: TopicReader, start: int, end: int, partition: int) -> float:
    """The append time of the first record in a range of offsets, infinity without records."""
    first = next(reader.read(start, end, partition), None)
    return float("inf") if first is None else first.append_ms


def _restart_offsets(batch: WrittenBatch, topic: str) -> dict[int, int]:
    """The start offsets of a batch in the partitions with lost records."""
    return {each.partition: each.end for each in batch.lost if each.topic == topic and each.end is not None}


def _changes_offsets(batch: WrittenBatch, topic: str) -> bool:
    """Whether earlier batches' offsets are invalid from this batch on, because the topic was recreated or truncated."""
    return any(each.topic == topic and each.reason is not LossReason.REMOVED for each in batch.lost)


def _batches_of(
    reader: TopicReader, start: int, end: int, settings: DetectorSettings
) -> Iterator[tuple[Record, WrittenBatch]]:
    """Yield the progress records of one detector, decoded too."""
    detector = settings.detector.encode()
    for record in reader.read(start, end):
        if record.key != detector or record.value is None:
            continue
        batch = decode_or_skip(settings.topics.detector_progress, record, decode_batch)
        if batch is not None:
            yield record, batch
