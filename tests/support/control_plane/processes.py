"""The publisher and the API server's writers as processes that tests can kill."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from fraud_rules.configuration.project import Project
from tests.support.kafka.own_topics import OwnTopics
from tests.support.processes.fraud_command import CommandResult, fraud


@dataclass
class PublisherProcess:
    """`fraud store publish` over a database and a test's own topics."""

    project: Project
    topics: OwnTopics
    database: str
    log: Path
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def environment(self) -> dict[str, str]:
        path = os.pathsep.join(str(self.project.root / each) for each in ("spark_jobs", "plugins"))
        return {
            **os.environ,
            **self.topics.environment,
            "PYTHONPATH": os.pathsep.join([path, str(self.project.root)]),
            "FRAUD_HOME": str(self.project.root),
            "FRAUD_CONTROL_DATABASE": self.database,
            "FRAUD_CONTROL_NAME": f"{self.topics.prefix}control",
        }

    def run(self, *words: str) -> CommandResult:
        """Run a command of `fraud store` in this process."""
        return fraud("store", *words, env=self.environment())

    def command(self) -> list[str]:
        return ["fraud_rules.cli", "store", "publish"]

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *self.command()], env=self.environment(), stdout=log, stderr=log
            )

    def exit_code(self) -> int | None:
        """The exit code; None while the process runs."""
        return None if self._process is None else self._process.poll()

    def kill(self) -> None:
        """Kill the process without warning, like a power cut."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@dataclass
class ServerProcess(PublisherProcess):
    """The process of `control_plane.writers`; `work` is the number of rules of a writer, and of revisions of a rule."""

    work: tuple[int, int] = (1, 1)

    def command(self) -> list[str]:
        return ["tests.support.control_plane.writers", *map(str, self.work)]
