"""Decides where the past transactions of a request come from: the archive, and the topic for what is not archived."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from fraud_rules.batch.archive.manifest import FileEntry, Manifest, Table
from fraud_rules.batch.archive.topic_identity import is_of_topic
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.model.warm_up import WarmUpRequest

_PART_RECORDS: Final = 500_000
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class ArchivedPart:
    """One file of the archive, without the records from `ends` on, by partition."""

    file: FileEntry
    ends: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class TopicPart:
    """The offsets [start, end) of one partition of the transactions."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Past:
    """The parts to read, and the offset after the last transaction to read, by partition. `fault` is the reason why
    the past cannot be read, empty if it can."""

    ends: Mapping[int, int] = field(default_factory=dict)
    parts: tuple[ArchivedPart | TopicPart, ...] = ()
    fault: str = ""


def find_past(request: WarmUpRequest, kafka: KafkaConnection, settings: DetectorSettings, archive: Manifest) -> Past:
    """The past of a request. Raises BrokerUnavailable.

    The job reads the archived files that reach into twice the request's reach and a day before the newest archived
    transaction, and every transaction in the topic that is not archived.
    """
    topic = settings.topics.transactions
    if not is_of_topic(kafka, archive, topic):
        return Past(fault=f"{topic} was created again after it was archived: the archive is of the earlier topic")
    archived = {int(at): end for at, end in archive.ends.get(topic, {}).items()}
    ends: dict[int, int] = {}
    parts: list[ArchivedPart | TopicPart] = []
    removed = False
    with TopicReader(kafka, topic) as reader:
        for partition in reader.partitions():
            first, end = reader.ends(partition)
            if archived.get(partition, 0) > end:
                return Past(fault=f"the archive has more of {topic}-{partition} than the topic: it is of another Kafka")
            at_record = reader.offset_at(request.until_ms, partition)
            ends[partition] = end if at_record is None else min(end, at_record)
            known = archived.get(partition, 0)
            if archived and first > known:
                return Past(fault=f"retention has removed {topic}-{partition} from {known} to {first} unarchived")
            removed |= first > 0
            parts += _split(partition, max(first, known), ends[partition])
    files = _files(request, archive, settings)
    if removed and not archive.files and not parts:
        return Past(fault="retention has removed the transactions before the rule, and there is no archive")
    return Past(ends, (*(ArchivedPart(file, ends) for file in files), *parts))


def parts_of(pasts: Sequence[Past]) -> tuple[ArchivedPart | TopicPart, ...]:
    """The parts of all these pasts, each once. They are in the order of their requests, so the last one ends last."""
    files = {each.file.path: each.file for past in pasts for each in past.parts if isinstance(each, ArchivedPart)}
    last = pasts[-1]
    rest = (each for each in last.parts if isinstance(each, TopicPart))
    return (*(ArchivedPart(file, last.ends) for file in files.values()), *rest)


def _split(partition: int, start: int, end: int) -> Iterator[TopicPart]:
    for first in range(start, end, _PART_RECORDS):
        yield TopicPart(partition, first, min(first + _PART_RECORDS, end))


def _files(request: WarmUpRequest, archive: Manifest, settings: DetectorSettings) -> list[FileEntry]:
    files = archive.of(Table.TRANSACTIONS)
    newest_ms = max((min(file.last_ms, request.until_ms) for file in files), default=0)
    since_ms = newest_ms - 2 * request.reach_ms - settings.max_out_of_orderness_ms - _DAY_MS
    return [file for file in files if file.last_ms >= since_ms]
