"""An agent as a separate process, and stand-ins for its detectors: wheels with a module `detector`."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import psutil

from fraud_rules.configuration.project import Project
from fraud_rules.deploy.agent.home import AgentHome
from fraud_rules.deploy.agent.members import kill_members, members
from fraud_rules.deploy.attempt import AttemptPhase, AttemptStatus, DeploymentReports
from fraud_rules.deploy.deployment_log import append_intent, read_deployment, read_intent_log
from fraud_rules.deploy.intent import Intent, IntentKind, IntentRecord
from fraud_rules.deploy.intent_keys import IntentKeys
from fraud_rules.deploy.local import release_of
from fraud_rules.deploy.release import Release
from fraud_rules.runtime.process import kill_session, start_detached
from tests.support.kafka.own_topics import OwnTopics
from tests.support.processes.ends import await_end
from tests.support.waiting import until

DETECTOR = "detector"
ALLOW = """
masters: ["*"]
wheel_folders: ["{folder}"]
kafka_properties: [{properties}]
spark_settings: [spark.executor.memory, spark.driver.host, spark.driver.bindAddress]
"""
NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")

_STAND_IN = """
import os, signal, subprocess, sys, time

OBEYS, REFUSES = {obeys}, {refuses!r}

def main():
    if "--check" in sys.argv:
        if REFUSES:
            sys.stderr.write("detector: " + REFUSES + "\\n")
            return 9
        return 0
    if OBEYS:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    else:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # Like Spark's Python workers: its own process group, and it ignores SIGTERM.
    subprocess.Popen([sys.executable, "-c", "import os, signal, time; os.setpgid(0, 0); "
                      "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"])
    hold = [word.removeprefix("--hold=") for word in sys.argv if word.startswith("--hold=")]
    if hold:
        sys.stderr.write("detector: ready\\n")
        sys.stderr.flush()
    while hold and not os.path.exists(hold[0]):
        time.sleep(0.05)
    sys.stderr.write("detector: running\\n")
    sys.stderr.flush()
    while True:
        time.sleep(0.05)

if __name__ == "__main__":
    sys.exit(main())
"""

_STARTING = """
import json, os, signal, sys, time

def main():
    if "--check" in sys.argv:
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    restored = 0
    while True:
        now_ms = time.time_ns() // 1_000_000
        work = {{"phase": "STATE", "sinceMs": now_ms, "changedMs": now_ms, "done": restored, "total": 9_000_000,
                 "unit": "events"}}
        if restored == 0 or {moves}:
            with open(os.environ["FRAUD_WORK"] + ".new", "w") as file:
                json.dump(work, file)
            os.replace(os.environ["FRAUD_WORK"] + ".new", os.environ["FRAUD_WORK"])
            restored += 1_000
        time.sleep(0.05)

if __name__ == "__main__":
    sys.exit(main())
