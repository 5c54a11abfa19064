"""Runs Airflow and the control plane on one machine, as separate processes, on SQLite, with a known login.

This module does not import Airflow. A component outlives its starter, as the broker does. AIRFLOW_HOME in a process's
environment identifies the installation, so that orphans of a kill -9 are also found.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import psutil

from fraud_local.users import USER
from fraud_rules.cli.archive import ARCHIVE_VARIABLE
from fraud_rules.configuration.detector_options import BOOTSTRAP_VARIABLE
from fraud_rules.configuration.project import Project
from fraud_rules.errors import AirflowFailed
from fraud_rules.kafka.broker import HOST
from fraud_rules.runtime.process import (
    end_processes,
    environment_of,
    kill_processes,
    processes_with,
    start_detached,
)

PORT_VARIABLE = "FRAUD_AIRFLOW_PORT"

_GRACE_S = 15.0
_REQUEST_S = 2.0


class Component(StrEnum):
    """The components of Airflow, and the control plane beside it. The task processes of LocalExecutor are children of
    the scheduler.
    """

    API_SERVER = "api-server"
    SCHEDULER = "scheduler"
    DAG_PROCESSOR = "dag-processor"
    TRIGGERER = "triggerer"
    CONTROL_PLANE = "control-plane"


@dataclass(frozen=True, slots=True)
class AirflowSite:
    """One installation. `port` is the port of the API server. The next two serve the logs of tasks and of triggers.
    `control_port` is the port of the control plane, whose pages the API server forwards.

    `bootstrap` is the address of Kafka. `connections` are further Airflow connections by id, as JSON-ready documents;
    they reach the components by their environment, never by an argument. `users` are further users of Airflow, with
    their roles there and the same password. `process_variables` are variables that are not Airflow settings.
    """

    home: Path
    project: Project
    port: int
    control_port: int
    password: str
    bootstrap: str
    archive: Path | None = None
    connections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    users: Mapping[str, str] = field(default_factory=dict)
    process_variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The URL of the pages."""
        return f"http://{HOST}:{self.port}"

    def environment(
        self, environ: Mapping[str, str] = os.environ, component: Component | None = None
    ) -> dict[str, str]:
        """The environment of a component or of a command. The site's settings override the defaults."""
        inherited = {name: value for name, value in environ.items() if not name.startswith("AIRFLOW")}
        made = {f"AIRFLOW__{name}": value for name, value in {**self._settings(component), **self.settings}.items()}
        ticket_key = self.secret("tickets")
        control = {"host": self.control_url, "password": ticket_key, "extra": {"url": self.control_url}}
        kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": self.bootstrap}}
        connections = {"fraud_kafka": kafka, **self.connections, "fraud_control": control}
        given = {f"AIRFLOW_CONN_{name.upper()}": json.dumps(each) for name, each in connections.items()}
        archive = "" if self.archive is None else str(self.archive)
        # The control plane's store belongs to this Kafka, as Airflow's database belongs to this installation.
        store = {"FRAUD_CONTROL_DATABASE": f"sqlite:///{self.home / 'control-plane.db'}"}
        own = {
            "AIRFLOW_HOME": str(self.home),
            "FRAUD_HOME": str(self.project.root),
            "FRAUD_ADMIN_USER": USER,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{inherited.get('PATH', '')}",
            "PYTHONUNBUFFERED": "1",
            # A process title overwrites the environment of a process, by which this module finds it.
            "SPT_NOENV": "1",
            "NO_PROXY": HOST,
            "no_proxy": HOST,
        }
        if component is Component.CONTROL_PLANE:
            own |= {
                "FRAUD_CONTROL_TICKET_KEY": ticket_key,
                "FRAUD_CONTROL_URL": self.url,
                "FRAUD_CONTROL_AIRFLOW_URL": self.url,
                BOOTSTRAP_VARIABLE: self.bootstrap,
                ARCHIVE_VARIABLE: archive,
            }
        variables = {"AIRFLOW_VAR_FRAUD_ARCHIVE": archive} if archive else {}
        return {**store, **inherited, **made, **given, **variables, **self.process_variables, **own}

    def _settings(self, component: Component | None) -> dict[str, str]:
        return {
            "CORE__DAGS_FOLDER": str(self.project.root / "dags"),
            "CORE__PLUGINS_FOLDER": str(self.project.root / "plugins"),
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": "4",
            "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(
                f"{name}:{role}" for name, role in {USER: "admin", **self.users}.items()
            ),
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.home / "passwords.json"),
            "CORE__FERNET_KEY": self.secret("fernet", urlsafe_b64encode(secrets.token_bytes(32)).decode()),
            "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home / 'airflow.db'}{_WRITE_WAIT.get(component, '')}",
            "API__HOST": HOST,
            "API__PORT": str(self.port),
            "API__BASE_URL": self.url,
            "API__WORKERS": "1",
            "API__SECRET_KEY": self.secret("api"),
            "API_AUTH__JWT_SECRET": self.secret("jwt"),
            # The first requests arrive while the API server starts. A task that gives up then would fail.
            "WORKERS__EXECUTION_API_RETRIES": "10",
            "WORKERS__EXECUTION_API_TIMEOUT": "60",
            # Another triggerer takes over the triggers of a dead one within seconds.
            "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "15",
            "DAG_PROCESSOR__PARSING_PROCESSES": "1",
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "120",
            "TRACES__OTEL_ON": "False",
            "USAGE_DATA_COLLECTION__ENABLED": "False",
        }

    @property
    def control_url(self) -> str:
        return f"http://{HOST}:{self.control_port}"

    def secret(self, name: str, fresh: str | None = None) -> str:
        """A secret of this installation, created once, in a file that only its owner can read."""
        path = self.home / "secrets" / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(fresh or secrets.token_urlsafe(64))
        return path.read_text(encoding="utf-8")


