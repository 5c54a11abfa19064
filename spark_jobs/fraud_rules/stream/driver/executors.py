"""Prepares the Python workers of Spark's executors before a batch may need them.

The first Python task on an executor imports the product, and loads the kernel or compiles it for more than a minute. So
each executor gets a first task of its own, beside the batches, see `FirstTask`. An executor is *ready* after it.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fraud_rules.errors import DetectorFailed, FraudError, ReleaseInvalid
from fraud_rules.spark.shutdown import detector_error, executor_of
from fraud_rules.stream.driver.placement import executors, located, run_tasks
from fraud_rules.stream.worker.first_task import FirstTask

_LOOK_S: Final = 1.0
_SPARK_ERRORS: Final = (PySparkException, Py4JError, OSError)

_log = logging.getLogger(__name__)


class ReadyExecutors:
    """The ready executors of a cluster. A thread prepares each executor, also one that joins later.

    An executor that joins later and cannot run the product is removed, and the batches continue on the others. With a
    local master there are no executors: the thread starts the Python workers, and ends.
    """

    def __init__(self, spark: SparkSession, code: str) -> None:
        """Starts the thread. `code` is the digest of the driver's code, empty with a local master."""
        self._spark = spark
        self._code = code
        self._prepared: set[str] = set()
        self._ready: tuple[str, ...] = ()
        self._steady: str | None = None
        self._avoided: set[str | None] = set()
        self._stop = threading.Event()
        self._started = threading.Event()
        self._error: FraudError | None = None
        self._thread = threading.Thread(target=self._run, name="executors", daemon=True)
        self._thread.start()

    def join(self, waiting: Callable[[], None] = lambda: None) -> None:
        """Wait until the executors of the start are ready, and call `waiting` each second. The limit is the
        supervisor's. Raises ReleaseInvalid and DetectorFailed with the host."""
        while not self._started.wait(_LOOK_S):
            waiting()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """End the thread after its current job."""
        self._stop.set()

    def steady(self) -> str | None:
        """The location for small batches: the same executor as long as it lives, so that the views of its host stay
        current. None without a ready executor; then Spark chooses one."""
        ready = [each for each in self._ready if each not in self._avoided] or self._ready
        if self._steady not in ready:
            self._steady = min(ready, default=None)
        return self._steady

    def avoid(self, location: str | None) -> None:
        """Use another location for small batches as long as there is one. Spark notices a lost host later."""
        self._avoided.add(location)

    def places(self, tasks: int) -> list[str | None]:
        """The locations for the tasks of a large batch: the same ones as long as the same executors are ready, so that
        the views of their hosts stay current."""
        ready = sorted(self._ready)
        return [ready[number % len(ready)] if ready else None for number in range(tasks)]

    def _run(self) -> None:
        try:
            run_tasks(located(self._spark.sparkContext, [None, None]).mapPartitions(_nothing), 2)
            self._error = next(iter(self._prepare().values()), None)
        except _SPARK_ERRORS as error:
            self._error = _start_error(error)
        finally:
            self._started.set()
        while self._error is None and self._code and not self._stop.wait(_LOOK_S):
            try:
                unfit = self._prepare()
            except _SPARK_ERRORS as error:
                unfit = {executor_of(error): detector_error(error)}
            if not self._stop.is_set():
                self._remove(unfit)

    def _prepare(self) -> Mapping[str | None, FraudError]:
        """Run the first task on each executor that is not ready. A task whose executor is busy prepares another one.

        Returns the faults of executors with other code, by number.
        """
        if not self._code:
            return {}
        spark = self._spark.sparkContext
        alive = {each.rpartition("_")[2]: each for each in executors(spark)}
        faults: dict[str | None, FraudError] = {}
        if new := sorted(alive.keys() - self._prepared):
            self._ready = self._ready_of(alive)
            tasks = located(spark, [alive[each] for each in new]).mapPartitions(FirstTask(self._code).run)
            found = dict(tasks.collect())
            faults = {number: ReleaseInvalid(fault) for number, fault in found.items() if fault}
            self._prepared |= found.keys() - faults.keys()
        self._ready = self._ready_of(alive)
        return faults

    def _ready_of(self, alive: dict[str, str]) -> tuple[str, ...]:
        return tuple(location for number, location in alive.items() if number in self._prepared)

    def _remove(self, unfit: Mapping[str | None, FraudError]) -> None:
        """Remove executors whose first task has failed. Spark's master does not start them again for this driver."""
        for number, cause in unfit.items():
            if number is None:
                _log.error("the executors that joined are not ready: %s", cause)
                continue
            _log.error("executor %s is removed, and the batches continue without it: %s", number, cause)
            with suppress(Py4JError, OSError):
                self._spark.sparkContext._jsc.sc().killExecutor(number)


def _start_error(error: Exception) -> FraudError:
    cause = detector_error(error)
    if not isinstance(error, PySparkException | Py4JJavaError):
        return cause  # the end of the JVM
    return DetectorFailed(
        f"Spark's Python workers do not start: {cause}. Each worker host needs this package, and Python under the path "
        "of the driver"
    )


def _nothing(elements: Iterable[int]) -> Iterator[int]:
    """Read the input, because Spark ends a worker that leaves it unread."""
    deque(elements, maxlen=0)
    yield from ()
