"""A process is found again by pid, start time and marker together."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fraud_rules.runtime.process import ProcessHandle

MARKER = f"marker-of-{os.getpid()}"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """Runs until it is killed, or its stdin closes."""
    with subprocess.Popen([sys.executable, "-c", "input()", MARKER], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def handle_of(child: subprocess.Popen[bytes]) -> ProcessHandle:
    handle = ProcessHandle.of(child.pid, MARKER)
    assert handle is not None
    return handle


def test_a_kept_handle_finds_the_process(child: subprocess.Popen[bytes], tmp_path: Path) -> None:
    handle_of(child).write(tmp_path / "handle.json")
    kept = ProcessHandle.read(tmp_path / "handle.json")
    assert kept is not None
    process = kept.process()
    assert process is not None
    assert process.pid == child.pid


def test_a_recycled_pid_is_not_the_process(child: subprocess.Popen[bytes]) -> None:
    handle = handle_of(child)
    assert replace(handle, started_s=handle.started_s - 60).process() is None
    assert replace(handle, marker="another").process() is None
    assert replace(handle, marker="another").end(grace_s=0) is False
    assert child.poll() is None


def test_without_a_handle_the_marker_finds_it(child: subprocess.Popen[bytes]) -> None:
    found = ProcessHandle.find(MARKER)
    assert found is not None
    assert found.pid == child.pid
    assert ProcessHandle.find("a marker that nobody has") is None


@pytest.mark.parametrize("grace_s", [0.0, 5.0])
def test_end_returns_when_it_is_gone(child: subprocess.Popen[bytes], grace_s: float) -> None:
    handle = handle_of(child)
    assert handle.end(grace_s) is True
    assert handle.process() is None
    assert handle.end(grace_s) is False


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b'{"pid": "x", "started_s": 1, "marker": ""}', b"\xff"])
def test_a_damaged_handle_is_no_handle(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "handle.json").write_bytes(text)
    assert ProcessHandle.read(tmp_path / "handle.json") is None
