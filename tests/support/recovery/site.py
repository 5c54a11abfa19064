"""A detector under load, and all its starts."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from fraud_rules.configuration.project import Project
from fraud_rules.errors import BrokerUnavailable, DetectorFailed
from fraud_rules.kafka.consume import topic_ends
from tests.support.kafka.own_topics import OwnTopics
from tests.support.processes.running_detector import Installation, RunningDetector
from tests.support.recovery.load import Load
from tests.support.recovery.rule_members import schema_with_account
from tests.support.recovery.traffic import FUTURE_TOLERANCE_MS, OUT_OF_ORDERNESS_MS
from tests.support.recovery.verdict import differences
from tests.support.recovery.watch import Watch
from tests.support.waiting import until

RATE = 40.0
LOST_BROKER = (BrokerUnavailable.exit_code, DetectorFailed.exit_code)
"""The exit codes of a detector that lost its broker. Spark reports an error in its own part as DetectorFailed."""

_BATCHES_S = 400.0


class Site:
    """One installation. `settings` override the defaults of its detector."""

    def __init__(self, home: Path, project: Project, topics: OwnTopics, seed: int, **settings: Any) -> None:
        self.installation = Installation.make(
            home,
            project,
            topics,
            schema_with_account(home, project),
            limits={"detail_minutes": 0},
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

    def await_work(self, count: int = 3) -> None:
        """Wait for more batches. Fails at once if no detector runs."""
        known = self.watch.batch_id

        def are_written() -> bool:
            if self.watch.batch_id >= known + count:
                return True
            assert any(each.exit_code is None for each in self.starts), self.starts[-1].said()[-2000:]
            return False

        until(are_written, f"{count} more batches are written", _BATCHES_S)

    def await_work_supervised(self, count: int = 3) -> None:
        """Wait for more batches. As a supervisor does, start a detector again that lost its broker."""
        known = self.watch.batch_id

        def are_written() -> bool:
            last = self.starts[-1]
            if last.exit_code is not None:
                assert last.exit_code in LOST_BROKER, last.said()[-2000:]
                last.kill()
                self.start()
            return self.watch.batch_id >= known + count

        until(are_written, f"{count} more batches are written", _BATCHES_S)

    def finish(self) -> None:
        """Wait until the last start has read the remaining records, and drain it."""
        self.load.finish()
        names, kafka = self.installation.topics.names, self.installation.topics.kafka
        transactions, rules = topic_ends(kafka, names.transactions), topic_ends(kafka, names.rules)
        until(lambda: self.watch.ends == transactions and self.watch.rules_end == rules[0], "everything is read")
        assert self.starts[-1].stop() == 0, self.starts[-1].said()[-2000:]

    def check_outputs(self) -> dict[str, int]:
        """Compare everything that was written with the oracle. Return the number of records of each kind."""
        found, counts = differences(self.installation, self.load.traffic.documents)
        assert not found, "\n".join(found)
        assert counts["alerts"] > 0
        return counts

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
