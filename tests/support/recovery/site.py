"""A detector under load, and all its starts."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from fraud_rules.configuration.project import Project
from fraud_rules.kafka.consume import topic_ends
from tests.support.kafka.own_topics import OwnTopics
from tests.support.processes.running_detector import Installation, RunningDetector
from tests.support.recovery.load import Load
from tests.support.recovery.traffic import FUTURE_TOLERANCE_MS, OUT_OF_ORDERNESS_MS
from tests.support.recovery.watch import Watch
from tests.support.waiting import until

RATE = 40.0


class Site:
    """One installation. `settings` override the defaults of its detector."""

    def __init__(self, home: Path, project: Project, topics: OwnTopics, seed: int, **settings: Any) -> None:
        self.installation = Installation.make(
            home,
            project,
            topics,
            max_out_of_orderness_ms=OUT_OF_ORDERNESS_MS,
            future_tolerance_ms=FUTURE_TOLERANCE_MS,
            tick_ms=500,
            **settings,
        )
        self.watch = Watch(self.installation)
        self.load = Load(topics, seed, RATE)
        self.starts: list[RunningDetector] = []

    def start(self, *flags: str) -> RunningDetector:
        self.starts.append(RunningDetector(self.installation, *flags))
        return self.starts[-1]

    def finish(self) -> None:
        """Wait until the last start has read the remaining records, and drain it."""
        self.load.finish()
        names, kafka = self.installation.topics.names, self.installation.topics.kafka
        transactions, rules = topic_ends(kafka, names.transactions), topic_ends(kafka, names.rules)
        until(lambda: self.watch.ends == transactions and self.watch.rules_end == rules[0], "everything is read")
        assert self.starts[-1].stop() == 0, self.starts[-1].said()[-2000:]

    @contextmanager
    def working(self, rows: int) -> Iterator[Self]:
        """Run the load, with `rows` transactions at the full rate."""
        with self.watch, self.load:
            self.load.allow(rows)
            try:
                yield self
            finally:
                for detector in self.starts:
                    detector.signal_all(signal.SIGCONT)
                    detector.kill()