"""


def never_started(path: Path, *, moves: bool) -> Path:
    """Build a wheel whose detector restores state forever; with `moves` it reports progress."""
    return stand_in(path, source=_STARTING.format(moves=moves))


def stand_in(path: Path, *, obeys: bool = True, refuses: str = "", source: str | None = None) -> Path:
    """Build a wheel whose detector runs until SIGTERM. Options: it refuses its check, or ignores SIGTERM."""
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("detector.py", source or _STAND_IN.format(obeys=obeys, refuses=refuses))
    return path


class Operations:
    """A supervisor's intents and its agents, on a test's own topics."""

    def __init__(
        self,
        home: Path,
        project: Project,
        topics: OwnTopics,
        extra: Mapping[str, str] = MappingProxyType({}),
        key: str = "",
    ) -> None:
        """`extra` is added to the environment of agents. `key` signs intents."""
        self.home = AgentHome(home / "agent")
        self.log = home / "agent.log"
        self._folder = home
        self._project = project
        self._topics = topics
        self._extra = extra
        self._allow = home / "agent.yaml"
        self.accept_properties(home / "detector.properties")
        self.keys = home / "intent-keys"
        IntentKeys.create(self.keys, key)
        self._agents: list[subprocess.Popen[bytes]] = []

    def accept_properties(self, *files: Path) -> None:
        """Let agents that start later accept only these files with credentials."""
        quoted = ", ".join(f'"{file}"' for file in files)
        self._allow.write_text(ALLOW.format(folder=self._folder, properties=quoted))

    @property
    def environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("FRAUD_")}
        return {**inherited, **self._topics.environment, "FRAUD_HOME": str(self._project.root), **self._extra}

    def agent(
        self, *options: str, within: Sequence[str] = (), home: Path | None = None, **environ: str
    ) -> subprocess.Popen[bytes]:
        """Start an agent. `within` is a command that wraps it, `environ` adds variables."""
        command = [sys.executable, "-m", "fraud_rules.cli", "detector", "agent", f"--home={home or self.home.path}"]
        command += [f"--allow={self._allow}", f"--intent-keys={self.keys}"]
        environment = {**self.environment, **environ}
        agent = start_detached([*within, *command, *options], self.log, folder=self._folder, environment=environment)
        self._agents.append(agent)
        return agent

    def release(self, wheel: Path | None = None, config: Path | None = None, **options: Any) -> Release:
        """Create a release with the shipped configuration, or a folder's, on these topics."""
        return release_of(
            config or self._project.config,
            bootstrap=self._topics.bootstrap,
            wheel="" if wheel is None else str(wheel),
            environ=self._topics.environment,
            **options,
        )

    def decide(self, release: Release | None, **members_of_intent: Any) -> IntentRecord:
        """Append an intent to run a release, or to drain."""
        kafka, topic = self._topics.kafka, self._topics.names.detector_intents
        kind = IntentKind.DRAIN if release is None else IntentKind.RUN
        after = read_intent_log(kafka, topic, DETECTOR).epoch
        attempt_id = uuid.uuid4().hex[:12]
        intent = Intent(DETECTOR, kind, attempt_id, after, "a test", "a test", "a test", 0, release)
        return append_intent(
            kafka, topic, msgspec.structs.replace(intent, **members_of_intent), IntentKeys.load(self.keys)
        )

    def seen(self) -> DeploymentReports:
        return read_deployment(self._topics.kafka, self._topics.names.detector_attempts, DETECTOR)

    def await_phase(self, record: IntentRecord, *phases: AttemptPhase, timeout_s: float = 180.0) -> AttemptStatus:
        """Wait until the attempt is in one of the phases and return its status."""

        def reached() -> AttemptStatus | None:
            attempt = self.seen().attempts.get(record.intent.attempt_id)
            return attempt.status if attempt is not None and attempt.status.phase in phases else None

        try:
            return until(reached, f"the attempt is {phases}", timeout_s)
        except AssertionError as error:
            said = self.log.read_text(errors="replace")[-2_000:]
            raise AssertionError(f"{error}: {self.seen().attempts.get(record.intent.attempt_id)}; {said}") from None

    def members(self, record: IntentRecord) -> Sequence[psutil.Process]:
        """The processes of an attempt."""
        return members(record.intent.attempt_id)

    def await_gone(self, record: IntentRecord) -> None:
        """Wait until an attempt has no processes. Its starter ends a moment after it has reported the outcome."""
        until(lambda: not self.members(record), "nothing is left of the attempt")

    def await_end(self, agent: subprocess.Popen[bytes]) -> int:
        """Wait until an agent has ended by itself, and return its exit code."""
        return await_end(agent, self.log)

    def end(self) -> None:
        """End everything."""
        for agent in self._agents:
            kill_session(agent)
            agent.wait()
        for folder in self.home.attempts():
            order = folder.order()
            if order is not None:
                kill_members(order.intent.attempt_id)
