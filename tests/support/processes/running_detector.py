"""A detector as a supervisor runs it: `spark_jobs/detector.py` as a separate process, on a test's own topics."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import psutil
import yaml

from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings, TopicNames
from fraud_rules.logs.detector_status import BatchProgress, decode_progress
from fraud_rules.runtime.process import start_detached
from fraud_rules.spark.spark_home import spark_home
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import read_all
from tests.support.kafka.timed_topics import detector_has_started, detector_starts
from tests.support.processes.ends import await_end
from tests.support.processes.signals import send_signal
from tests.support.waiting import until

START_S = 180.0


def local_spark() -> dict[str, str]:
    """The variables of a local Spark: the class archive is valid for the shared home, but not for one below TMPDIR."""
    return {"SPARK_HOME": str(spark_home())}


@dataclass(frozen=True, slots=True)
class Installation:
    """The configuration of one detector. All its files are below `home`; `extra` is added to its environment, and
    `before` are words before its command, which run it on another host."""

    home: Path
    project: Project
    topics: OwnTopics
    settings: DetectorSettings
    schema: Path
    extra: Mapping[str, str] = field(default_factory=dict)
    before: tuple[str, ...] = ()

    @classmethod
    def make(
        cls, home: Path, project: Project, topics: OwnTopics, schema: Path | None = None, **settings: Any
    ) -> Installation:
        """Create an installation with these settings; all others have their defaults."""
        home.mkdir(parents=True, exist_ok=True)
        (home / "tmp").mkdir(exist_ok=True)
        names = {role.name: getattr(topics.names, role.name) for role in fields(TopicNames)}
        file = home / "detector.yaml"
        members = {"producer_times": topics.timed, **settings, "topics": names}
        file.write_text(yaml.safe_dump(members), encoding="utf-8")
        parsed = DetectorSettings.load(file, environ={})
        return cls(home, project, topics, parsed, schema or project.config / "schema.yaml")

    def arguments(self, *flags: str) -> list[str]:
        """The detector's arguments. Spark tries tasks four times, so that one killed worker does not end the driver."""
        return [
            "--bootstrap", self.topics.bootstrap,
            "--settings", str(self.home / "detector.yaml"),
            "--schema", str(self.schema),
            "--master", "local[2,4]",
            *flags,
        ]  # fmt: skip

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its processes: its own temporary folder, and no overrides of the settings file."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("FRAUD_")}
        return {**inherited, "TMPDIR": str(self.home / "tmp"), **self.extra}

    def progress(self) -> list[BatchProgress]:
        """Read the progress of every batch with committed outputs."""
        messages = read_all(self.topics.bootstrap, self.topics.names.detector_progress)
        return [decode_progress(message.value()) for message in messages]

    def has_read(self, ends: Mapping[int, int], rules_end: int) -> bool:
        """Whether the newest batch has read up to these ends of transactions and rules."""
        progress = self.progress()
        read = progress[-1].ends_of(self.topics.names.transactions) if progress else {}
        return (
            bool(progress)
            and all(read.get(partition, 0) >= end for partition, end in ends.items())
            and progress[-1].rules_end >= rules_end
        )


class RunningDetector:
    """One start of a detector, in its own session."""

    def __init__(self, installation: Installation, *flags: str) -> None:
        self.installation = installation
        self.log = installation.home / "detector.log"
        self._said_from = self.log.stat().st_size if self.log.exists() else 0
        detector_starts(installation.topics)
        entry = str(installation.project.root / "spark_jobs" / "detector.py")
        command = [*installation.before, sys.executable, entry, *installation.arguments(*flags)]
        environment = {**({} if "--master" in flags else local_spark()), **installation.environment}
        self.process = start_detached(command, self.log, environment=environment)

    def said(self) -> str:
        """The log of this start."""
        with self.log.open("rb") as log:
            log.seek(self._said_from)
            return log.read().decode("utf-8", "replace")

    @property
    def exit_code(self) -> int | None:
        return self.process.poll()

    def is_ready(self) -> bool:
        """Check whether the query runs. Fails if the detector has ended."""
        ended = self.exit_code
        assert ended is None, f"the detector ended with {ended}: {self.said()[-2000:]}"
        return "detector: running" in self.said()

    def wait_ready(self) -> None:
        until(self.is_ready, "the detector runs", START_S)
        detector_has_started(self.installation.topics)

    def wait_end(self, timeout_s: float = START_S) -> int:
        """Wait until the detector has ended by itself and return its exit code."""
        return await_end(self.process, self.said, timeout_s)

    def stop(self) -> int:
        """Drain the detector and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.wait_end()
        self.kill()
        return code

    def signal_all(self, number: int) -> None:
        """Send a signal to every process of the detector: driver, JVM, Python workers."""
        send_signal(self.members(), number)

    def suspend(self) -> None:
        """Suspend every process of the detector, at a moment at which no worker holds the lock of a view.

        A suspended process keeps its locks, and another detector of this host waits for them.
        """

        def is_suspended() -> bool:
            self.signal_all(signal.SIGSTOP)
            if not _hold_locks(self.python_workers()):
                return True
            self.signal_all(signal.SIGCONT)
            return False

        until(is_suspended, "the detector is suspended between two evaluations", every_s=0.003)

    def kill(self) -> None:
        """Kill every process of the detector, and wait until all are gone."""
        kill_session(self.process)

    def members(self) -> list[psutil.Process]:
        """The running processes of the detector."""
        return members_of(self.process.pid)

    def jvm(self) -> psutil.Process | None:
        """The JVM of the driver; None if it does not run."""
        return jvm_of(self.process.pid)

    def python_workers(self) -> list[psutil.Process]:
        """The Python workers that evaluate."""
        jvm = self.jvm()
        return [] if jvm is None else workers_of(jvm)


def workers_of(jvm: psutil.Process) -> list[psutil.Process]:
    """The Python workers of a JVM of Spark."""
    try:
        daemons = [child for child in jvm.children() if _name(child).startswith("python")]
        return [worker for daemon in daemons for worker in daemon.children()]
    except psutil.Error:
        return []


def members_of(session: int) -> list[psutil.Process]:
    """The running processes of a session. Spark's Python workers have their own process group."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, ProcessLookupError):
            continue
    return found


def jvm_of(session: int) -> psutil.Process | None:
    """The JVM of a session; None if it does not run."""
    return next((process for process in members_of(session) if _name(process) == "java"), None)


def kill_session(leader: subprocess.Popen[bytes]) -> None:
    """Kill every process of a session, and wait until all are gone."""

    def is_gone() -> bool:
        leader.poll()
        members = members_of(leader.pid)
        send_signal(members, signal.SIGKILL)
        return not members

    until(is_gone, "every process of the detector is gone")
    leader.wait()


def _hold_locks(processes: Iterable[psutil.Process]) -> bool:
    """Whether one of these processes holds a lock on a file."""
    pids = {process.pid for process in processes}
    locks = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()]
    return any(int(words[4]) in pids for words in locks if words[1] == "FLOCK")


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return ""
