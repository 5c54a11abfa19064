"""The demo as a person runs it: to its end, and again after a kill -9 of all of it that can be killed."""

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

from fraud_rules.project import Project
from tests.conftest import free_ports
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("integration"), pytest.mark.timeout(1_200)]

SECONDS = 14


@pytest.fixture
def home(project: Project, tmp_path: Path) -> Iterator[Path]:
    """An installation of its own; whatever a test leaves running in it is killed."""
    for folder in ("config", "lib"):
        (tmp_path / folder).symlink_to(project.root / folder)
    yield tmp_path
    for process in left_running(tmp_path):
        process.kill()


@pytest.fixture
def environ(home: Path) -> dict[str, str]:
    port, controller_port = free_ports(2)
    ports = {"FRAUD_BROKER_PORT": str(port), "FRAUD_BROKER_CONTROLLER_PORT": str(controller_port)}
    return {**os.environ, **ports, "FRAUD_HOME": str(home)}


def left_running(home: Path) -> list[psutil.Process]:
    """Processes started for an installation, by what their command lines name."""
    return [
        process
        for process in psutil.process_iter()
        if process.pid != os.getpid() and any(str(home / "var") in argument for argument in command_line(process))
    ]


def command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def start_demo(environ: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "fraud_rules.cli", "demo", *arguments],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def read_until(demo: subprocess.Popen[str], text: str) -> str:
    """What the demo prints, up to a line with the text."""
    assert demo.stdout is not None
    printed = ""
    for line in demo.stdout:
        printed += line
        if text in line:
            return printed
    raise AssertionError(f"the demo ended before it said {text!r}:\n{printed}")


def test_the_demo_is_right_also_when_its_detector_is_killed(home: Path, environ: dict[str, str]) -> None:
    demo = start_demo(environ, "--seconds", str(SECONDS))
    read_until(demo, " of 1 planted")
    detector = json.loads((home / "var" / "demo" / "detector.json").read_text())["pid"]
    os.kill(detector, signal.SIGKILL)
    printed, _ = demo.communicate(timeout=800)

    assert demo.returncode == 0, printed
    assert "the detector was killed (signal 9): starting it again" in printed
    assert "planted frauds found            2 of 2" in printed
    assert "right: every alert equals the replay" in printed
    assert not left_running(home)

    replayed = subprocess.run(
        [sys.executable, "-m", "fraud_rules.cli", "replay", str(home / "var" / "demo" / "recording.json")],
        env=environ,
        capture_output=True,
        check=True,
    )
    assert len(json.loads(replayed.stdout)["alerts"]) >= 2


def test_a_demo_works_at_once_after_one_that_was_killed_and_ends_in_order(home: Path, environ: dict[str, str]) -> None:
    first = start_demo(environ)
    read_until(first, "detector ready")
    first.kill()
    first.wait()
    assert len(left_running(home)) >= 2, "broker and detector outlive a demo that is killed"

    second = start_demo(environ)
    said = read_until(second, "detector ready")
    assert "stopped the detector of an earlier demo" in said
    assert "stopped the broker of an earlier demo" in said
    second.send_signal(signal.SIGINT)
    printed, _ = second.communicate(timeout=120)
    assert second.returncode == 0, printed
    assert "stopping everything this demo started" in printed
    until(lambda: not left_running(home), "nothing the demo started is left", 10)
