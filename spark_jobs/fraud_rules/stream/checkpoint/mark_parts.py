"""The marks that a batch's conclusions have changed, beside the marker. The next batch sets them.

A marker is one record, and Kafka limits its size. So the marks are in *parts*, records of bounded size with the keys
`<detector>/marks/<n>` in the topic of the markers. The transaction of a marker contains its parts. It also removes the
parts of the marker before that it does not replace, so the topic stays small after a batch with many marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import CheckpointDamaged
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.writer import OutRecord, newest_records
from fraud_rules.model.output import MarkUpdate
from fraud_rules.stream.checkpoint.marker import REBUILD, Marker

PART_BYTES: Final = 500_000
"""The most bytes of marks in a part, half of Kafka's default limit. A mark has some dozens of bytes, or a few thousand
with long texts in its key."""

_encode: Final = msgspec.json.Encoder().encode


class MarkPart(msgspec.Struct, frozen=True, rename="camel"):
    """A part: the batch that has changed the marks, and the marks."""

    query_id: str
    batch_id: int
    marks: list[MarkUpdate]


_decode: Final = msgspec.json.Decoder(MarkPart).decode


def encode_parts(query_id: str, batch_id: int, marks: Iterable[MarkUpdate]) -> list[bytes]:
    """The parts of a batch's marks in order, as JSON. Without marks, there are none."""
    parts: list[MarkPart] = []
    size = PART_BYTES
    for mark in marks:
        mark_bytes = len(_encode(mark)) + 1
        if size + mark_bytes > PART_BYTES:
            parts.append(MarkPart(query_id, batch_id, []))
            size = 0
        parts[-1].marks.append(mark)
        size += mark_bytes
    return [_encode(part) for part in parts]


def part_records(parts: Sequence[bytes], before: int, settings: DetectorSettings) -> Iterator[OutRecord]:
    """The records of parts, and the tombstones of the further ones that a marker with `before` parts has left."""
    for number in range(max(len(parts), before)):
        part = parts[number] if number < len(parts) else None
        yield OutRecord(settings.topics.detector_marker, part, _key(settings.detector, number))


def read_marks(
    kafka: KafkaConnection, settings: DetectorSettings, marker: Marker, *, settled: bool = True
) -> list[MarkUpdate]:
    """The marks of the newest marker. This is `marker`, or a later one that a working detector has written since.

    `settled` is that of `last_record`. Raises CheckpointDamaged, TransactionOpen, BrokerUnavailable.
    """
    if not marker.mark_parts:
        return []
    own = settings.detector.encode()
    found = newest_records(
        kafka, settings.topics.detector_marker, lambda key: key == own or key.startswith(own + b"/"), settled=settled
    )
    values = {key: record.value for key, record in found.items() if record.value is not None}
    return decode_parts(Marker.decode(values[own]), settings.detector, values) if own in values else []


def decode_parts(marker: Marker, detector: str, values: Mapping[bytes, bytes]) -> list[MarkUpdate]:
    """The marks of a marker, from the newest values of the topic by key. Further parts are ignored.

    Raises CheckpointDamaged if a part is missing, is not readable, or is of another batch.
    """
    marks: list[MarkUpdate] = []
    for number in range(marker.mark_parts):
        key = _key(detector, number)
        name = f"record {key.decode()}, which has marks of batch {marker.batch_id},"
        try:
            part = _decode(values[key])
        except KeyError:
            raise CheckpointDamaged(f"{name} is missing. Restore it, or {REBUILD}") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CheckpointDamaged(f"{name} is not readable: {error}. Restore it, or {REBUILD}") from error
        if (part.query_id, part.batch_id) != marker.place:
            other = f"batch {part.batch_id} of {part.query_id}"
            raise CheckpointDamaged(f"{name} is of {other}, not of {marker.query_id}. Restore it, or {REBUILD}")
        marks += part.marks
    return marks


def _key(detector: str, number: int) -> bytes:
    """The key of a part. No name of a detector contains a slash."""
    return f"{detector}/marks/{number}".encode()
