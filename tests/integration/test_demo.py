"""The demo as a user runs it: to its end, after a killed demo, and with a stop during its start."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fraud_rules.configuration.project import Project
from tests.support.processes.supervised import demo_ports, project_at
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1_200)]

SECONDS = 14


@pytest.fixture
def home(project: Project, tmp_path: Path) -> Iterator[Path]:
    """A separate installation. Processes that a test leaves running in it are killed."""
    project_at(tmp_path, project.root)
    yield tmp_path
    for process in left_running(tmp_path):
        process.kill()


@pytest.fixture
def environ(home: Path) -> dict[str, str]:
    port, controller_port, airflow_port = demo_ports()
    ports = {
        "FRAUD_BROKER_PORT": str(port),
        "FRAUD_BROKER_CONTROLLER_PORT": str(controller_port),
        "FRAUD_AIRFLOW_PORT": str(airflow_port),
    }
    return {**os.environ, **ports, "FRAUD_HOME": str(home)}


def left_running(home: Path) -> list[psutil.Process]:
    """The processes of an installation, found by their command lines or environments."""
    return [process for process in psutil.process_iter() if process.pid != os.getpid() and belongs(process, home)]


def belongs(process: psutil.Process, home: Path) -> bool:
    try:
        named = [*process.cmdline(), process.environ().get("AIRFLOW_HOME", "")]
    except psutil.Error:
        return False
    return process.status() != psutil.STATUS_ZOMBIE and any(str(home / "var") in each for each in named)


def start_demo(environ: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "fraud_rules.cli", "demo", *arguments],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def read_until(demo: subprocess.Popen[str], text: str) -> str:
    """The output of the demo, up to a line with the text."""
    assert demo.stdout is not None
    printed = ""
    for line in demo.stdout:
        printed += line
        if text in line:
            return printed
    raise AssertionError(f"the demo ended before it printed {text!r}:\n{printed}")


@pytest.mark.long
@pytest.mark.parametrize("by_command", [False, True], ids=["ctrl-c", "stop-command"])
def test_a_demo_ends_at_once_on_request(by_command: bool, home: Path, environ: dict[str, str]) -> None:
    demo = start_demo(environ)
    read_until(demo, "Airflow at")
    stop = start_demo(environ, "--stop") if by_command else None
    if stop is None:
        demo.send_signal(signal.SIGINT)
    printed, _ = demo.communicate(timeout=180)
    assert demo.returncode == 130, printed
    assert "ended with" not in printed
    if stop is not None:
        assert stop.communicate(timeout=180) == ("stopped: command\n", None)
    until(lambda: not left_running(home), "no process of the demo remains")


@pytest.mark.long
def test_a_demo_is_right_after_a_killed_demo(home: Path, environ: dict[str, str]) -> None:
    first = start_demo(environ)
    read_until(first, "Airflow at")
    first.kill()
    first.wait()
    assert len(left_running(home)) >= 6, "broker, agent and Airflow's components outlive a killed demo"

    second = start_demo(environ, "--seconds", str(SECONDS))
    printed = read_until(second, "detector ready")
    for part in ("Airflow", "agent", "broker"):
        assert f"stopped the {part} of an earlier demo" in printed
    printed, _ = second.communicate(timeout=800)
    assert second.returncode == 0, printed
    assert "planted frauds found            2 of 2" in printed
    assert "right: every alert equals the replay" in printed
    until(lambda: not left_running(home), "no process of the demo remains")

    replayed = subprocess.run(
        [sys.executable, "-m", "fraud_rules.cli", "streams", "replay", str(home / "var" / "demo" / "recording.json")],
        env=environ,
        capture_output=True,
        check=True,
    )
    assert len(json.loads(replayed.stdout)["alerts"]) >= 2
