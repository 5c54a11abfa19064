"""The files of an agent, and the end of processes that cannot be killed."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from fraud_rules.deploy.agent import members
from fraud_rules.deploy.agent.home import AgentHome, AttemptEnd, AttemptOrder
from fraud_rules.errors import ConfigError
from fraud_rules.runtime import process
from tests.support.deployments import run


def attempt(home: AgentHome, number: int, *, ended: bool = True, started: bool = True) -> Path:
    folder = home.attempt(f"a{number}")
    if started:
        folder.write_order(AttemptOrder(number, run(number - 1, f"a{number}"), number, [], {}))
    else:
        os.utime(folder.path, ns=(number * 1_000_000, number * 1_000_000))
    if ended:
        folder.write_end(AttemptEnd(number, 0))
    return folder.path


def test_only_the_newest_attempts_are_kept_refused_ones_too(tmp_path: Path) -> None:
    home = AgentHome(tmp_path)
    runs = attempt(home, 0, ended=False)
    refused = [attempt(home, number, ended=False, started=False) for number in range(1, 16)]
    past = [attempt(home, number) for number in range(16, 32)]
    home.prune()
    assert {path.name for path in (tmp_path / "attempts").iterdir()} == {
        path.name for path in (runs, *refused[-4:], *past)
    }


@pytest.mark.parametrize("attempt_id", ["../../outside", "..", "", "a/b", "A", "-a", "a\n", "a" * 65])
def test_an_attempt_id_never_leads_out_of_the_home(tmp_path: Path, attempt_id: str) -> None:
    with pytest.raises(ConfigError, match="is not an attempt id"):
        AgentHome(tmp_path / "home").attempt(attempt_id)
    assert not list(tmp_path.iterdir())


class Unkillable:
    """A process that waits for a disk."""

    pid = 2**31 - 1

    def kill(self) -> None:
        pass

    def wait(self, timeout: float | None = None) -> None:
        raise psutil.TimeoutExpired(timeout or 0.0, self.pid)

    def is_running(self) -> bool:
        return True

    def status(self) -> str:
        return psutil.STATUS_DISK_SLEEP


def test_a_process_that_cannot_be_killed_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "processes_with", lambda variable, value: [Unkillable()])
    assert members.kill_members("a", within_s=0.1) == [Unkillable.pid]
