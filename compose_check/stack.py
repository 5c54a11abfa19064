"""The running services of a Compose file: start in order, health, kills, removal."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compose_check.composefile import ComposeFile, Service
from compose_check.errors import CheckFailed
from compose_check.podman import Compose, Podman
from compose_check.waiting import await_progress

__all__ = ["ContainerState", "Stack"]

_START_S = 1_800.0
_PROBE_S = 180.0
_COMMAND_S = 900.0
_POLL_S = 2.0
_MOST_RESTARTS = 5
_LOG_LINES = "25"


@dataclass(frozen=True, slots=True)
class ContainerState:
    """A container at one moment. `pid` is its first process in this machine's PID namespace, 0 if it has ended.

    `log` is the file with its output.
    """

    name: str
    running: bool
    pid: int
    exit_code: int
    restarts: int
    log: str = ""

    @classmethod
    def of(cls, document: dict[str, Any]) -> ContainerState:
        """Read the answer of `podman container inspect`."""
        state = document["State"]
        return cls(
            name=document["Name"],
            running=bool(state["Running"]),
            pid=int(state["Pid"]),
            exit_code=int(state["ExitCode"]),
            restarts=int(document.get("RestartCount", 0)),
            log=str(document.get("HostConfig", {}).get("LogConfig", {}).get("Path", "")),
        )

    @property
    def progress(self) -> tuple[int, int, int]:
        """A value that changes while the container starts: its process, its restarts, the bytes of its log."""
        log = Path(self.log)
        return self.pid, self.restarts, log.stat().st_size if log.is_file() else 0

    def fault(self, one_shot: bool) -> str | None:
        """Why this container will not become ready, or None."""
        if self.restarts > _MOST_RESTARTS:
            return f"{self.name} has ended and restarted {self.restarts} times"
        if one_shot and not self.running and self.pid == 0 and self.exit_code != 0:
            return f"{self.name} has ended with exit code {self.exit_code}"
        return None


@dataclass(frozen=True, slots=True)
class Stack:
    """The containers of a Compose file. `say` gets one line for each completed step."""

    podman: Podman
    compose: Compose
    file: ComposeFile
    say: Callable[[str], None]

    def start(self) -> dict[str, float]:
        """Start all services in the order of their conditions. Return the seconds until each service is ready."""
        started: dict[str, float] = {}
        ready: dict[str, float] = {}
        for service in self.file.services:
            for other in sorted(service.after - ready.keys()):
                ready[other] = self._await_ready(self._service(other), started[other])
            started[service.name] = time.monotonic()
            what = f"start of {service.name}"
            self.compose.run("up", "--detach", "--no-build", "--no-deps", service.name, what=what, timeout_s=_START_S)
        for service in self.file.services:
            if service.name not in ready:
                ready[service.name] = self._await_ready(service, started[service.name])
        return {service.name: ready[service.name] for service in self.file.services}

    def kill(self, service: Service) -> float:
        """Kill the first process of one container. Return the seconds until the container is healthy again."""
        name = self.compose.containers(service.name)[0]
        before = self._state(name)
        killed = time.monotonic()
        os.kill(before.pid, signal.SIGKILL)

        def is_new() -> bool:
            now = self._state(name)
            return now.running and now.pid not in (0, before.pid)

        self._wait(is_new, [name], f"{name} is running again after a kill")
        return self._await_ready(service, killed)

    def is_healthy(self, container: str) -> bool:
        """Run the container's health check."""
        return self.podman.attempt("healthcheck", "run", container, timeout_s=_PROBE_S).returncode == 0

    def execute(self, service: str, *command: str, input_text: str | None = None) -> str:
        """Run a command in the first container of a service and return its output. Raises CheckFailed."""
        flags = ("--interactive",) if input_text is not None else ()
        name = self.compose.containers(service)[0]
        return self.podman.ask("exec", *flags, name, *command, timeout_s=_COMMAND_S, input_text=input_text)

    def progress(self, *services: str) -> object:
        """A value that changes while containers of these services work: their processes, restarts and logs."""
        return [self._state(name).progress for service in services for name in self.compose.containers(service)]

    def last_lines(self, container: str) -> str:
        """The end of a container's log."""
        done = self.podman.attempt("logs", "--tail", _LOG_LINES, container)
        return (done.stdout + done.stderr).strip()

    def _service(self, name: str) -> Service:
        return next(each for each in self.file.services if each.name == name)

    def _state(self, container: str) -> ContainerState:
        return ContainerState.of(self.podman.inspect(container))

    def _await_ready(self, service: Service, since: float) -> float:
        """Wait until a one-shot service has ended with 0, or all containers of another service are healthy."""
        names = self.compose.containers(service.name)
        if len(names) != service.replicas:
            raise CheckFailed(f"{service.name} has {len(names)} containers, not {service.replicas}")

        def is_ready() -> bool:
            states = [self._state(name) for name in names]
            for state in states:
                if fault := state.fault(service.one_shot):
                    raise CheckFailed(f"{fault}:\n{self.last_lines(state.name)}")
            if service.one_shot:
                return all(not state.running and state.pid == 0 for state in states)
            return all(state.running and self.is_healthy(state.name) for state in states)

        condition = "has ended" if service.one_shot else "is healthy"
        self._wait(is_ready, names, f"{service.name} {condition}")
        seconds = time.monotonic() - since
        self.say(f"{service.name} {condition} after {seconds:.0f} s")
        return seconds

    def _wait(self, condition: Callable[[], bool], names: list[str], what: str) -> None:
        def late(reason: str) -> CheckFailed:
            logs = "\n".join(f"-- {name}\n{self.last_lines(name)}" for name in names)
            return CheckFailed(f"{reason}: {what}\n{logs}")

        await_progress(condition, lambda: [self._state(name).progress for name in names], late, _POLL_S)
