"""The environment of measurements: one broker, and for each session its own topics and detector."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.detector import Detector, command
from bench.inputs.rulesets import Document, encoded
from bench.meters.pauses import logging_to
from fraud_rules.configuration.project import Project
from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.broker import OPTIMIZED, Broker
from fraud_rules.kafka.consume import ReceivedRecord, follow, read_topic, tail_of, topic_ends, topic_starts
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.logs.rule_status import await_operations
from tests.support.kafka.own_topics import OwnTopics, create_topics, delete_topics
from tests.support.ports import free_ports

_PATIENCE_S = 300.0
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Lab:
    """A running broker, and a folder for the files of the sessions. `broker_is_warm` is set once the broker's JVM has
    compiled what a steady load needs."""

    project: Project
    broker: Broker
    home: Path
    broker_is_warm: threading.Event = field(default_factory=threading.Event)

    @classmethod
    @contextmanager
    def open(cls, project: Project) -> Iterator[Lab]:
        """Open a lab with its own broker and disk, and remove both afterwards. The logs stay."""
        home = project.var / "bench" / uuid.uuid4().hex[:8]
        home.mkdir(parents=True)
        broker = Broker(home / "broker", *free_ports(2), project, OPTIMIZED)
        try:
            broker.start()
            yield cls(project, broker, home)
        finally:
            broker.stop()
            shutil.rmtree(home / "broker", ignore_errors=True)

    @contextmanager
    def session(self, name: str) -> Iterator[Session]:
        """Open a session with its own topics. Afterwards stop its detector and remove them."""
        topics = create_topics(self.broker, self.project, prefix=f"{name}-{uuid.uuid4().hex[:6]}-")
        session = Session(self, topics)
        try:
            yield session
        finally:
            session.stop()
            session.remove_files()
            with suppress(BrokerUnavailable):
                delete_topics(self.broker.kafka, topics.declared)


class Session:
    """The topics of one measurement, and the detector on them."""

    def __init__(self, lab: Lab, topics: OwnTopics) -> None:
        self.project = lab.project
        self.bootstrap, self.kafka, self.names = topics.bootstrap, topics.kafka, topics.names
        self.files = lab.home / f"{topics.prefix}session"
        """The path that begins the names of all files of the session."""
        self.environ = {**topics.environment, "FRAUD_DETECTOR": topics.prefix.rstrip("-")}
        self._starts = 0
        self.detector: Detector | None = None

    @property
    def running(self) -> Detector:
        """The started detector."""
        assert self.detector is not None
        return self.detector

    def apply(self, rules: tuple[Document, ...]) -> list[int]:
        """Append rules to the rule log, and return their versions."""
        return append_records(self.kafka, self.names.rules, encoded(rules))

    def await_live(self, versions: list[int]) -> None:
        """Return once the detector has reported all of these versions live."""
        reports = await_operations(self.kafka, self.names.rule_operations, set(versions), _PATIENCE_S)
        missing = [version for version in versions if version not in reports]
        rejected = [report for report in reports.values() if report.rejected]
        assert not missing, f"rules without a report: {missing[:3]}"
        assert not rejected, f"rules rejected: {rejected[:3]}"

    def launch(self, *further: str) -> Detector:
        """Start the detector's process and return at once. `further` are more arguments."""
        self._starts += 1
        log = self.files.with_suffix(f".{self._starts}.log")
        arguments = ["--bootstrap", self.bootstrap, *logging_to(self.pause_log)]
        arguments += further
        self.detector = Detector(self.project, arguments, self.environ, log)
        return self.detector

    def steady(self, rate: float, seconds: float, id_base: int = 0) -> AbstractContextManager[subprocess.Popen[str]]:
        """Send transactions at a rate, from a process of their own that ends with the block or after some seconds."""
        to = ["--bootstrap", self.bootstrap, "--topic", self.names.transactions, "--id-base", str(id_base)]
        return command("bench.inputs.producing", *to, "--rate", str(rate), "--seconds", str(seconds))

    @property
    def pause_log(self) -> Path:
        """The JVM's log of garbage collection pauses, of the newest start."""
        return self.files.with_suffix(f".{self._starts}.gc.log")

    def start(self, rules: tuple[Document, ...], *further: str) -> None:
        """Start the detector and return once these rules are live. `further` are more arguments."""
        versions = self.apply(rules)
        self.launch(*further).await_ready()
        self.await_live(versions)

    def stop(self) -> None:
        """Stop the detector if it runs."""
        if self.detector is not None:
            self.detector.stop()
            self.detector = None

    def remove_files(self) -> None:
        """Remove the workers' views."""
        for folder in self.views():
            shutil.rmtree(folder, ignore_errors=True)

    def views(self) -> list[Path]:
        """The folders of the workers' views."""
        from fraud_rules.stream.worker.views import views_of

        return views_of(self.environ["FRAUD_DETECTOR"])

    def progress(self, last: int = 1) -> list[dict[str, Any]]:
        """The newest progress records, oldest first."""
        records = tail_of(self.kafka, self.names.detector_progress, 2 * last)
        return [json.loads(record.value) for record in records if record.value is not None][-last:]

    def await_evaluated(self, transactions: int) -> dict[str, Any]:
        """Return the progress record of the batch after which this many transactions are evaluated."""
        records = self.received(self.names.detector_progress, from_start=True)
        evaluated = 0
        while True:
            record: dict[str, Any] = json.loads(next(records).record.value or b"{}")
            evaluated += record["rows"] + record["quarantined"]
            if evaluated >= transactions:
                return record

    def received(self, *topics: str, from_start: bool = False) -> Iterator[ReceivedRecord]:
        """Yield committed records as they become visible, from the topics' starts or current ends. Raises RuntimeError
        if no record comes for too long, or if the detector has ended."""
        places = topic_starts if from_start else topic_ends
        return self._received({topic: places(self.kafka, topic) for topic in topics})

    def _received(self, starts: Mapping[str, Mapping[int, int]]) -> Iterator[ReceivedRecord]:
        deadline = time.monotonic() + _PATIENCE_S

        def wanted() -> bool:
            self.running.check()
            return time.monotonic() < deadline

        for received in follow(self.kafka, starts, goes_on=wanted, poll_s=_POLL_S):
            if received is not None:
                yield received
                deadline = time.monotonic() + _PATIENCE_S
        raise RuntimeError(f"no record came on {', '.join(starts)} for {_PATIENCE_S:g} s")

    def alerts(self) -> list[tuple[int, dict[str, Any]]]:
        """(append time, alert) of every committed alert."""
        records = [each for part in read_topic(self.kafka, self.names.alerts, settled=True).values() for each in part]
        return [(each.append_ms, json.loads(each.value)) for each in records if each.value is not None]
