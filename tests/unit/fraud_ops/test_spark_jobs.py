"""Jobs as processes of the real `spark-submit`: their session, their niceness and their ends."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

import psutil
import pytest
from airflow.sdk import Variable
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from fraud_rules.errors import BrokerUnavailable, ConfigError, DayEmpty, DayErased, DayTooOld, FraudError
from fraud_rules_airflow.archive_place import archive_store
from fraud_rules_airflow.operators.batch import WarmUpOperator, _by_name
from tests.support.waiting import until

JOB = """
import json, os, pathlib, sys, time
from fraud_rules.runtime.priority import yield_cores

yield_cores(10)
found = pathlib.Path(sys.argv[1])
found.with_suffix(".new").write_text(json.dumps({"driver": os.getpid(), "jvm": os.getppid()}))
found.with_suffix(".new").rename(found)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("fault", "ends"),
    [
        (DayErased, AirflowSkipException),
        (DayEmpty, AirflowSkipException),
        (BrokerUnavailable, AirflowException),
        (DayTooOld, AirflowFailException),
    ],
)
def test_a_fault_skips_the_day_repeats_the_task_or_ends_it(fault: type[FraudError], ends: type[Exception]) -> None:
    log = f"reevaluate.py: {fault.__name__}: the 20th"
    name, ended = _by_name(AirflowException(f"Cannot execute. Error code is: {fault.exit_code}. {log}"))
    assert (name, type(ended), str(ended)) == (fault.__name__, ends, f"{fault.__name__}: the 20th")


def test_workers_of_several_hosts_need_a_named_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, each host would begin an archive of its own."""
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    monkeypatch.setattr(Variable, "get", lambda _, default: default)
    with pytest.raises(ConfigError, match="fraud_archive must name the archive"):
        archive_store()


def test_a_job_yields_the_cores_and_ends_with_its_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    script, found = tmp_path / "job.py", tmp_path / "found"
    script.write_text(JOB)
    operator = WarmUpOperator(task_id="warm_up")
    operator.application_args = [str(found)]
    operator.env_vars = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYSPARK_PYTHON": sys.executable,
    }
    operator._hook = operator._get_hook()

    ends: list[AirflowException] = []

    def submit() -> None:
        try:
            operator._hook.submit(str(script))
        except AirflowException as error:  # the job is killed
            ends.append(error)

    def runs() -> bool:
        assert not ends, ends
        return found.exists()

    task = threading.Thread(target=submit)
    task.start()
    try:
        until(runs, "the job runs")
        job = {name: psutil.Process(pid) for name, pid in json.loads(found.read_text()).items()}
        assert os.getsid(job["driver"].pid) == job["jvm"].pid
        assert min(each.nice() for each in job.values()) >= 10
    finally:
        operator.on_kill()
        until(lambda: not task.is_alive(), "the task ends")
    until(lambda: not any(each.is_running() for each in job.values()), "driver and JVM have ended")
