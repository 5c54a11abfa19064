"""A Kafka broker for one machine: one KRaft node, a detached Java process on loopback.

`start` returns when the broker answers a metadata request. It also works after a kill at any moment: the storage is
formatted in a temporary folder and then renamed, and a process without a handle is found by its command line.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from fraud_rules.configuration.project import Project, port_setting
from fraud_rules.errors import BrokerUnavailable, ConfigError, PortInUse
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.runtime.caches.class_archive import archivable, sharing_options
from fraud_rules.runtime.file_lock import FileLock
from fraud_rules.runtime.lock_wait import LockPatience, await_lock
from fraud_rules.runtime.process import ProcessHandle, arguments_of, holder_of, start_detached
from fraud_rules.runtime.retry import wait_for

HOST = "127.0.0.1"
PORT_VARIABLE = "FRAUD_BROKER_PORT"
CONTROLLER_PORT_VARIABLE = "FRAUD_BROKER_CONTROLLER_PORT"

# A broker of a development machine does little, so by default its JVM compiles with the first tier only: the optimizing
# compiler would use more CPU time in the first minute than it saves.
_JVM = (
    "-Xmx512m",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:TieredStopAtLevel=1",
)
OPTIMIZED: Final = ("-XX:TieredStopAtLevel=4",)
"""The options of a broker that runs for minutes under load: all compilers, as in production."""
_LOG_TAIL_LINES = 3


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """`pid` is None when no broker process runs; `answers` says whether it serves requests."""

    bootstrap: str
    pid: int | None
    answers: bool


class Broker:
    """One broker. Its data, log, configuration and process handle are in the folder `home`. `jvm` are further options
    of its JVM, which override the defaults."""

    def __init__(
        self, home: Path, port: int, controller_port: int, project: Project, jvm: tuple[str, ...] = ()
    ) -> None:
        self.home = home.resolve()
        self.port = port
        self.controller_port = controller_port
        self._project = project
        self._jvm = jvm
        self._marker = f"-Dfraud.broker={self.home}"
        self._child: subprocess.Popen[bytes] | None = None

    @classmethod
    def of_project(cls, project: Project, environ: Mapping[str, str] = os.environ) -> Broker:
        """The broker of `fraud kafka broker` and the demo: in var/broker, on the ports that the environment names."""
        port = port_setting(PORT_VARIABLE, 9092, environ)
        controller = port_setting(CONTROLLER_PORT_VARIABLE, port + 1 if port < 65_535 else port - 1, environ)
        return cls(project.var / "broker", port, controller, project)

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def kafka(self) -> KafkaConnection:
        """The connection of its clients."""
        return KafkaConnection(self.bootstrap)

    @property
    def log(self) -> Path:
        return self.home / "broker.log"

    def status(self) -> BrokerStatus:
        """Whether the broker runs and answers."""
        handle = self._running()
        return BrokerStatus(self.bootstrap, handle.pid if handle else None, bool(handle) and self._answers(2.0))

    def start(self, timeout_s: float = 120.0) -> bool:
        """Start the broker if it does not run, and wait until it answers. Return True if this call started it.

        Raises PortInUse if another process has a port; ConfigError without jars or Java, or if the running broker has
        another port; BrokerUnavailable if the process ends or does not answer in time.
        """
        self.home.mkdir(parents=True, exist_ok=True)
        with self._exclusively():
            handle = self._running()
            started = handle is None
            if handle is None:
                handle = self._launch()
            elif not self._listens_on_our_port(handle):
                raise ConfigError(f"the broker in {self.home} runs on another port: stop it (fraud kafka broker stop)")
            handle.write(self._handle_file)
            self._await_answer(handle, timeout_s)
        return started

    def stop(self, grace_s: float = 30.0) -> bool:
        """Stop the broker, after `grace_s` by a kill, and wait until it has ended. Return False if it did not run."""
        if not self.home.is_dir():
            return False
        with self._exclusively():
            handle = self._running()
            ended = handle is not None and handle.end(grace_s)
            self._handle_file.unlink(missing_ok=True)
            return ended

    def kill(self) -> None:
        """Kill the broker (kill -9), as a power cut would. The handle and all files stay."""
        handle = self._running()
        if handle is not None:
            handle.end(0)

    @property
    def _handle_file(self) -> Path:
        return self.home / "process.json"

    @property
    def _data(self) -> Path:
        return self.home / "data"

    @contextlib.contextmanager
    def _exclusively(self) -> Iterator[None]:
        """Allow one start or stop at a time. Raises Stalled if another one hangs."""
        with FileLock(self.home / "lock") as lock:
            await_lock(lock, f"the lock of the broker in {self.home}", LockPatience())
            yield

    def _running(self) -> ProcessHandle | None:
        if self._child is not None:
            self._child.poll()  # reap an ended child
        handle = ProcessHandle.read(self._handle_file)
        if handle is not None and handle.process() is not None:
            return handle
        return ProcessHandle.find(self._marker)

    def _listens_on_our_port(self, handle: ProcessHandle) -> bool:
        process = handle.process()
        return process is not None and f"-Dfraud.port={self.port}" in arguments_of(process)

    def _launch(self) -> ProcessHandle:
        check_free(self.port, PORT_VARIABLE)
        check_free(self.controller_port, CONTROLLER_PORT_VARIABLE)
        self._format()
        configuration = self._configure(self._data)
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".log.1"))
        command = self._java("kafka.Kafka", str(configuration))
        self._child = start_detached(command, self.log, folder=self.home, append=False)
        handle = ProcessHandle.of(self._child.pid, self._marker)
        if handle is None:
            raise BrokerUnavailable(f"the broker ended at once: {self._log_tail()}")
        return handle

    def _format(self) -> None:
        """Create the storage on the first start: format it in a temporary folder, then rename the folder."""
        if self._data.is_dir():
            return
        partial = self.home / "data.partial"
        shutil.rmtree(partial, ignore_errors=True)
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        options = (f"--cluster-id={cluster}", f"--config={self._configure(partial)}")
        done = subprocess.run(
            self._java("kafka.tools.StorageTool", "format", *options),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode != 0:
            said = " ".join((done.stderr or done.stdout).split())
            raise BrokerUnavailable(f"the broker's storage {partial} cannot be formatted: {said[-400:]}")
        partial.replace(self._data)

    def _configure(self, data: Path) -> Path:
        """Write Kafka's configuration: the template, with this broker's ports and folders."""
        template = (self._project.config / "broker.properties").read_text(encoding="utf-8")
        local = {
            "listeners": f"BROKER://{HOST}:{self.port},CONTROLLER://{HOST}:{self.controller_port}",
            "advertised.listeners": f"BROKER://{HOST}:{self.port}",
            "controller.quorum.voters": f"1@{HOST}:{self.controller_port}",
            "log.dirs": str(data),
        }
        path = self.home / "server.properties"
        path.write_text(template + "".join(f"{name}={value}\n" for name, value in local.items()), encoding="utf-8")
        return path

    def _java(self, main: str, *arguments: str) -> list[str]:
        jars = (self._project.jars / "broker").resolve()  # the class archive is valid for the real paths only
        if not any(jars.glob("kafka_*.jar")):
            raise ConfigError(f"{jars} has no Kafka jars: fetch them first (make jars)")
        java = shutil.which(str(Path(os.environ["JAVA_HOME"], "bin", "java")) if "JAVA_HOME" in os.environ else "java")
        if java is None:
            raise ConfigError("java is not on the PATH: install Java 17 or 21 (apt-get install default-jre-headless)")
        return [
            java,
            *_JVM,
            *sharing_options(broker_classes(jars)),
            *self._jvm,
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
            self._marker,
            f"-Dfraud.port={self.port}",
            "-cp",
            str(archivable(jars) / "*"),
            main,
            *arguments,
        ]

    def _await_answer(self, handle: ProcessHandle, timeout_s: float) -> None:
        def answers() -> bool:
            if self._answers(0.5):
                return True
            if handle.process() is None:
                raise BrokerUnavailable(f"the broker ended while starting: {self._log_tail()}")
            return False

        def timed_out() -> BrokerUnavailable:
            return BrokerUnavailable(f"no answer from the broker within {timeout_s:g} s: {self._log_tail()}")

        wait_for(answers, within_s=timeout_s, every_s=0.0, timed_out=timed_out)

    def _answers(self, timeout_s: float) -> bool:
        """Whether the broker answers a metadata request within `timeout_s` and lists itself."""
        settings: dict[str, Any] = {
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
            "error_cb": lambda _: None,  # an unreachable broker is expected here, so the client must not print it
        }
        client = AdminClient(self.kafka.confluent(settings))
        try:
            return bool(client.list_topics(timeout=timeout_s).brokers)
        except KafkaException:
            return False

    def _log_tail(self) -> str:
        """The last lines of the log, joined to one line, and the path of the log."""
        try:
            lines = [line.strip() for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        except OSError:
            lines = []
        faults = [line for line in lines if "ERROR" in line or "Exception" in line] or lines
        return f"{' | '.join(faults[-_LOG_TAIL_LINES:])[:600] or 'no output'} (log: {self.log})"


def broker_classes(jars: Path) -> Path:
    """The class archive of a local broker, beside this folder of jars."""
    return jars.resolve().with_name("broker.jsa")


def check_free(port: int, variable: str) -> None:
    """Raise PortInUse if a process listens on a port of loopback. `variable` is the variable that sets the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            taken = (
                f"port {port} is in use by {holder_of(port)}: end that process, or choose another port with {variable}"
            )
            raise PortInUse(taken) from error
