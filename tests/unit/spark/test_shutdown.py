"""The errors of Spark's tasks keep their host and their cause."""

from __future__ import annotations

import pytest

from fraud_rules.errors import DetectorFailed, FraudError, ReleaseInvalid
from fraud_rules.spark.shutdown import detector_error, executor_of

FAILED = "Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: "
LOST = FAILED + "Lost task 0.3 in stage 1.0 (TID 4) (10.0.0.3 executor 7): "
NO_PACKAGE = """org.apache.spark.SparkException:
Error from python worker:
  Traceback (most recent call last):
  ModuleNotFoundError: No module named 'fraud_rules'
PYTHONPATH was:
  /opt/spark
org.apache.spark.SparkException: EOFException occurred while reading the port number from daemon's stdout
Caused by: java.io.EOFException: nothing
"""
OTHER_CODE = "org.apache.spark.api.python.PythonException: fraud_rules.errors.ReleaseInvalid: host3 has other code\n"
LOCAL = FAILED + "Lost task 0.3 in stage 1.0 (TID 4) (127.0.0.1 executor driver): java.io.IOException: broken"


@pytest.mark.parametrize(
    ("text", "kind", "message", "executor"),
    [
        (LOST + NO_PACKAGE, DetectorFailed, "10.0.0.3: ModuleNotFoundError: No module named 'fraud_rules'; the", "7"),
        (LOST + OTHER_CODE, ReleaseInvalid, "host3 has other code", "7"),
        (LOST + "\njava.io.IOException: broken", DetectorFailed, "10.0.0.3: java.io.IOException: broken; the", "7"),
        (LOCAL, DetectorFailed, "Job aborted", None),
    ],
)
def test_an_error_of_a_task_names_host_and_cause(
    text: str, kind: type[FraudError], message: str, executor: str | None
) -> None:
    error = RuntimeError(text)
    mapped = detector_error(error)
    assert type(mapped) is kind
    assert str(mapped).startswith(message)
    assert executor_of(error) == executor
