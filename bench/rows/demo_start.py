"""Measures `make demo`: the time to its first alert, and to the next alert after a kill of the detector's JVM."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.figures import Figure, Rows, Scale, at_most
from bench.lab import Lab
from bench.meters.recovery import IN_FLIGHT_MS
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import TopicNames
from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import follow, topic_ends, topic_starts
from fraud_rules.runtime.clock import now_ms
from fraud_rules.runtime.process import arguments_of
from tests.support.processes.supervised import demo_ports, project_at

_ALERTS = TopicNames().alerts
_PATIENCE_S = 900.0
_POLL_S = 0.1
_STOP_S = 180.0
_SETTLED_S = 20.0


def _measure(_: Lab | None, scale: Scale) -> Mapping[str, float]:
    project = Project.find()
    home = project.var / "bench" / f"demo-{uuid.uuid4().hex[:8]}"
    home.mkdir(parents=True)
    project_at(home, project.root)
    try:
        with _demo(project, home) as first:
            first_s = first.first_alert_s()
        with _demo(project, home) as second:
            second_s = second.first_alert_s()
            time.sleep(_SETTLED_S)
            return {"first_s": first_s, "second_s": second_s, "killed_s": second.killed_s()}
    finally:
        shutil.rmtree(home, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class _Demo:
    """A running `make demo` of the installation `home`. `started` is the time of the command (time.monotonic)."""

    process: subprocess.Popen[bytes]
    home: Path
    log: Path
    kafka: KafkaConnection
    started: float

    def first_alert_s(self) -> float:
        """The seconds from the command until a reader has the first alert."""
        return self._next_alert(self._starts(), 0) - self.started

    def killed_s(self) -> float:
        """The seconds from a kill -9 of the detector's JVM until a reader has the first alert after it."""
        ends, killed_ms, killed = topic_ends(self.kafka, _ALERTS), now_ms(), time.monotonic()
        self._jvm().kill()
        return self._next_alert(ends, killed_ms + IN_FLIGHT_MS) - killed

    def _starts(self) -> Mapping[int, int]:
        """Wait for the topic of the alerts, and return the starts of its partitions."""
        wanted = self._wanted()
        while wanted():
            with suppress(BrokerUnavailable, KeyError):
                return topic_starts(self.kafka, _ALERTS)
            time.sleep(_POLL_S)
        raise RuntimeError(f"{_ALERTS} was not created within {_PATIENCE_S:g} s, see {self.log}")

    def _next_alert(self, starts: Mapping[int, int], since_ms: int) -> float:
        """The time (time.monotonic) at which a reader has the first alert that was appended after `since_ms`."""
        for received in follow(self.kafka, {_ALERTS: starts}, goes_on=self._wanted(), poll_s=_POLL_S):
            if received is not None and received.record.append_ms > since_ms:
                return time.monotonic()
        raise RuntimeError(f"no alert came for {_PATIENCE_S:g} s, see {self.log}")

    def _wanted(self) -> Callable[[], bool]:
        """Whether to wait on. The function raises RuntimeError if the demo has ended."""
        deadline = time.monotonic() + _PATIENCE_S

        def wanted() -> bool:
            if self.process.poll() is not None:
                raise RuntimeError(f"make demo ended with {self.process.returncode}, see {self.log}")
            return time.monotonic() < deadline

        return wanted

    def _jvm(self) -> psutil.Process:
        marker = f"--settings={self.home / 'var' / 'demo'}/"
        drivers = [each for each in psutil.process_iter() if any(a.startswith(marker) for a in arguments_of(each))]
        found = {child for each in drivers for child in each.children(recursive=True) if child.name() == "java"}
        assert len(found) == 1, f"the detector has {len(found)} JVMs"
        return found.pop()


@contextmanager
def _demo(project: Project, home: Path) -> Iterator[_Demo]:
    """Run `make demo` for the installation in a folder, and stop it afterwards as Ctrl-C does."""
    port, controller_port, airflow_port = demo_ports()
    environ = {
        **os.environ,
        "FRAUD_HOME": str(home),
        "FRAUD_BROKER_PORT": str(port),
        "FRAUD_BROKER_CONTROLLER_PORT": str(controller_port),
        "FRAUD_AIRFLOW_PORT": str(airflow_port),
    }
    started = time.monotonic()
    log = project.var / "bench" / f"{home.name}.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            ["make", "demo"], cwd=project.root, env=environ, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield _Demo(process, home, log, KafkaConnection(f"localhost:{port}"), started)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)
        subprocess.run(["make", "stop"], cwd=project.root, env=environ, capture_output=True, check=False)


ROWS = (
    Rows(
        "demo_start",
        "`make demo`",
        "Broker, Airflow, agent, detector and traffic on this machine, twice. Then kill -9 of the detector's JVM. A "
        "part of each time is the wait for the next planted fraud.",
        (
            Figure("first_s", "the first `make demo` to the first alert", "s"),
            Figure("second_s", "the second `make demo` to the first alert", "s", at_most(60), promise=True),
            Figure("killed_s", "kill -9 of the JVM to the next alert", "s", at_most(20), promise=True),
        ),
        _measure,
        needs_broker=False,
    ),
)
