"""The end of the detector has a limit, and its last line a cause. With processes that hang, and no Spark."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from fraud_rules.errors import DetectorFailed, ShutdownStalled
from tests.support.waiting import until

HANGS = """
import subprocess, sys, threading, time
from fraud_rules.errors import DetectorFailed
from fraud_rules.stream.driver.end_deadline import shutdown_deadline

def say(text):
    print("detector:", text, flush=True)

child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(child.pid, flush=True)
say("running")
ended = threading.Event()
try:
    with shutdown_deadline(ended, say, limit_s=0.2):
        if sys.argv[1] == "fails":
            raise DetectorFailed("Python worker failed to connect back")
finally:
    if sys.argv[1] == "quick":
        ended.set()
        child.kill()
    else:
        time.sleep(600)
"""


@pytest.mark.parametrize(
    ("how", "code", "last"),
    [
        ("fails", DetectorFailed.exit_code, "Python worker failed to connect back (Spark did not stop within 0.2 s"),
        ("drains", ShutdownStalled.exit_code, "Spark did not stop within 0.2 s"),
        ("quick", 0, "running"),
    ],
)
def test_an_end_that_hangs_is_cut_short_and_names_its_cause(how: str, code: int, last: str) -> None:
    done = subprocess.run([sys.executable, "-c", HANGS, how], capture_output=True, text=True, timeout=180, check=False)
    child, *lines = done.stdout.splitlines()
    assert (done.returncode, lines[-1].startswith(f"detector: {last}")) == (code, True), done
    until(lambda: not _is_alive(int(child)), "nothing that it started is left")


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
