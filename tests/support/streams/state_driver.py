"""Evaluates batches of one key group as driver and tasks do, without Spark. The state is in a real topic."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from fraud_rules.configuration.settings import TopicNames
from fraud_rules.engine.engine import KeyGroupEngine
from fraud_rules.engine.state.store import MappedViews
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.writer import BatchWriter, OutRecord
from fraud_rules.logs.state_topic import StateTopic
from fraud_rules.stream.driver.marker import Marker
from fraud_rules.stream.driver.records import state_records
from fraud_rules.stream.driver.state_guard import new_position
from fraud_rules.stream.pins import Pin
from fraud_rules.stream.worker.host_files import HostFiles
from fraud_rules.stream.worker.state_log import StateDelta, TaskStateLog
from tests.support.streams.packed import SCHEMA, SETTINGS, comparable, timeline

Answer = tuple[object, ...]


class Host:
    """The views and log files of one host."""

    def __init__(self, home: Path) -> None:
        self.log, self._views = home / "log", home / "views"

    def views(self) -> MappedViews:
        """The views, as a new process opens them."""
        return MappedViews(self._views, SCHEMA)

    def files(self) -> list[Path]:
        """The files of the log, in a fixed order."""
        return sorted(self.log.iterdir()) if self.log.exists() else []

    def lose_views(self) -> None:
        """Remove the views."""
        shutil.rmtree(self._views, ignore_errors=True)

    def lose(self) -> None:
        """Remove the views and the files of the log."""
        self.lose_views()
        shutil.rmtree(self.log, ignore_errors=True)


class StateDriver:
    """A detector with one key group. `position` is the state after its last written batch."""

    def __init__(self, kafka: KafkaConnection, names: TopicNames, detector: str, home: Path) -> None:
        self.kafka = kafka
        self.settings = replace(SETTINGS, detector=detector, topics=names)
        self.position = new_position(kafka, self.settings)
        self.topic = StateTopic(kafka, names.detector_state, detector, self.position.partitions)
        self.host = Host(home / detector)
        self.batch_id = 0
        self._writer = self.writer()

    def writer(self) -> BatchWriter:
        """Fence the earlier writer, as a new driver does."""
        self._writer = BatchWriter(self.kafka, f"fraud-rules-{self.settings.detector}")
        self._writer.open()
        return self._writer

    def task(self, blob: bytes, host: Host | None = None) -> tuple[Answer, StateDelta]:
        """Run the task of the next batch."""
        host = host or self.host
        log = TaskStateLog(0, self.position.versions[0], lambda: HostFiles(host.log), self.topic)
        engine = KeyGroupEngine(0, SCHEMA, self.settings, log, host.views())
        output = engine.process([blob], timeline(), self.batch_id, 0)
        delta = log.delta()
        assert delta is not None
        if log.has_sent:
            self.topic.flush_chunks()
        return comparable(output), delta

    def records(self, delta: StateDelta) -> Iterable[OutRecord]:
        """The records of the next batch's transaction: the change of the state, and the marker."""
        names = self.settings.topics
        ends = self._writer.ends.get(names.detector_state, {})
        self.position = self.position.after({delta.key_group: delta.version}, ends)
        marker = Marker("query", self.batch_id, {}, Pin(self.batch_id, 0), state=self.position)
        yield from state_records([delta], self.topic)
        yield OutRecord(names.detector_marker, marker.encode(), self.settings.detector.encode())

    def evaluate(self, blob: bytes, host: Host | None = None) -> Answer:
        """Run the task of the next batch, and write its outputs."""
        answer, delta = self.task(blob, host)
        self._writer.write(self.records(delta))
        self.batch_id += 1
        return answer
