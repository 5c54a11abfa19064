"""A sample of undecoded records, from the end of a topic or the beginning of a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from fraud_rules.codec.transactions.raw import Headers
from fraud_rules.errors import InputInvalid
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import TopicReader, record_of

MOST_RECORDS: Final = 10_000
_MOST_LINE_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """One record. `append_ms` is None for a record of a file, and its partition is then 0."""

    value: bytes
    append_ms: int | None = None
    partition: int = 0
    offset: int = 0
    key: bytes | None = None
    headers: Headers = ()


def of_topic(kafka: KafkaConnection, topic: str, most: int = MOST_RECORDS) -> list[SampleRecord]:
    """The newest records of a topic, each partition with an equal share. Tombstones are left out.

    Raises BrokerUnavailable.
    """
    with TopicReader(kafka, topic) as reader:
        partitions = reader.partitions()
        ranges = {}
        for partition in partitions:
            first, end = reader.ends(partition)
            ranges[partition] = (max(first, end - most // len(partitions)), end)
        return [
            SampleRecord(
                record.value, record.append_ms, message.partition() or 0, record.offset, record.key, record.headers
            )
            for message in reader.read_ranges(ranges)
            if (record := record_of(message)).value is not None
        ]


def of_file(path: Path, most: int = MOST_RECORDS) -> list[SampleRecord]:
    """The first records of a file: one in each line. Raises InputInvalid."""
    try:
        with path.open("rb") as file:
            lines: Iterator[bytes] = iter(lambda: file.readline(_MOST_LINE_BYTES), b"")
            return [SampleRecord(line.rstrip(b"\r\n")) for line in islice(lines, most) if line.strip()]
    except OSError as error:
        raise InputInvalid(f"{path} cannot be read: {error.strerror}") from error


def quantile(ordered: Sequence[int], share: float) -> int:
    """The value at a share of an ordered sequence that is not empty."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
