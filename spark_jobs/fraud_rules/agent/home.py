"""What an agent keeps on its disk: a folder for each attempt, from which the next agent knows what runs.

A lock tells whether an attempt's process is alive. It is held by the process itself, so it goes with it however it
ends, and says so in any container that sees the files: no process id has to mean anything there.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

import msgspec

from fraud_rules.deployment.intent import NO_EPOCH, Intent
from fraud_rules.deployment.work import Work
from fraud_rules.errors import AttemptUnreachable

__all__ = ["AgentHome", "AttemptEnd", "AttemptFolder", "AttemptOrder"]

_KEPT_ATTEMPTS = 20
_NS_A_MS = 1_000_000
_T = TypeVar("_T")


class AttemptOrder(msgspec.Struct, frozen=True, rename="camel"):
    """What an attempt is to start, written before anything is. `environment` is added to what it inherits.

    While it is `held`, its process makes ready and touches nothing: what ran before still runs.
    """

    epoch: int
    intent: Intent
    created_ms: int
    command: list[str]
    environment: dict[str, str]
    held: bool = False


class AttemptEnd(msgspec.Struct, frozen=True, rename="camel"):
    """How an attempt's process ended. `exit_code` None: nobody knows, its host or its container went away."""

    ended_ms: int
    exit_code: int | None = None
    said: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptFolder:
    """One attempt's files."""

    path: Path

    @property
    def log(self) -> Path:
        """What the detector writes; `.1` has what came before."""
        return self.path / "detector.log"

    @property
    def check_log(self) -> Path:
        """What the check of its release said."""
        return self.path / "check.log"

    @property
    def code(self) -> Path:
        """What the release's wheel holds."""
        return self.path / "code"

    @property
    def settings(self) -> Path:
        return self.path / "detector.yaml"

    @property
    def schema(self) -> Path:
        return self.path / "schema.yaml"

    @property
    def started(self) -> bool:
        """Whether its process has ever begun."""
        return (self.path / "started").exists()

    @property
    def ready(self) -> bool:
        """Whether its process has done all that it can while it is held."""
        return (self.path / "ready").exists()

    @property
    def go(self) -> Path:
        """What a held process waits for."""
        return self.path / "go"

    @property
    def work(self) -> Path:
        """Where the detector reports what it is working on."""
        return self.path / "work.json"

    def read_work(self) -> Work | None:
        """What it is working on; None between two batches, and where it reports nothing."""
        return _read(self.work, Work)

    @property
    def running(self) -> bool:
        """Whether its query has ever run."""
        return (self.path / "running").exists()

    def order(self) -> AttemptOrder | None:
        """What to start; None where the agent died before it had written that."""
        return _read(self.path / "order.json", AttemptOrder)

    def write_order(self, order: AttemptOrder) -> None:
        _write(self.path / "order.json", order)

    def end(self) -> AttemptEnd | None:
        """How it ended; None while it has not."""
        return _read(self.path / "end.json", AttemptEnd)

    def write_end(self, end: AttemptEnd) -> None:
        _write(self.path / "end.json", end)

    def first_batch(self) -> int | None:
        """The first batch it has written, once it has."""
        return _read(self.path / "first-batch", int)

    def write_first_batch(self, batch_id: int) -> None:
        _write(self.path / "first-batch", batch_id)

    def note(self, what: str) -> None:
        """Make `started`, `ready` or `running` true."""
        (self.path / what).touch()

    def lock(self) -> IO[bytes] | None:
        """Hold the attempt: no process of it runs, and none begins meanwhile. None while one runs."""
        file = (self.path / "lock").open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        return file

    def is_alive(self) -> bool:
        """Whether a process of it runs, wherever that is."""
        held = self.lock()
        if held is None:
            return True
        held.close()
        return False


@dataclass(frozen=True, slots=True)
class AgentHome:
    """An agent's folder. One agent at a time works in it."""

    path: Path

    def attempt(self, attempt_id: str) -> AttemptFolder:
        """The folder of an attempt, made if need be."""
        folder = self.path / "attempts" / attempt_id
        folder.mkdir(parents=True, exist_ok=True)
        return AttemptFolder(folder)

    def attempts(self) -> Sequence[AttemptFolder]:
        """Those with an order, oldest first. Not by epoch: those of a log that was made anew are lower."""
        found = []
        for path in (self.path / "attempts").glob("*"):
            order = AttemptFolder(path).order()
            if order is not None:
                found.append((order.created_ms, order.epoch, AttemptFolder(path)))
        return [folder for _, _, folder in sorted(found, key=lambda each: each[:2])]

    def prune(self) -> None:
        """Delete the oldest attempts beyond a few: those that have ended, and those that were never started."""
        past = []
        for path in (self.path / "attempts").glob("*"):
            folder = AttemptFolder(path)
            order = folder.order()
            if order is None or folder.end() is not None:
                made_ms = path.stat().st_mtime_ns // _NS_A_MS if order is None else order.created_ms
                past.append((made_ms, NO_EPOCH if order is None else order.epoch, path))
        for *_, path in sorted(past)[:-_KEPT_ATTEMPTS]:
            shutil.rmtree(path, ignore_errors=True)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Be the one agent here. Raises AttemptUnreachable while another is."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise AttemptUnreachable(f"another agent works in {self.path}: end it first, or use another") from error
            yield


def _read(path: Path, kind: type[_T]) -> _T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _write(path: Path, value: object) -> None:
    """Whole or not at all, and durable."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        file.write(msgspec.json.encode(value))
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
