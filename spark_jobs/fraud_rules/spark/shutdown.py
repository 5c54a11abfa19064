"""Stops Spark, and maps its errors to this product's errors."""

from __future__ import annotations

import errno
import os
import re
import subprocess
from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from fraud_rules import errors
from fraud_rules.errors import DetectorFailed, FraudError, MemoryExhausted, StorageFull

_NAMED = re.compile(r"fraud_rules\.errors\.(\w+): (.+)")
_CAUSE = re.compile(r"^(?:Caused by: )?([\w.$]*(?:Error|Exception): .+)$", re.MULTILINE)
_EXECUTOR_OUT_OF_MEMORY = re.compile(r"ExecutorLostFailure[^\n]*exited with code (?:3|52)\b")
"""Exit code 3 comes from ExitOnOutOfMemoryError in a JVM, 52 from Spark's executors."""

_PLACE = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \((\S+) executor (\d+)\)")
"""The host and the number of the executor on which a task has failed. A local master has no such number."""

_WORKER_OUTPUT = re.compile(r"Error from python worker:\s*\n(.+?)\n\s*PYTHONPATH was", re.DOTALL)
"""The output of a Python daemon that ended before its first task, for example because its host lacks the package."""

_GATEWAY_ERRORS = (Py4JError, ConnectionError, EOFError)
"""The errors of a driver whose JVM has ended. Any other OSError comes from a file, and keeps its own name."""

_FULL = (errno.ENOSPC, errno.EDQUOT)

_OUT_OF_MEMORY = 3
_JVM_END_S = 5.0
_MESSAGE_LENGTH = 500


def detector_error(error: BaseException) -> FraudError:
    """Map the error that ended the detector: this product's error from a worker, the end of Spark's JVM, a full disk,
    else the innermost cause."""
    if isinstance(error, _GATEWAY_ERRORS) and not getattr(error, "java_exception", None):
        return _jvm_ended()
    ours = _ours(error)
    if ours is not None:
        return ours
    text = str(error)
    cause = f"{type(error).__name__}: {text}" if isinstance(error, OSError) else _cause(text)
    if os.strerror(errno.ENOSPC) in text or getattr(error, "errno", None) in _FULL:
        return StorageFull(f"{cause[:_MESSAGE_LENGTH]}: free some space; the next start repeats the current batch")
    if _EXECUTOR_OUT_OF_MEMORY.search(text):
        return MemoryExhausted(
            "an executor has run out of memory: raise spark.executor.memory; the next start repeats the current batch"
        )
    return DetectorFailed(f"{_host(text)}{cause[:_MESSAGE_LENGTH]}; the next start repeats the current batch")


def executor_of(error: BaseException) -> str | None:
    """The number of the executor on which a task has failed. None for another error."""
    found = _PLACE.findall(str(error))
    return found[-1][1] if found else None


def _host(text: str) -> str:
    """The host on which a task has failed, as a prefix of its cause."""
    found = _PLACE.findall(text)
    return f"{found[-1][0]}: " if found else ""


def _jvm_ended() -> FraudError:
    """The error for an ended JVM of Spark, by its exit code if there is one."""
    process = getattr(SparkContext._gateway, "proc", None)
    code = None
    if process is not None:
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(_JVM_END_S)
    if code == _OUT_OF_MEMORY:
        return MemoryExhausted(
            "Spark's JVM has run out of memory: raise --driver-memory; the next start repeats the current batch"
        )
    return DetectorFailed("Spark's JVM has ended; the next start repeats the current batch")


def job_error(kind: type[FraudError], error: BaseException) -> FraudError:
    """Map the error that ended a batch job: this product's error, a full disk, else `kind` with the innermost cause."""
    ours = _ours(error)
    if ours is not None:
        return ours
    cause = _cause(str(error))[:_MESSAGE_LENGTH]
    if os.strerror(errno.ENOSPC) in str(error):
        return StorageFull(f"{cause}: free some space and run the job again; nothing is lost")
    return kind(f"{cause}; run the job again")


def _ours(error: BaseException) -> FraudError | None:
    """The error itself, or the worker's error in the text of Spark's error."""
    if isinstance(error, FraudError):
        return error
    for name, message in _NAMED.findall(str(error)):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, FraudError):
            with suppress(TypeError):
                return kind.of_message(message)
    return None


def _cause(text: str) -> str:
    if (output := _WORKER_OUTPUT.search(text)) is not None:
        return output[1].strip().splitlines()[-1].strip()
    causes = _CAUSE.findall(text)
    return causes[-1] if causes else " ".join(text.split())


def stop_spark(spark: SparkSession) -> None:
    """Stop Spark, if its JVM still runs."""
    with suppress(Py4JError, OSError):
        spark.stop()
