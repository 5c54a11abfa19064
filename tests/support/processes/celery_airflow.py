"""An Airflow with the Celery executor on hosts that share nothing: one host with the other components, and workers.

The environment with the wheels is read-only on all hosts, as an image is. Each host has its own copies of the DAG file
and of the folder of the installation. Only the host of the other components knows Airflow's database.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from fraud_demo.site import PASSWORD
from fraud_local.users import USER
from tests.support.hosts import Host
from tests.support.processes.supervised import Api
from tests.support.waiting import until
from tests.support.wheels import Environment

_REDIS_PORT: Final = 6379
_COMPONENTS: Final = ("api-server", "scheduler", "dag-processor", "triggerer")
_PORT: Final = 8080
_START_S: Final = 300.0
_LOG_LINES: Final = 25


@dataclass(frozen=True)
class Servers:
    """The URLs of the servers: Airflow's database, Celery's broker, and the database of Celery's results."""

    database: str
    broker: str
    results: str


@contextmanager
def explained(hosts: Sequence[Host]) -> Iterator[None]:
    """Add the ends of the hosts' logs to the message of a failure in the block."""
    try:
        yield
    except AssertionError as error:
        logs = [log for host in hosts for log in sorted(host.folder.glob("*.log"))]
        raise AssertionError("\n".join((str(error), *map(_end_of, logs)))) from error


def _end_of(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]
    return "\n".join((f"-- the end of {log.parent.name}/{log.name}", *lines))


def start_redis(host: Host, program: Path) -> str:
    """Start Redis on a host, without a password and without files, and return its URL. It ends with the host."""
    options = (f"--bind={host.address}", f"--port={_REDIS_PORT}", "--protected-mode=no", "--save=")
    server = host.start("redis", str(program), *(word for each in options for word in each.split("=")))
    log = host.folder / "redis.log"

    def listens() -> bool:
        said = log.read_text(encoding="utf-8", errors="replace")
        assert server.poll() is None, f"Redis has ended: {said[-2_000:]}"
        return "Ready to accept connections" in said

    until(listens, "Redis accepts connections", _START_S)
    return f"redis://{host.name}:{_REDIS_PORT}/0"


class CeleryAirflow:
    """The components on their hosts. `dags` is the text of the DAG file. Each worker works on a queue with the name of
    its host.
    """

    def __init__(
        self,
        core: Host,
        workers: Sequence[Host],
        environment: Environment,
        servers: Servers,
        dags: str,
    ) -> None:
        self.core, self.workers = core, {each.name: each for each in workers}
        self.url = f"http://{core.address}:{_PORT}"
        self.environment, self._servers = environment, servers
        self._components: dict[str, subprocess.Popen[bytes]] = {}
        self._fernet_key = urlsafe_b64encode(secrets.token_bytes(32)).decode()
        self._api_key, self._jwt_key = secrets.token_hex(64), secrets.token_hex(64)
        for host in self.hosts:
            (host.folder / "airflow").mkdir()
            (host.folder / "dags").mkdir()
            (host.folder / "dags" / "risk.py").write_text(dags, encoding="utf-8")
            host.output("fraud", "create", str(self.installation(host)), environment=self.variables(host))

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The host of the other components, and those of the workers."""
        return self.core, *self.workers.values()

    @staticmethod
    def installation(host: Host) -> Path:
        """The folder of the installation on a host."""
        return host.folder / "fraud"

    def start(self, connections: Mapping[str, Mapping[str, Any]]) -> Api:
        """Start all components, and create connections by id in Airflow's database. Return a client of Airflow's API
        once all components are healthy."""
        passwords = self.core.folder / "airflow" / "passwords.json"
        passwords.write_text(json.dumps({USER: PASSWORD}), encoding="utf-8")
        self.core.output("airflow", "db", "migrate", environment=self.variables(self.core))
        for component in _COMPONENTS:
            self._start(self.core, component, component)
        for name, host in self.workers.items():
            self._start(host, "worker", "celery", "worker", "--queues", name)
        with explained(self.hosts):
            until(self._is_healthy, "the components of Airflow are healthy", _START_S, 0.5)
            until(self._work, "each worker of Celery is ready", _START_S, 0.5)
        api = Api(self.url)
        for conn_id, members in connections.items():
            api.call("POST", "connections", connection_id=conn_id, **members)
        return api

    def variables(self, host: Host) -> dict[str, str]:
        """The whole environment of Airflow's programs on a host."""
        kept = {name: value for name, value in os.environ.items() if name in ("LANG", "TZ", "OPENBLAS_CORETYPE")}
        made = {f"AIRFLOW__{name}": value for name, value in self._settings(host).items()}
        own = {
            "PATH": os.pathsep.join([str(self.environment.programs), "/usr/sbin", "/usr/bin", "/sbin", "/bin"]),
            "AIRFLOW_HOME": str(host.folder / "airflow"),
            "FRAUD_HOME": str(self.installation(host)),
            "PYTHONUNBUFFERED": "1",
        }
        return {**kept, **made, **own}

    def _settings(self, host: Host) -> dict[str, str]:
        address = f"http://{self.core.name}:{_PORT}"
        common = {
            "CORE__DAGS_FOLDER": str(host.folder / "dags"),
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__EXECUTOR": "CeleryExecutor",
            "CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
            "CORE__FERNET_KEY": self._fernet_key,
            "API__BASE_URL": address,
            "API__SECRET_KEY": self._api_key,
            "API_AUTH__JWT_SECRET": self._jwt_key,
            "CELERY__BROKER_URL": self._servers.broker,
            "CELERY__RESULT_BACKEND": f"db+{self._servers.results}",
            "CELERY__WORKER_CONCURRENCY": "2",
            "WORKERS__EXECUTION_API_RETRIES": "10",
            "WORKERS__EXECUTION_API_TIMEOUT": "60",
            "USAGE_DATA_COLLECTION__ENABLED": "False",
        }
        if host is not self.core:
            return common
        return common | {
            "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(host.folder / "airflow" / "passwords.json"),
            "DATABASE__SQL_ALCHEMY_CONN": self._servers.database,
            "API__HOST": host.address,
            "API__PORT": str(_PORT),
            "API__WORKERS": "1",
            "DAG_PROCESSOR__PARSING_PROCESSES": "1",
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "120",
        }

    def _start(self, host: Host, name: str, *command: str) -> None:
        process = host.start_with(self.variables(host), name, "airflow", *command)
        self._components[f"{name} on {host.name}"] = process

    def _check(self) -> None:
        """Fail if a component has ended."""
        ended = [name for name, process in self._components.items() if process.poll() is not None]
        assert not ended, f"ended: {', '.join(ended)}"

    def _is_healthy(self) -> bool:
        self._check()
        try:
            health = httpx.get(f"{self.url}/api/v2/monitor/health", timeout=10, trust_env=False).json()
        except (httpx.HTTPError, ValueError):
            return False
        parts = ("metadatabase", "scheduler", "dag_processor", "triggerer")
        return all((health.get(each) or {}).get("status") == "healthy" for each in parts)

    def _work(self) -> bool:
        self._check()
        return all(
            f"celery@{name} ready" in (host.folder / "worker.log").read_text(encoding="utf-8", errors="replace")
            for name, host in self.workers.items()
        )
