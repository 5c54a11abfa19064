"""The parts with a marker's marks: of bounded size, and of the marker's batch."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import CheckpointDamaged
from fraud_rules.kafka.writer import OutRecord
from fraud_rules.model.output import MarkUpdate
from fraud_rules.stream.checkpoint.mark_parts import PART_BYTES, decode_parts, encode_parts, part_records
from fraud_rules.stream.checkpoint.marker import Marker
from fraud_rules.stream.pins import Pin

SETTINGS = DetectorSettings(detector="d")
KEYS = [f"d/marks/{number}".encode() for number in range(20)]
FEW = [MarkUpdate(1, ("payeeId",), 2, 1, (7,), None, 3), MarkUpdate(0, ("a", "b"), 0, 4, ("\u00e9\n", -1), 9, 0)]
MANY = [MarkUpdate(number % 8, ("payeeId",), 2, 1, (number,), 1_700_000_000_000, 0) for number in range(30_000)]


class Topic:
    """The newest values of the topic of the markers, and the newest marker."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.marker = Marker("q", -1, {}, Pin(-1, 0))

    def write(self, batch: int, marks: Sequence[MarkUpdate], query: str = "q") -> list[OutRecord]:
        """Write a batch as the detector does, and return the records with its marks."""
        parts = encode_parts(query, batch, marks)
        records = list(part_records(parts, self.marker.mark_parts, SETTINGS))
        for record in records:
            assert record.key is not None
            self.values.pop(record.key, None)
            if record.value is not None:
                self.values[record.key] = record.value
        self.marker = Marker(query, batch, {}, Pin(batch, 0), mark_parts=len(parts))
        return records

    def marks(self) -> list[MarkUpdate]:
        return decode_parts(self.marker, "d", self.values)


@pytest.fixture
def topic() -> Topic:
    return Topic()


@pytest.mark.parametrize(("marks", "parts"), [([], 0), (FEW, 1), (MANY, 3)])
def test_marks_survive_in_parts_of_bounded_size(marks: list[MarkUpdate], parts: int, topic: Topic) -> None:
    records = topic.write(5, marks)
    assert [record.key for record in records] == KEYS[:parts]
    assert all(len(record.value or b"") < PART_BYTES + 100 for record in records)
    assert topic.marks() == marks


def test_a_batch_removes_the_parts_that_it_does_not_replace(topic: Topic) -> None:
    topic.write(5, MANY)
    records = topic.write(6, FEW)
    assert [record.key for record in records if record.value is None] == KEYS[1:3]
    assert topic.marks() == FEW
    assert topic.write(7, []) == [OutRecord(SETTINGS.topics.detector_marker, None, KEYS[0])]
    assert topic.write(8, []) == []


def test_further_parts_of_an_earlier_batch_are_ignored(topic: Topic) -> None:
    """A rebuild without a marker does not know how many there are."""
    topic.write(5, MANY)
    topic.marker = Marker("q", 5, {}, Pin(5, 0))
    assert topic.marks() == []
    topic.write(6, FEW)
    assert len(topic.values) == 3
    assert topic.marks() == FEW


def test_a_missing_part_is_named(topic: Topic) -> None:
    topic.write(5, MANY)
    del topic.values[KEYS[2]]
    with pytest.raises(CheckpointDamaged, match=r"record d/marks/2, which has marks of batch 5, is missing.*rebuild"):
        topic.marks()


@pytest.mark.parametrize(("query", "batch"), [("q", 4), ("q", 6), ("other", 5)])
def test_a_part_of_another_batch_is_named(query: str, batch: int, topic: Topic) -> None:
    topic.write(5, MANY)
    (topic.values[KEYS[1]],) = encode_parts(query, batch, FEW)
    with pytest.raises(CheckpointDamaged, match=rf"d/marks/1, .* is of batch {batch} of {query}, not of q\. .*rebuild"):
        topic.marks()


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b'{"queryId":"q","batchId":5,"marks":[[1]]}'])
def test_an_unreadable_part_is_named(text: bytes, topic: Topic) -> None:
    topic.write(5, FEW)
    topic.values[KEYS[0]] = text
    with pytest.raises(CheckpointDamaged, match=r"d/marks/0, .* is not readable: .*rebuild"):
        topic.marks()
