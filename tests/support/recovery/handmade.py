"""A detector whose batches a test writes by hand, on a real broker: its marker, its progress, and its starts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import msgspec
import pytest
from pyspark.sql import SparkSession

from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import FraudError, OffsetsLost
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.consume import await_settled
from fraud_rules.kafka.reader import TopicReader, topic_ids
from fraud_rules.kafka.writer import BatchWriter, OutRecord, last_record
from fraud_rules.model.output import MarkUpdate
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.spark.session import SparkOptions, build_session
from fraud_rules.spark.shutdown import stop_spark
from fraud_rules.stream.checkpoint.mark_parts import encode_parts, part_records
from fraud_rules.stream.checkpoint.marker import Marker
from fraud_rules.stream.driver.admission import Admission, admit, check
from fraud_rules.stream.driver.job import DetectorJob
from fraud_rules.stream.driver.state_guard import new_position
from fraud_rules.stream.pins import Pin
from fraud_rules.stream.work import WorkReport
from tests.support.kafka.own_topics import OwnTopics, own_topics
from tests.support.kafka.records import produce
from tests.support.kafka.state_damage import recreate, remove_records

QUERY: Final = "5b8bf551-4353-4c42-9e48-d17a75685ffe"
READ: Final = 60
THERE: Final = 100
"""Offsets of partition 0: the end of the finished batches, and the end of the topic."""

_READ_AND_WRITTEN: Final = (
    "transactions", "rules", "rule_operations", "detector_marker", "detector_progress", "detector_state",
)  # fmt: skip


class HandmadeSite:
    """A detector that has read `READ` of `THERE` transactions in two batches, and was stopped."""

    def __init__(self, topics: OwnTopics, project: Project, session: Callable[[], SparkSession]) -> None:
        self.topics, self._session, self._parts = topics, session, 0
        settings = DetectorSettings(detector=topics.prefix.rstrip("-"), topics=topics.names)
        schema = TransactionSchema.load(project.config / "schema.yaml")
        self.job = DetectorJob(settings, schema, topics.kafka, SparkOptions())
        self._writer = BatchWriter(topics.kafka, topics.prefix + "test")
        self._writer.open()
        produce(topics.bootstrap, topics.names.transactions, [b"{}"] * THERE, partition=0)
        self.send(0, 30)
        self.write(1, READ)

    def ends(self, read: int) -> dict[str, dict[str, int]]:
        names = self.topics.names
        return {names.transactions: {"0": read, "1": 0}, names.rules: {"0": 0}}

    def write(self, batch: int, read: int, marks: Sequence[MarkUpdate] = ()) -> None:
        self.send(batch, read, marks)
        await_settled(self.topics.kafka, [self.topics.names.detector_marker, self.topics.names.detector_progress])

    def write_progress(self, batch: int, read: int) -> None:
        """Write only the progress record of a batch."""
        record = json.dumps(self.progress(batch, read)).encode()
        detector = self.job.settings.detector.encode()
        produce(self.topics.bootstrap, self.topics.names.detector_progress, [record], key=detector)

    def progress(self, batch: int, read: int) -> dict[str, Any]:
        return {"queryId": QUERY, "batchId": batch, "endOffsets": self.ends(read), "rulesEnd": 0}

    def send(self, batch: int, read: int, marks: Sequence[MarkUpdate] = ()) -> None:
        names, detector = self.topics.names, self.job.settings.detector.encode()
        ids = topic_ids(self.topics.kafka, [names.transactions, names.rules])
        state = new_position(self.topics.kafka, self.job.settings)
        parts = encode_parts(QUERY, batch, marks)
        ends, pin = self.ends(read), Pin(batch, 0)
        marker = Marker(QUERY, batch, ends, pin, topics=ids, state=state, mark_parts=len(parts))
        progress = self.progress(batch, read)
        self._writer.write(
            [
                OutRecord(names.detector_progress, json.dumps(progress).encode(), detector),
                *part_records(parts, self._parts, self.job.settings),
                OutRecord(names.detector_marker, marker.encode(), detector),
            ]
        )
        self._parts = len(parts)

    def remove_up_to(self, offset: int) -> None:
        remove_records(self.topics, self.topics.names.transactions, offset)

    def recreate(self, name: str) -> None:
        recreate(self.topics, name)

    def start(self, **options: Any) -> Admission:
        job = replace(self.job, **options)
        with TopicReader(job.kafka, job.settings.topics.rules) as rules:
            return admit(job, rules, WorkReport(), self._session)

    def refusal(self, error: type[FraudError] = OffsetsLost, **options: Any) -> str:
        """The reason why a start and its check are refused. Neither changes anything."""
        before = self.marker()
        with pytest.raises(error) as checked:
            check(replace(self.job, **options))
        with pytest.raises(error):
            self.start(**options)
        assert self.marker() == before
        return str(checked.value)

    def marker(self) -> Marker:
        await_settled(self.topics.kafka, [self.topics.names.detector_marker])
        text = last_record(self.topics.kafka, self.topics.names.detector_marker, self.job.settings.detector.encode())
        assert text is not None
        return Marker.decode(text)


def later(marker: Marker, starts: int = 1) -> Marker:
    """The marker after further starts without a batch."""
    return msgspec.structs.replace(marker, starts=marker.starts + starts)


@pytest.fixture(scope="package")
def session() -> Iterator[Callable[[], SparkSession]]:
    """A session for all rebuilds of a folder, which the first one builds."""
    built: list[SparkSession] = []

    def spark() -> SparkSession:
        if not built:
            built.append(build_session(SparkOptions()))
        return built[0]

    yield spark
    for each in built:
        stop_spark(each)


@contextmanager
def handmade_site(broker: Broker, project: Project, session: Callable[[], SparkSession]) -> Iterator[HandmadeSite]:
    """A detector on its own topics, which are deleted at the end of the block. Only its rebuilds use Spark."""
    with own_topics(broker, project, _READ_AND_WRITTEN) as topics:
        yield HandmadeSite(topics, project, session)
