"""Runs the what-ifs of the web page one at a time, each in its own process, so that the API server stays responsive."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fraud_ops.control_plane.domain.errors import LimitReached, NotFound, RequestRefused
from fraud_ops.control_plane.service.reading.approval_figures import saved_what_if
from fraud_rules.batch.archive.manifest import Table
from fraud_rules.batch.archive.place import ArchivePath
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.configuration.project import HOME_VARIABLE, Project
from fraud_rules.model.day import Day

__all__ = ["WhatIfQuestion", "WhatIfRun", "WhatIfRunner", "WhatIfStatus"]

_KEPT = 100
_WAITING = 10
_MOST_S = 600.0
_NICE = 10

_log = logging.getLogger(__name__)


class WhatIfStatus(StrEnum):
    """The progress of a what-if."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class WhatIfQuestion:
    """A what-if: the record of a valid rule and the number of past days. `limits` lists the limits to try (empty: the
    default choice), and `windows` says whether to try other windows. `alerts_per_day` and `precision` (0 to 1) ask for
    suggestions of a limit.
    """

    record: bytes
    days: int
    limits: tuple[Decimal, ...] = ()
    windows: bool = True
    alerts_per_day: float | None = None
    precision: float | None = None


@dataclass(slots=True)
class WhatIfRun:
    """The run of a what-if. `result` is its JSON, `report` the name of its page, and `said` the reason of a failure."""

    id: str
    question: WhatIfQuestion
    user: str
    status: WhatIfStatus = WhatIfStatus.WAITING
    result: bytes | None = None
    report: str | None = None
    said: str | None = None
    ended: threading.Event = field(default_factory=threading.Event)


class WhatIfRunner:
    """Starts what-ifs and remembers the last hundred. Several threads may use it."""

    def __init__(
        self,
        project: Project,
        archive: ArchivePath,
        command: Sequence[str] = (),
        labels: Callable[[], ArchivePath | None] = lambda: None,
    ) -> None:
        """`command` is the command to which the arguments of `fraud whatif` are appended. `labels` returns
        the file of labels; None without labels.
        """
        self._project = project
        self._archive = archive
        self._command = list(command) or [sys.executable, "-m", "fraud_rules.cli", "whatif"]
        self._labels = labels
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, WhatIfRun] = OrderedDict()
        self._waiting: deque[WhatIfRun] = deque()
        self._works = False
        self._child: subprocess.Popen[bytes] | None = None
        self._closed = False

    def start(self, question: WhatIfQuestion, user: str, most: int) -> WhatIfRun:
        """Queue a what-if. Raises LimitReached if the user already has `most`, and RequestRefused if too many wait."""
        with self._lock:
            unfinished = sum(run.user == user and not run.ended.is_set() for run in self._runs.values())
            if unfinished >= most:
                raise LimitReached(f"{unfinished} what-ifs of yours are running or waiting; wait for their results")
            if len(self._waiting) >= _WAITING or self._closed:
                raise RequestRefused(f"{len(self._waiting)} what-ifs are already waiting: try again when they are done")
            run = WhatIfRun(uuid.uuid4().hex[:12], question, user)
            self._runs[run.id] = run
            self._waiting.append(run)
            while len(self._runs) > _KEPT:
                self._runs.popitem(last=False)
            if not self._works:
                self._works = True
                threading.Thread(target=self._work, name="fraud-control-whatif", daemon=True).start()
            return run

    def get(self, run_id: str) -> WhatIfRun:
        """Read one of the remembered what-ifs. Raises NotFound."""
        with self._lock:
            run = self._runs.get(run_id)
        if run is None:
            raise NotFound("this what-if does not exist; the API server may have restarted since")
        return run

    def saved(self, document: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """Find the newest saved what-if of a rule, given without its state: the name of its report, and its result."""
        return saved_what_if(self._archive, document)

    def days(self) -> list[Day]:
        """List the archived days, ascending. Raises ArchiveDamaged, ArchiveUnreachable."""
        manifest = ArchiveStore(self._archive).latest()
        return sorted({*manifest.days(Table.TRANSACTIONS), *manifest.days(Table.IMPORTED)})

    def close(self) -> None:
        """Cancel the waiting what-ifs and kill the running one."""
        with self._lock:
            self._closed = True
            self._waiting.clear()
            child = self._child
        if child is not None:
            child.kill()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._works = False
                    return
                run = self._waiting.popleft()
            run.status = WhatIfStatus.RUNNING
            try:
                self._evaluate(run)
            except OSError as error:
                run.status, run.said = WhatIfStatus.FAILED, f"the what-if could not start: {error.strerror}"
            except Exception as error:  # noqa: BLE001 -- the next what-ifs wait for this thread
                _log.exception("what-if %s failed", run.id)
                run.status, run.said = WhatIfStatus.FAILED, f"{type(error).__name__}: see the API server's log"
            finally:
                run.ended.set()

    def _evaluate(self, run: WhatIfRun) -> None:
        with TemporaryDirectory(prefix="fraud-whatif-") as folder:
            draft = Path(folder, "draft.json")
            draft.write_bytes(run.question.record)
            arguments = [*self._arguments(run.question, draft), *self._label_arguments()]
            done = self._done(arguments, Path(folder))
        if done is None:
            run.status, run.said = WhatIfStatus.FAILED, f"the what-if took over {_MOST_S:g} s: try fewer days"
            return
        code, output, errors = done
        if code != 0:
            last = errors.decode("utf-8", "replace").strip().splitlines()[-1:]
            run.status, run.said = WhatIfStatus.FAILED, (last[0] if last else f"exit code {code}")[:1_000]
            return
        run.result, run.status = output, WhatIfStatus.DONE

    def _arguments(self, question: WhatIfQuestion, draft: Path) -> list[str]:
        limits = ",".join(f"{limit:f}" for limit in question.limits)
        asked = [f"--days={question.days}", f"--archive={self._archive}", "--processes=1", "--json"]
        if limits:
            asked.append(f"--limits={limits}")
        if not question.windows:
            asked.append("--no-windows")
        if question.alerts_per_day is not None:
            asked.append(f"--alerts-per-day={question.alerts_per_day!r}")
        if question.precision is not None:
            asked.append(f"--precision={question.precision!r}")
        return [*self._command, str(draft), *asked]

    def _label_arguments(self) -> list[str]:
        path = self._labels()
        return [] if path is None else [f"--labels={path}"]

    def _done(self, command: Sequence[str], folder: Path) -> tuple[int, bytes, bytes] | None:
        """Run the command; return exit code, output and errors, or None if it took too long."""
        with Path(folder, "out").open("wb") as out, Path(folder, "err").open("wb") as err:
            child = subprocess.Popen(
                ["nice", f"-n{_NICE}", *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, HOME_VARIABLE: str(self._project.root), "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        with self._lock:
            self._child = child
            closed = self._closed
        if closed:  # between the start of the child and its registration
            child.kill()
        try:
            code = child.wait(_MOST_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            return None
        finally:
            with self._lock:
                self._child = None
        return code, Path(folder, "out").read_bytes(), Path(folder, "err").read_bytes()
