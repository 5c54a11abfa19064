"""An agent's files: a folder for each attempt, from which the next agent learns which detector runs.

A file lock shows whether an attempt's process is alive. The process itself holds the lock, so the lock ends with the
process, however it ends. Any container that sees the files can test the lock; process ids would not be valid there.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from fraud_rules.deploy.intent import ATTEMPT_ID, NO_EPOCH, Intent
from fraud_rules.deploy.work import Work
from fraud_rules.errors import AttemptUnreachable, ConfigError
from fraud_rules.runtime.atomic_file import Durability, write_file
from fraud_rules.runtime.file_lock import FileLock, locked
from fraud_rules.runtime.safe_text import quote

_KEPT_ATTEMPTS = 20
_RESERVED_BYTES = 16_384
_NS_A_MS = 1_000_000
_T = TypeVar("_T")


class AttemptOrder(msgspec.Struct, frozen=True, rename="camel"):
    """The command of an attempt, written before its process starts. `environment` is added to the inherited variables.

    While the attempt is `held`, its process prepares the start but changes nothing, because the previous detector
    still runs.
    """

    epoch: int
    intent: Intent
    created_ms: int
    command: list[str]
    environment: dict[str, str]
    held: bool = False


class AttemptEnd(msgspec.Struct, frozen=True, rename="camel"):
    """How an attempt's process ended. `exit_code` is None if it is unknown, for example after a loss of the host."""

    ended_ms: int
    exit_code: int | None = None
    said: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptFolder:
    """The files of one attempt."""

    path: Path

    @property
    def log(self) -> Path:
        """The detector's output; the older part is in the file with the suffix `.1`."""
        return self.path / "detector.log"

    @property
    def check_log(self) -> Path:
        """The output of the release check."""
        return self.path / "check.log"

    @property
    def code(self) -> Path:
        """The folder with the extracted wheel of the release."""
        return self.path / "code"

    @property
    def settings(self) -> Path:
        return self.path / "detector.yaml"

    @property
    def schema(self) -> Path:
        return self.path / "schema.yaml"

    @property
    def started(self) -> bool:
        """Whether its process has ever started."""
        return (self.path / "started").exists()

    @property
    def ready(self) -> bool:
        """Whether its held process has finished its preparation."""
        return (self.path / "ready").exists()

    @property
    def go(self) -> Path:
        """The file that a held process waits for."""
        return self.path / "go"

    @property
    def work(self) -> Path:
        """The file in which the detector reports its current work."""
        return self.path / "work.json"

    def read_work(self) -> Work | None:
        """The detector's current work. None between batches, and for a detector that reports none."""
        return _read(self.work, Work)

    @property
    def running(self) -> bool:
        """Whether its query has ever run."""
        return (self.path / "running").exists()

    def order(self) -> AttemptOrder | None:
        """The order. None if the agent died before it wrote one."""
        return _read(self.path / "order.json", AttemptOrder)

    def write_order(self, order: AttemptOrder) -> None:
        _write(self.path / "order.json", order)

    def end(self) -> AttemptEnd | None:
        """How the attempt ended. None while it has not."""
        return _read(self.path / "end.json", AttemptEnd)

    def reserve(self) -> None:
        """Occupy the disk space that `write_end` needs, if there is any."""
        with suppress(OSError):
            (self.path / "reserve").write_bytes(bytes(_RESERVED_BYTES))

    def write_end(self, end: AttemptEnd) -> None:
        """Record the end durably, on a full disk too. Raises OSError."""
        (self.path / "reserve").unlink(missing_ok=True)
        _write(self.path / "end.json", end)

    def first_batch(self) -> int | None:
        """The first batch that the attempt wrote. None before that."""
        return _read(self.path / "first-batch", int)

    def write_first_batch(self, batch_id: int) -> None:
        _write(self.path / "first-batch", batch_id)

    @property
    def log_is_cut(self) -> bool:
        """Whether the disk does not accept the detector's output at the moment."""
        return (self.path / "log-cut").exists()

    def mark(self, name: str) -> None:
        """Make `started`, `ready`, `running` or `log-cut` true."""
        (self.path / name).touch()

    def unmark(self, name: str) -> None:
        """Make it false."""
        (self.path / name).unlink(missing_ok=True)

    def lock(self, wait_s: float = 0.0) -> FileLock | None:
        """Lock the attempt, so that no process of it can start. None while one runs."""
        lock = FileLock(self.path / "lock")
        if lock.acquire(wait_s):
            return lock
        lock.close()
        return None

    def is_alive(self) -> bool:
        """Whether a process of the attempt runs, in this container or in another."""
        held = self.lock()
        if held is None:
            return True
        held.close()
        return False


@dataclass(frozen=True, slots=True)
class AgentHome:
    """An agent's folder. One agent at a time may use it."""

    path: Path

    def attempt(self, attempt_id: str) -> AttemptFolder:
        """The folder of an attempt. It is created if it is missing. Raises ConfigError for an invalid id."""
        if ATTEMPT_ID.fullmatch(attempt_id) is None:
            raise ConfigError(f"{quote(attempt_id)} is not an attempt id")
        folder = self.path / "attempts" / attempt_id
        folder.mkdir(parents=True, exist_ok=True)
        return AttemptFolder(folder)

    def attempts(self) -> Sequence[AttemptFolder]:
        """The attempts with an order, oldest first by time. A new intent log starts with lower epochs."""
        found = []
        for path in (self.path / "attempts").glob("*"):
            order = AttemptFolder(path).order()
            if order is not None:
                found.append((order.created_ms, order.epoch, AttemptFolder(path)))
        return [folder for _, _, folder in sorted(found, key=lambda each: each[:2])]

    def prune(self) -> None:
        """Delete all but the newest attempts among those that have ended or never started."""
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
        """Lock the folder for this agent. Raises AttemptUnreachable if another agent holds it."""
        self.path.mkdir(parents=True, exist_ok=True)
        busy = AttemptUnreachable(f"another agent uses {self.path}: end it first, or use another")
        with locked(self.path / "lock", 0, lambda _: busy):
            yield


def _read(path: Path, kind: type[_T]) -> _T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _write(path: Path, value: object) -> None:
    """Replace a file atomically and durably."""
    write_file(path, msgspec.json.encode(value), Durability.NAME)
