"""Evaluates batches of one key group as driver and tasks do, without Spark. The state is in a real topic."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from fraud_rules.configuration.settings import TopicNames
from fraud_rules.engine.engine import KeyGroupEngine
from fraud_rules.engine.state.store import MappedViews
from fraud_rules.engine.warm_up import WarmHistory
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.writer import BatchWriter, OutRecord
from fraud_rules.logs.state_topic import StateTopic
from fraud_rules.model.output import KeyGroupOutput, ViewRefresh
from fraud_rules.stream.batch_order import BatchOrder
from fraud_rules.stream.checkpoint.marker import Marker
from fraud_rules.stream.driver.records import state_records
from fraud_rules.stream.driver.state_guard import new_position
from fraud_rules.stream.pins import NO_PIN, Pin
from fraud_rules.stream.worker.host_files import HostFiles
from fraud_rules.stream.worker.state_log import StateDelta, TaskStateLog
from tests.support.rules import SCHEMA
from tests.support.streams.packed import SETTINGS, comparable, timeline

Answer = tuple[object, ...]


class Host:
    """The views and log files of one host."""

    def __init__(self, home: Path) -> None:
        self.log, self._views = home / "log", home / "views"

    def views(self) -> MappedViews:
        """The views, as a new process opens them."""
        return MappedViews(self._views, SCHEMA)

    def opened_log(self) -> HostFiles:
        """The files of the log, as a new process opens them."""
        files = HostFiles(self.log)
        files.refresh()
        return files

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


class Fetched:
    """Counts the bytes that a task reads from the topic, and the events of its view, a `TaskProgress`."""

    def __init__(self) -> None:
        self.size_bytes = self.events = 0

    def fetched(self, size_bytes: int) -> None:
        """Add bytes."""
        self.size_bytes += size_bytes

    def restored(self, events: int) -> None:
        """Add events."""
        self.events += events

    def evaluated(self, rows: int) -> None:
        """See `TaskProgress`."""


class StateDriver:
    """A detector with one key group. `position` is the state after its last written batch. `refreshed`,
    `fetched_bytes` and `restored` belong to the last task."""

    def __init__(self, kafka: KafkaConnection, names: TopicNames, detector: str, home: Path) -> None:
        self.kafka = kafka
        self.settings = replace(SETTINGS, detector=detector, topics=names)
        self.position = new_position(kafka, self.settings)
        self.topic = StateTopic(kafka, names.detector_state, detector, self.position.partitions)
        self.host = Host(home / detector)
        self.batch_id = self.fetched_bytes = self.restored = 0
        self.refreshed = ViewRefresh.NONE
        self._writer = self.writer()

    def writer(self) -> BatchWriter:
        """Fence the earlier writer, as a new driver does."""
        self._with_orphans = {0}
        self._writer = BatchWriter(self.kafka, f"fraud-rules-{self.settings.detector}")
        self._writer.open()
        return self._writer

    def task(
        self, blob: bytes, host: Host | None = None, histories: Sequence[WarmHistory] = ()
    ) -> tuple[Answer, StateDelta]:
        """Run the task of the next batch, which adds these warm histories."""
        output, log = self.evaluated(blob, host, histories)
        delta = log.delta()
        assert delta is not None
        if log.has_sent:
            self.topic.flush_chunks()
        return comparable(output), delta

    def evaluated(
        self, blob: bytes, host: Host | None = None, histories: Sequence[WarmHistory] = ()
    ) -> tuple[KeyGroupOutput, TaskStateLog]:
        """Run the task of the next batch until it sends chunks."""
        host, fetched = host or self.host, Fetched()
        state = self.position.after({}, self._ends())
        start = BatchOrder(NO_PIN, state.versions, state.ends, sorted(self._with_orphans)).task_state(0)
        log = TaskStateLog(0, start, host.opened_log, self.topic, fetched)
        engine = KeyGroupEngine(0, SCHEMA, self.settings, log, host.views(), progress=fetched)
        output = engine.process([blob], timeline(), self.batch_id, 0, histories)
        self.refreshed, self.fetched_bytes, self.restored = output.refreshed, fetched.size_bytes, fetched.events
        return output, log

    def records(self, delta: StateDelta) -> Iterable[OutRecord]:
        """The records of the next batch's transaction: the change of the state, and the marker."""
        names = self.settings.topics
        self.position = self.position.after({delta.key_group: delta.version}, self._ends())
        marker = Marker("query", self.batch_id, {}, Pin(self.batch_id, 0), state=self.position)
        yield from state_records([delta], self.topic)
        yield OutRecord(names.detector_marker, marker.encode(), self.settings.detector.encode())

    def _ends(self) -> dict[int, int]:
        return self._writer.ends.get(self.settings.topics.detector_state, {})

    def evaluate(self, blob: bytes, host: Host | None = None, histories: Sequence[WarmHistory] = ()) -> Answer:
        """Run the task of the next batch, and write its outputs."""
        answer, delta = self.task(blob, host, histories)
        self._writer.write(self.records(delta))
        self.batch_id += 1
        self._with_orphans.clear()
        return answer
