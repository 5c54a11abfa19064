"""The first task of an executor finds the number of its executor."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from fraud_rules.errors import DetectorFailed
from fraud_rules.stream.worker.first_task import executor_number
from tests.support.waiting import until

CHILD = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"


def test_an_executor_is_an_ancestor_with_its_number() -> None:
    command = [sys.executable, "-c", CHILD, "--driver-url", "spark://a:1", "--executor-id", "17", "--cores", "2"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as executor:
        (worker,) = until(lambda: psutil.Process(executor.pid).children(), "the worker runs")
        assert executor_number(worker.pid) == "17"
        executor.communicate(b"\n")


def test_a_process_without_an_executor_is_named() -> None:
    with pytest.raises(DetectorFailed, match="no descendant of an executor"):
        executor_number(os.getpid())
