"""Evaluates the what-ifs of the store one at a time, each in a process of its own beside the server."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from fraud_control.background_thread import BackgroundThread
from fraud_control.domain.errors import LeadershipLost
from fraud_control.service.whatif import WhatIfQuestion, WhatIfRun, WhatIfs
from fraud_control.store.database import Database
from fraud_control.store.leases import Leadership
from fraud_rules.batch.archive.place import ArchivePath
from fraud_rules.configuration.project import HOME_VARIABLE, Project
from fraud_rules.runtime.retry import RepeatedWork

_MOST_S: Final = 600.0
_NICE: Final = 10
_POLL_S: Final = 0.5

_log = logging.getLogger(__name__)


class WhatIfRunner(BackgroundThread):
    """Evaluates what-ifs while this process leads. A new leader fails what the one before it has left."""

    def __init__(
        self,
        database: Database,
        what_ifs: WhatIfs,
        project: Project,
        archive: ArchivePath,
        command: Sequence[str] = (),
        labels: Callable[[], ArchivePath | None] = lambda: None,
    ) -> None:
        """`command` is the command to which the arguments of `fraud whatif` are appended. `labels` returns
        the file of labels; None without labels.
        """
        super().__init__("fraud-control-whatif")
        self._database = database
        self._what_ifs = what_ifs
        self._project = project
        self._archive = archive
        self._command = list(command) or [sys.executable, "-m", "fraud_rules.cli", "whatif"]
        self._labels = labels

    def _work(self, attempt: RepeatedWork) -> None:
        with self._database.leadership("what-ifs") as lead:
            if not lead:
                attempt.record_standby()
                return
            self._what_ifs.fail_interrupted()
            while not self._stop.wait(_POLL_S):
                lead.check()
                run = self._what_ifs.next_run()
                if run is not None:
                    result, said = self._evaluated(run, lead)
                    self._what_ifs.end(run, result, said)
                attempt.record_success()

    def _evaluated(self, run: WhatIfRun, lead: Leadership) -> tuple[bytes | None, str | None]:
        """The result of a what-if, or None and the reason of its failure. Raises LeadershipLost."""
        try:
            with TemporaryDirectory(prefix="fraud-whatif-") as folder:
                return self._output(run.question, Path(folder), lead)
        except LeadershipLost:
            raise
        except OSError as error:
            return None, f"the what-if could not start: {error.strerror}"
        except Exception as error:  # noqa: BLE001 -- the next what-ifs wait for this thread
            _log.exception("what-if %s failed", run.id)
            return None, f"{type(error).__name__}: see the log of the control plane"

    def _output(self, question: WhatIfQuestion, folder: Path, lead: Leadership) -> tuple[bytes | None, str | None]:
        draft = folder / "draft.json"
        draft.write_bytes(question.record)
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            child = subprocess.Popen(
                ["nice", f"-n{_NICE}", *self._arguments(question, draft), *self._label_arguments()],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, HOME_VARIABLE: str(self._project.root), "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        code = self._code_of(child, lead)
        if code is None:
            reason = "the control plane stops" if self._stop.is_set() else f"the what-if took over {_MOST_S:g} s"
            advice = "start it again" if self._stop.is_set() else "try fewer days"
            return None, f"{reason}: {advice}"
        if code != 0:
            last = (folder / "err").read_text("utf-8", "replace").strip().splitlines()[-1:]
            return None, last[0] if last else f"exit code {code}"
        return (folder / "out").read_bytes(), None

    def _code_of(self, child: subprocess.Popen[bytes], lead: Leadership) -> int | None:
        """Wait for the exit code. None if the process takes too long or this server stops. Raises LeadershipLost."""
        ends_s = time.monotonic() + _MOST_S
        try:
            while not self._stop.is_set() and time.monotonic() < ends_s:
                lead.check()
                try:
                    return child.wait(_POLL_S)
                except subprocess.TimeoutExpired:
                    continue
            return None
        finally:
            child.kill()
            child.wait()

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
