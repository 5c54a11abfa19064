"""The logs of several key groups, read from a real topic: each partition once, with the same result as each alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.consume import await_settled
from fraud_rules.kafka.writer import BatchWriter, OutRecord
from fraud_rules.logs.state_topic import HEAD, StateTopic
from fraud_rules.runtime.compression import compress
from fraud_rules.stream.worker.shared_read import SharedRead
from tests.support.kafka.own_topics import OwnTopics, delete_topics
from tests.support.kafka.state_topics import state_topics

pytestmark = [pytest.mark.integration]

KEY_GROUPS = range(6)
BATCHES = 5
PARTITIONS = 2


class Written:
    """A topic with the logs of several key groups, and of another detector."""

    def __init__(self, topics: OwnTopics) -> None:
        self.topic = StateTopic(topics.kafka, topics.names.detector_state, "cards", PARTITIONS)
        self._kafka = topics.kafka
        self._writer = BatchWriter(topics.kafka, "cards")
        self._writer.open()
        for batch in range(BATCHES):
            self.write(batch)

    def write(self, batch: int) -> None:
        """A batch replaces each head, adds a chunk, and deletes the chunk of two batches ago."""
        self._writer.write(each for group in KEY_GROUPS for each in self._records(group, batch))
        await_settled(self._kafka, [self.topic.topic])

    def _records(self, group: int, batch: int) -> Iterator[OutRecord]:
        chunk = compress(os.urandom(1_000))
        yield self._record("cards", group, f"chunk-{batch}", chunk)
        yield self._record("other", group, f"chunk-{batch}", chunk)
        yield self._record("cards", group, HEAD, compress(b"head %d of %d" % (batch, group)))
        if batch > 1:
            yield self._record("cards", group, f"chunk-{batch - 2}", None)

    def _record(self, detector: str, group: int, name: str, value: bytes | None) -> OutRecord:
        key = f"{detector}/{group}/{name}".encode()
        return OutRecord(self.topic.topic, value, key, partition=self.topic.partition_of(group))

    def alone(self, group: int) -> dict[str, bytes]:
        return self.topic.read(group)


@pytest.fixture
def written(broker: Broker, project: Project) -> Iterator[Written]:
    made = state_topics(broker, project)
    yield Written(made)
    delete_topics(made.kafka, made.declared)


def test_each_log_is_the_same_as_alone_and_each_partition_is_read_once(written: Written, tmp_path: Path) -> None:
    sizes: list[int] = []
    with SharedRead(written.topic, KEY_GROUPS, lambda: tmp_path) as shared:
        found = {group: shared.read(group, 0, sizes.append) for group in KEY_GROUPS}
    assert found == {group: written.alone(group) for group in KEY_GROUPS}
    assert found[3].keys() == {HEAD, "chunk-3", "chunk-4"}
    once: list[int] = []
    for partition in range(PARTITIONS):
        list(written.topic.records(partition, 0, once.append))
    assert sizes == once
    assert not list(tmp_path.iterdir()), "the files have no names"


def test_records_that_come_meanwhile_count(written: Written, tmp_path: Path) -> None:
    with SharedRead(written.topic, KEY_GROUPS, lambda: tmp_path) as shared:
        first = shared.read(0, 0, lambda _: None)
        written.write(BATCHES)
        assert shared.read(2, 0, lambda _: None) == written.alone(2)
        assert shared.read(0, 0, lambda _: None) == written.alone(0) != first, "a second read is a whole one"


def test_only_the_key_groups_of_the_task_are_kept(written: Written, tmp_path: Path) -> None:
    with SharedRead(written.topic, [0, 4], lambda: tmp_path) as shared:
        assert shared.read(0, 0, lambda _: None) == written.alone(0)
        assert shared.read(4, 0, lambda _: None) == written.alone(4)
        assert shared.read(2, 0, lambda _: None) == written.alone(2)


def test_a_catch_up_reads_the_topic(written: Written, tmp_path: Path) -> None:
    def no_folder() -> Path:
        raise AssertionError("nothing is kept")

    (partition,) = {written.topic.partition_of(group) for group in (1, 3)}
    start = list(written.topic.records(partition, 0))[-1].offset
    with SharedRead(written.topic, KEY_GROUPS, no_folder) as shared:
        assert shared.read(1, start, lambda _: None) == written.topic.read(1, start)