class LocalAirflow:
    """The processes of one site."""

    def __init__(self, site: AirflowSite) -> None:
        self.site = site
        self._children: list[subprocess.Popen[bytes]] = []

    def prepare(self) -> None:
        """Create the login and the database, if they are missing. Raises AirflowFailed."""
        self.site.home.mkdir(parents=True, exist_ok=True)
        passwords = self.site.home / "passwords.json"
        passwords.write_text(json.dumps(dict.fromkeys((USER, *self.site.users), self.site.password)), encoding="utf-8")
        passwords.chmod(0o600)
        with self._log("migrate").open("wb") as log:
            done = subprocess.run(
                [_airflow(), "db", "migrate"], env=self.site.environment(), stdout=log, stderr=log, check=False
            )
        if done.returncode != 0:
            raise AirflowFailed(f"Airflow's database could not be created (log: {self._log('migrate')})")

    def start(self, *components: Component) -> None:
        """Start these components, or all if none is named. Return at once."""
        for component in components or tuple(Component):
            environment = {**self.site.environment(component=component), _COMPONENT: component}
            command = self._command(component)
            log = self._log(component)
            self._children.append(start_detached(command, log, folder=self.site.home, environment=environment))

    def _command(self, component: Component) -> list[str]:
        if component is Component.CONTROL_PLANE:
            serve = ["fraud_rules.cli", "control-plane", "serve", f"--port={self.site.control_port}"]
            return [sys.executable, "-m", *serve]
        return [_airflow(), component, *_WITHOUT_LOG_SERVER.get(component, ())]

    def check(self) -> None:
        """Raise AirflowFailed if a started component has ended by itself. A component that `kill` ended is ignored."""
        for child in self._children:
            code = child.poll()
            if code is not None and code >= 0:
                raise AirflowFailed(f"a component of Airflow ended with {code} (logs: {self.logs})")

    def unhealthy(self) -> list[str]:
        """The components that do not report that they are healthy."""
        try:
            with urllib.request.urlopen(f"{self.site.url}/api/v2/monitor/health", timeout=_REQUEST_S) as answer:  # noqa: S310 -- loopback
                document = json.load(answer)
        except (OSError, ValueError):
            return list(Component)
        health = {each: document.get(each.replace("-", "_")) or {} for each in _MONITORED}
        unhealthy: list[str] = [each for each, found in health.items() if found.get("status") != "healthy"]
        return unhealthy if self._control_plane_is_healthy() else [*unhealthy, Component.CONTROL_PLANE]

    def _control_plane_is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.site.control_url}/fraud/health", timeout=_REQUEST_S):  # noqa: S310 -- loopback
                return True
        except OSError:
            return False

    def stop(self) -> bool:
        """End every process of this site, after a while by a kill. Return False if there was none."""
        found = list(self.processes())
        end_processes(found, _GRACE_S)
        for child in self._children:
            child.wait()
        self._children.clear()
        return bool(found)

    def kill(self, component: Component) -> None:
        """Kill a component and its children as a failure would (kill -9)."""
        found = list(self.processes(component))
        kill_processes(found, _GRACE_S)
        killed = {process.pid for process in found}
        for child in self._children:
            if child.pid in killed:
                child.wait()
        # A component may end by itself after its child was killed. That is not a failure.
        self._children = [child for child in self._children if child.pid not in killed]

    def processes(self, component: Component | None = None) -> Iterator[psutil.Process]:
        """The running processes of this site, or of one component."""
        for process in processes_with("AIRFLOW_HOME", str(self.site.home)):
            running = environment_of(process).get(_COMPONENT)
            if running is not None and component in (None, running):
                yield process

    @property
    def logs(self) -> Path:
        """The folder of the components' logs."""
        return self.site.home / "components"

    def _log(self, name: str) -> Path:
        self.logs.mkdir(parents=True, exist_ok=True)
        return self.logs / f"{name}.log"


_COMPONENT = "FRAUD_AIRFLOW_COMPONENT"
_MONITORED = (Component.SCHEDULER, Component.DAG_PROCESSOR, Component.TRIGGERER)
# Scheduler and triggerer would serve their logs on all network interfaces. Here, the API server reads the same files.
_WITHOUT_LOG_SERVER = dict.fromkeys((Component.SCHEDULER, Component.TRIGGERER), ("--skip-serve-logs",))
# These components end if SQLite refuses a write after its default wait of 5 s, three times in a row, because another
# process writes. The API server would wait in its event loop, and its clients repeat a request that failed.
_WRITE_WAIT: dict[Component | None, str] = dict.fromkeys(
    (Component.SCHEDULER, Component.DAG_PROCESSOR, Component.TRIGGERER), "?timeout=120"
)


def _airflow() -> str:
    beside = Path(sys.executable).parent / "airflow"
    found = str(beside) if beside.exists() else shutil.which("airflow")
    if found is None:
        raise AirflowFailed("there is no airflow command: install the environment (make setup)")
    return found
