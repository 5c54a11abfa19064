"""How the detector ends: asked to, or by an error, which gets a name of this product's."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from fraud_rules import errors
from fraud_rules.errors import CheckpointDamaged, DetectorFailed, FraudError, MemoryExhausted, OffsetsLost, StorageFull

_NAMED = re.compile(r"fraud_rules\.errors\.(\w+): (.+)")
_CAUSE = re.compile(r"^(?:Caused by: )?([\w.$]*(?:Error|Exception): .+)$", re.MULTILINE)
_STATE_NOT_WHOLE = re.compile(
    r"CANNOT_READ_STREAMING_STATE_FILE|CHECKSUM_VERIFICATION_FAILED|ROW_CHECKSUM|ChecksumException"
    r"|FileNotFoundException: [^\n]*/state/"
)
"""How Spark says that a file of the state is missing, or is not what was written."""

_RECORDS_GONE = re.compile(
    r"KAFKA_DATA_LOSS|OffsetOutOfRangeException|data may have been (?:lost|missed)", re.IGNORECASE
)
"""How Spark and Kafka's client say that records were removed before they were read."""

_EXECUTOR_OUT_OF_MEMORY = re.compile(r"ExecutorLostFailure[^\n]*exited with code (?:3|52)\b")
"""3 is what ExitOnOutOfMemoryError ends a JVM with, 52 what Spark ends an executor with."""

_OUT_OF_MEMORY = 3
_JVM_END_S = 5.0
_MESSAGE_LENGTH = 500


def named(error: BaseException) -> FraudError:
    """What ended the query: the error of this product that a worker raised, or else the innermost cause there is."""
    if isinstance(error, Py4JError | OSError | EOFError) and not getattr(error, "java_exception", None):
        return _jvm_ended()
    ours = _ours(error)
    if ours is not None:
        return ours
    text = str(error)
    cause = _cause(text)
    if _EXECUTOR_OUT_OF_MEMORY.search(text):
        return MemoryExhausted(
            "an executor has run out of memory: raise spark.executor.memory; the next start repeats the batch in hand"
        )
    if _STATE_NOT_WHOLE.search(text):
        return CheckpointDamaged(
            f"the checkpoint's state is not whole: {cause[:_MESSAGE_LENGTH]}; restore the checkpoint"
        )
    if _RECORDS_GONE.search(text):
        return OffsetsLost(
            f"records are gone before they were read: {cause[:_MESSAGE_LENGTH]}; the next start says which ones"
        )
    return DetectorFailed(f"{cause[:_MESSAGE_LENGTH]}; the next start repeats the batch in hand")


def _jvm_ended() -> FraudError:
    """Why Spark's JVM is gone, by its exit code where it has one."""
    process = getattr(SparkContext._gateway, "proc", None)
    code = None
    if process is not None:
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(_JVM_END_S)
    if code == _OUT_OF_MEMORY:
        return MemoryExhausted(
            "Spark's JVM has run out of memory: raise --driver-memory; the next start repeats the batch in hand"
        )
    return DetectorFailed("Spark's JVM has ended; the next start repeats the batch in hand")


def is_late_worker(error: BaseException) -> bool:
    """Whether a Python worker has not connected within the ten seconds that Spark grants it: a limit without a
    setting."""
    return "connect back" in str(error)


def named_as(kind: type[FraudError], error: BaseException) -> FraudError:
    """What ended a batch job: an error of this product, a full disk, or `kind` with the innermost cause there is."""
    ours = _ours(error)
    if ours is not None:
        return ours
    cause = _cause(str(error))[:_MESSAGE_LENGTH]
    if os.strerror(errno.ENOSPC) in str(error):
        return StorageFull(f"{cause}: free some space and run this again; nothing is lost")
    return kind(f"{cause}; run it again")


def _ours(error: BaseException) -> FraudError | None:
    """The error itself, or the one that a worker raised and Spark tells of in its own words."""
    if isinstance(error, FraudError):
        return error
    for name, message in _NAMED.findall(str(error)):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, FraudError):
            with suppress(TypeError):
                return kind.of_message(message)
    return None


def _cause(text: str) -> str:
    causes = _CAUSE.findall(text)
    return causes[-1] if causes else " ".join(text.split())


def stop_query(query: StreamingQuery) -> None:
    """End the query, if its JVM is still there."""
    with suppress(Py4JError, OSError):
        query.stop()


def stop_spark(spark: SparkSession) -> None:
    """End Spark, if its JVM is still there."""
    with suppress(Py4JError, OSError):
        spark.stop()


@contextmanager
def signals(drain: threading.Event) -> Iterator[None]:
    """SIGTERM and SIGINT ask for an end in order; a second one ends at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        if drain.is_set():
            sys.exit(128 + number)
        drain.set()

    known = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in known.items():
            signal.signal(number, handler)
