"""The priority of a job on the host of a detector: its niceness, and that of its session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

AUTOGROUP = Path("/proc/self/autogroup")

JOB = """
import json, os, subprocess, threading
from fraud_rules.runtime.priority import yield_cores

ended = threading.Event()
thread = threading.Thread(target=ended.wait)
thread.start()
yield_cores(10)
child = ["python3", "-c", "import os; print(os.getpriority(os.PRIO_PROCESS, 0))"]
print(json.dumps({
    "own": os.getpriority(os.PRIO_PROCESS, 0),
    "parent": os.getpriority(os.PRIO_PROCESS, os.getppid()),
    "thread": os.getpriority(os.PRIO_PROCESS, thread.native_id),
    "child": int(subprocess.run(child, capture_output=True, check=True).stdout),
    "session": open("/proc/self/autogroup").read() if os.path.exists("/proc/self/autogroup") else "",
}))
ended.set()
"""

PARENT = "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', sys.argv[1]]).returncode)"


def run(*command: str, own_session: bool, **environment: str) -> dict[str, Any]:
    """Start a job, and return what it has found."""
    known = {name: value for name, value in os.environ.items() if name != "PYSPARK_GATEWAY_PORT"}
    done = subprocess.run(
        [sys.executable, "-c", *command],
        env=known | environment,
        capture_output=True,
        start_new_session=own_session,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found | {"session": last_word(found["session"])}


@pytest.fixture
def before() -> int:
    """The niceness of the tests."""
    return os.getpriority(os.PRIO_PROCESS, 0)


def session_niceness() -> str | None:
    """The niceness of the tests' session."""
    return last_word(AUTOGROUP.read_text()) if AUTOGROUP.exists() else None


def last_word(autogroup: str) -> str | None:
    """The niceness in the text of an autogroup. The text is empty in a session that began before the host's groups."""
    words = autogroup.split()
    return words[-1] if words else None


def test_a_job_with_its_threads_its_children_and_its_session_gets_the_niceness(before: int) -> None:
    nice = max(10, before)
    found = run(JOB, own_session=True)
    assert found == found | {"own": nice, "parent": before, "thread": nice, "child": nice}
    assert found["session"] in (None, "10")


def test_a_session_with_other_processes_keeps_its_niceness(before: int) -> None:
    known = session_niceness()
    found = run(JOB, own_session=False)
    assert found["own"] == max(10, before)
    assert found["session"] == known == session_niceness()


def test_the_jvm_that_has_started_the_job_gets_the_niceness_too(before: int) -> None:
    found = run(PARENT, JOB, own_session=True, PYSPARK_GATEWAY_PORT="1")
    assert found["parent"] == max(10, before)
    assert found["session"] in (None, "10")


def test_another_parent_keeps_its_niceness(before: int) -> None:
    assert run(PARENT, JOB, own_session=True)["parent"] == before
