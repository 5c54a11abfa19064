"""Runs podman and podman-compose for one site."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compose_check.errors import CheckFailed
from compose_check.machine import ContainerSite

_QUICK_S = 600.0
_LAST_LINES = 25


@dataclass(frozen=True, slots=True)
class Podman:
    """The commands of podman for a site. The output of long commands goes to the log."""

    site: ContainerSite
    log: Path

    def ask(self, *arguments: str, timeout_s: float = _QUICK_S, input_text: str | None = None) -> str:
        """Run a command and return its output. Raises CheckFailed with the last lines of its error."""
        done = self.attempt(*arguments, timeout_s=timeout_s, input_text=input_text)
        if done.returncode != 0:
            raise CheckFailed(f"podman {arguments[0]} failed ({done.returncode}): {_end_of(done.stdout + done.stderr)}")
        return done.stdout

    def attempt(
        self, *arguments: str, timeout_s: float = _QUICK_S, input_text: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command that may fail. A command that takes too long has exit code 124."""
        try:
            return subprocess.run(
                ["podman", *arguments],
                env=self.site.environment,
                input=input_text,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(arguments, 124, "", f"not done within {timeout_s:g} s")

    def run_long(self, command: Sequence[str], folder: Path, what: str, timeout_s: float) -> None:
        """Run a program with its output in the log. Raises CheckFailed with the last lines."""
        with self.log.open("ab") as log:
            log.write(f"\n== {what}\n".encode())
            log.flush()
            try:
                done = subprocess.run(
                    command,
                    cwd=folder,
                    env=self.site.environment,
                    stdout=log,
                    stderr=log,
                    timeout=timeout_s,
                    check=False,
                )
            except subprocess.TimeoutExpired as late:
                raise CheckFailed(f"{what}: not done within {timeout_s:g} s (log: {self.log})") from late
        if done.returncode != 0:
            raise CheckFailed(
                f"{what} failed ({done.returncode}, log: {self.log}): {_end_of(self.log.read_text('utf-8'))}"
            )

    def has_image(self, name: str) -> bool:
        """Whether an image exists in the site."""
        return self.attempt("image", "exists", name).returncode == 0

    def inspect(self, container: str) -> dict[str, Any]:
        """The state of a container as podman reports it."""
        (found,) = json.loads(self.ask("container", "inspect", container))
        state: dict[str, Any] = found
        return state


@dataclass(frozen=True, slots=True)
class Compose:
    """podman-compose for one file, project and environment file."""

    podman: Podman
    file: Path
    project: str
    env_file: Path

    def run(self, *arguments: str, what: str, timeout_s: float) -> None:
        """Run a command of podman-compose. Raises CheckFailed."""
        command = [
            str(Path(sys.executable).with_name("podman-compose")),
            *("--file", str(self.file), "--project-name", self.project, "--env-file", str(self.env_file)),
            *("--in-pod", "false"),
            *arguments,
        ]
        self.podman.run_long(command, self.file.parent, what, timeout_s)

    def containers(self, service: str) -> list[str]:
        """The names of the containers of a service."""
        label = f"label=com.docker.compose.service={service}"
        project = f"label=io.podman.compose.project={self.project}"
        return sorted(
            self.podman.ask("ps", "--all", "--filter", label, "--filter", project, "--format", "{{.Names}}").split()
        )


def _end_of(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-_LAST_LINES:])
