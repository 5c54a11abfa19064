"""A real Spark standalone cluster on this machine: a master and workers, from the jars that come with pyspark."""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil
import pyspark

from fraud_rules.runtime.process import start_detached
from fraud_rules.stream.worker.host_files import HostFiles
from tests.support.ports import free_ports
from tests.support.processes.running_detector import kill_session, members_of
from tests.support.waiting import until

_HOST = "127.0.0.1"
_START_S = 180.0
_SPARK_HOME = Path(pyspark.__file__).parent
# As in the driver: the optimizing compiler and many threads of a collector would cost more than they save in a test.
_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class StandaloneCluster:
    """A Spark master with workers. `url` is the master URL for a driver.

    Each worker has an address and a temporary folder of its own, as a host has: Spark never runs two attempts of a task
    on one host, and views belong to a host.
    """

    def __init__(self, home: Path, workers: int, cores: int = 1, **environ: str) -> None:
        """Start a master and so many workers, each with so many cores. `environ` adds variables to the workers'."""
        self._home = home
        self._cores = cores
        self._environ = environ
        port, ui_port = free_ports(2)
        self.url = f"spark://{_HOST}:{port}"
        self._master = self._start("master", "Master", f"--host={_HOST}", f"--port={port}", f"--webui-port={ui_port}")
        until(lambda: self._listens(port), "Spark's master listens", _START_S)
        self.workers = [self._start_worker(number) for number in range(workers)]
        until(
            lambda: self._said("master").count("Registering worker") >= workers, "the workers have registered", _START_S
        )

    def kill_worker(self, number: int) -> None:
        """Kill a worker together with its executors, as if its machine had failed."""
        kill_session(self.workers[number])

    def return_worker(self, number: int) -> None:
        """Start a killed worker again, with the temporary folder that it had."""
        self.workers[number] = self._start_worker(number)

    def python_processes(self, number: int) -> list[psutil.Process]:
        """The Python daemons and workers of a worker's executors."""
        return [process for process in members_of(self.workers[number].pid) if process.name().startswith("python")]

    def folder(self, number: int) -> Path:
        """A worker's temporary folder."""
        return self._home / f"host-{number}"

    def views(self, number: int) -> list[Path]:
        """The folders of the views of key groups in a worker's temporary folder."""
        return list(self.folder(number).glob("fraud-rules-views-*/*/layout-*/key-group-*"))

    def newest_version(self, number: int) -> int:
        """The newest version of a key group in the files of a worker's temporary folder; 0 without files."""
        return newest_version(self.folder(number))

    def executors(self, number: int) -> int:
        """Count the executors that a worker was asked to launch since its last start."""
        return self._said(f"worker-{number}").count("Asked to launch executor")

    def end(self) -> None:
        """End everything."""
        for process in (*self.workers, self._master):
            kill_session(process)

    def _start_worker(self, number: int) -> subprocess.Popen[bytes]:
        work, host = self._home / f"work-{number}", f"127.0.0.{number + 2}"
        options = (
            f"--host={host}",
            f"--cores={self._cores}",
            "--memory=1g",
            f"--work-dir={work}",
            f"--webui-port={free_ports(1)[0]}",
        )
        folder = self.folder(number)
        folder.mkdir(exist_ok=True)
        return self._start(
            f"worker-{number}", "Worker", *options, self.url, TMPDIR=str(folder), SPARK_LOCAL_IP=host, **self._environ
        )

    def _start(self, name: str, kind: str, *arguments: str, **environ: str) -> subprocess.Popen[bytes]:
        words = [word for argument in arguments for word in argument.split("=", 1)]
        main = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("FRAUD_")},
            "SPARK_HOME": str(_SPARK_HOME),
            "SPARK_LOCAL_IP": _HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "JAVA_TOOL_OPTIONS": _JVM,
            **environ,
        }
        command, log = [str(_SPARK_HOME / "bin" / "spark-class"), main, *words], self._home / f"{name}.log"
        return start_detached(command, log, folder=self._home, environment=environment, append=False)

    def _said(self, name: str) -> str:
        return (self._home / f"{name}.log").read_text(errors="replace")

    @staticmethod
    def _listens(port: int) -> bool:
        with suppress(OSError), socket.create_connection((_HOST, port), 0.5):
            return True
        return False


def newest_version(folder: Path) -> int:
    """The newest version of a key group in the files of a host's temporary folder; 0 without files."""
    versions = []
    for files_of in folder.glob("fraud-rules-views-*/*/log/key-group-*"):
        files = HostFiles(files_of)
        files.refresh()
        versions.append(files.newest_version())
    return max(versions, default=0)
