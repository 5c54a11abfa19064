"""Starts detectors for the agent as processes of this host.

The detector's driver runs in Spark's client mode, with any master.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from fraud_rules.configuration.project import HOME_VARIABLE
from fraud_rules.configuration.settings import ENV_PREFIX as SETTINGS_PREFIX
from fraud_rules.deploy.agent.allow_list import AllowList
from fraud_rules.deploy.agent.home import AgentHome, AttemptEnd, AttemptFolder, AttemptOrder
from fraud_rules.deploy.agent.members import VARIABLE, cpu_s_of, kill_members, members
from fraud_rules.deploy.code import ENTRY, code_digest, code_digest_of_wheel
from fraud_rules.deploy.command import attempt_argument, detector_arguments
from fraud_rules.deploy.intent import IntentRecord
from fraud_rules.deploy.release import Release, settings_of
from fraud_rules.deploy.work import WORK_VARIABLE
from fraud_rules.errors import AttemptUnreachable, ReleaseInvalid
from fraud_rules.kafka.connection import ENV_PREFIX as KAFKA_PREFIX
from fraud_rules.kafka.connection import PROPERTIES_VARIABLE
from fraud_rules.kafka.registry.credentials import ENV_PREFIX as REGISTRY_PREFIX
from fraud_rules.runtime.clock import now_ms
from fraud_rules.runtime.process import (
    arguments_of,
    await_ends,
    is_stopped,
    kill_session,
    start_detached,
    terminate_processes,
)

_STARTER: Final = "fraud_rules.deploy.agent.starter"
_STARTER_EXIT_S: Final = 0.5
_SELF_CHECK: Final = "fraud_rules.deploy.agent.self_check"
_INHERITED_SETTINGS = (HOME_VARIABLE,)
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class ProcessCheck:
    """A check as a session of this host. Its output goes to a file, because its children may outlive it."""

    process: subprocess.Popen[bytes]
    log: Path
    attempt_id: str

    def poll(self) -> int | None:
        return self.process.poll()

    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def cpu_s(self) -> float:
        return cpu_s_of(self.attempt_id)

    def cancel(self) -> None:
        kill_session(self.process)
        self.process.wait()


@dataclass(frozen=True, slots=True)
class ProcessAttempt:
    """An attempt as a detached session of this host."""

    folder: AttemptFolder
    order: AttemptOrder

    def end(self) -> AttemptEnd | None:
        return self.folder.end() or self._close(AttemptEnd(now_ms()))

    def drain(self) -> None:
        """Signal the starter, or the driver itself once the starter has ended. A second call ends it at once."""
        attempt_id = self.order.intent.attempt_id
        named = [process for process in members(attempt_id) if attempt_argument(attempt_id) in arguments_of(process)]
        starters = [process for process in named if _STARTER in arguments_of(process)]
        terminate_processes(starters)
        if not await_ends(starters, _STARTER_EXIT_S):
            terminate_processes([process for process in named if process not in starters])

    def cpu_s(self) -> float:
        return cpu_s_of(self.order.intent.attempt_id)

    def is_stopped(self) -> bool:
        return any(is_stopped(process) for process in members(self.order.intent.attempt_id))

    def kill(self) -> None:
        kill_members(self.order.intent.attempt_id)
        self._close(AttemptEnd(now_ms(), -signal.SIGKILL))

    def proceed(self, now_ms: int) -> ProcessAttempt:
        order = msgspec.structs.replace(self.order, held=False, created_ms=now_ms)
        self.folder.write_order(order)
        self.folder.go.touch()
        return ProcessAttempt(self.folder, order)

    def _close(self, end: AttemptEnd) -> AttemptEnd | None:
        """Record the end of an attempt whose starter died, so that nothing starts it again. None while it runs."""
        lock = self.folder.lock()
        if lock is None:
            return None
        with lock:
            known = self.folder.end()
            if known is None:
                kill_members(self.order.intent.attempt_id)
                try:
                    self.folder.write_end(end)
                except OSError as error:
                    return msgspec.structs.replace(end, said=f"its end cannot be recorded: {error}")
            return known or end


@dataclass(frozen=True, slots=True)
class ProcessLauncher:
    """Starts attempts as processes of this host.

    The processes inherit `environ` without this product's settings, because a release has its own settings. `allowed`
    limits the releases.
    """

    home: AgentHome
    environ: Mapping[str, str]
    allowed: AllowList

    def validate(self, record: IntentRecord) -> None:
        release = _release(record)
        self.allowed.check(release)
        settings_of(release)
        found = code_digest_of_wheel(Path(release.wheel)) if release.wheel else code_digest()
        if found != release.code:
            where = release.wheel or "the code beside this agent"
            raise ReleaseInvalid(
                f"{where} has digest {found}, not {release.code}: install the code of the release, or name its wheel"
            )

    def check(self, record: IntentRecord) -> ProcessCheck:
        folder = self._prepare_folder(record)
        process = start_detached(
            [sys.executable, "-P", "-m", _SELF_CHECK, *self._arguments(record, folder)],
            folder.check_log,
            folder=folder.path,
            environment={
                **self._inherited_environment(record.intent.attempt_id),
                **self._release_environment(_release(record), folder),
            },
            append=False,
        )
        return ProcessCheck(process, folder.check_log, record.intent.attempt_id)

    def start(self, record: IntentRecord, now_ms: int, *, held: bool = False) -> ProcessAttempt:
        folder = self._prepare_folder(record)
        # `-P` omits the current folder from the path: a file there must not replace a module.
        command = [sys.executable, "-P", "-m", ENTRY, *self._arguments(record, folder)]
        if held:
            command.append(f"--hold={folder.go}")
        own = self._release_environment(_release(record), folder)
        order = AttemptOrder(record.epoch, record.intent, now_ms, command, own, held)
        folder.write_order(order)
        self._start(order, folder)
        return ProcessAttempt(folder, order)

    def newest(self) -> ProcessAttempt | None:
        attempts = []
        for folder in self.home.attempts():
            order = folder.order()
            if order is not None and order.held:
                self._delete_held(ProcessAttempt(folder, order))
            elif order is not None:
                attempts.append((folder, order))
        if not attempts:
            return None
        folder, order = attempts[-1]
        for earlier, earlier_order in attempts[:-1]:
            if earlier.end() is None:
                ProcessAttempt(earlier, earlier_order).kill()
        _require_reachable(folder, order)
        folder.go.touch()  # the previous agent may have died while it let a held attempt proceed
        if folder.end() is None and not folder.started:
            # The previous agent died after it wrote the order and before the process started.
            self._start(order, folder)
        return ProcessAttempt(folder, order)

    def _delete_held(self, held: ProcessAttempt) -> None:
        """Delete a held attempt. It has changed nothing, so the agent executes its intent from scratch."""
        if held.end() is None:
            _require_reachable(held.folder, held.order)
            held.kill()
        shutil.rmtree(held.folder.path)

    def _start(self, order: AttemptOrder, folder: AttemptFolder) -> None:
        """Start the starter. Return once it holds the attempt's lock, or has ended."""
        attempt_id = order.intent.attempt_id
        starter = start_detached(
            [sys.executable, "-P", "-m", _STARTER, str(folder.path), attempt_argument(attempt_id)],
            folder.path / "starter.log",
            folder=folder.path,
            environment=self._inherited_environment(attempt_id),
        )
        while not folder.started and starter.poll() is None:
            time.sleep(_POLL_S)

    def _prepare_folder(self, record: IntentRecord) -> AttemptFolder:
        """Create the attempt's folder and write the files of the release to it."""
        release = _release(record)
        folder = self.home.attempt(record.intent.attempt_id)
        folder.settings.write_text(release.settings, encoding="utf-8")
        folder.schema.write_text(release.schema, encoding="utf-8")
        if release.wheel:
            with zipfile.ZipFile(release.wheel) as wheel:
                wheel.extractall(folder.code)
        return folder

    def _inherited_environment(self, attempt_id: str) -> dict[str, str]:
        kept = {
            name: value
            for name, value in self.environ.items()
            if not name.startswith(SETTINGS_PREFIX)
            or name in _INHERITED_SETTINGS
            or name.startswith((KAFKA_PREFIX, REGISTRY_PREFIX))
        }
        return {**kept, VARIABLE: attempt_id}

    def _release_environment(self, release: Release, folder: AttemptFolder) -> dict[str, str]:
        own = {WORK_VARIABLE: str(folder.work)}
        if release.wheel:
            paths = [str(folder.code), self.environ.get("PYTHONPATH", "")]
            own["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        if release.kafka_properties:
            own[PROPERTIES_VARIABLE] = release.kafka_properties
        return own

    def _arguments(self, record: IntentRecord, folder: AttemptFolder) -> Sequence[str]:
        return detector_arguments(record.intent, record.epoch, settings=folder.settings, schema=folder.schema)


def _require_reachable(folder: AttemptFolder, order: AttemptOrder) -> None:
    if folder.end() is None and folder.is_alive() and not members(order.intent.attempt_id):
        raise AttemptUnreachable(
            f"attempt {order.intent.attempt_id} uses these files, but runs where this agent cannot end it: "
            "end the container or the session of the attempt, then start the agent again"
        )


def _release(record: IntentRecord) -> Release:
    assert record.intent.release is not None, "only a RUN intent starts a detector"
    return record.intent.release
