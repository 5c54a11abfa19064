"""The first task of an executor finds the number of its executor, and the digest of its host's code."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.deploy.code import code_digest
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


FIRST_TASK = """
import sys
from fraud_rules.stream.worker.first_task import FirstTask
((number, fault),) = FirstTask(sys.argv[1]).run([])
print(number, fault)
"""


def test_a_worker_with_other_code_is_named_by_host_and_digests(project: Project, tmp_path: Path) -> None:
    """It would evaluate by its own code, and write wrong alerts in silence."""
    other = tmp_path / "other"
    shutil.copytree(project.root / "spark_jobs", other, ignore=shutil.ignore_patterns("__pycache__"))
    with (other / "fraud_rules" / "errors.py").open("a") as file:
        file.write("# another release\n")
    done = subprocess.run(
        [sys.executable, "-c", FIRST_TASK, code_digest(), "--executor-id", "17"],
        env={**os.environ, "PYTHONPATH": str(other)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(f"17 {socket.gethostname()} has other code than the driver: {other} has digest ")
    assert f"the driver {code_digest()}" in done.stdout
