"""The evaluator of small batches: a Spark job of one task that stays, see `worker.evaluator_task`.

A thread runs the job. Its task connects to the driver's channel, gets one request after the other, and replies with the
outputs. Before the reply to a request is complete, nothing of its batch is written, so Spark may repeat the task, and
the new attempt gets the same request.

The driver ends a job after `LIFETIME_S`, between two requests, and starts the next one, which follows the steady
executor. Another job that needs the core suspends the evaluator. A process that evaluates sends a sign of life each
second. Without one for `SILENT_S`, because it is stopped or its host is cut off, its job is cancelled, and the next job
gets the request. A slow host has more time at each repetition.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import msgspec
from py4j.protocol import Py4JError
from pyarrow import flight
from pyspark import SparkContext

from fraud_rules.stream.batch_order import BatchOrder
from fraud_rules.stream.channel import EvaluatorAttempt
from fraud_rules.stream.driver.channel_server import ChannelServer, EvaluatorConnection
from fraud_rules.stream.driver.executors import ReadyExecutors
from fraud_rules.stream.driver.placement import located, run_tasks
from fraud_rules.stream.worker.context import WorkerContext
from fraud_rules.stream.worker.evaluator_task import EvaluatorTask
from fraud_rules.stream.worker.wire import OutputRow, ReplyPart

LIFETIME_S: Final = 120.0
"""Spark kills a worker that is silent for 300 s (`spark.python.worker.idleTimeoutSeconds`), so a request has at least
three minutes. The next job may get another worker, whose first request takes 0.1 s more."""

SILENT_S: Final = 5.0
"""How long an evaluator may be silent at the first attempt of a request; twice as long at each further one."""

_LOOK_S: Final = 1.0
_STOP_S: Final = 5.0

_log = logging.getLogger(__name__)


class _Request:
    """A request, and its reply or the error of the job. `sent_to` is the last job that has received it, and `heard_s`
    the time of its last sign of life."""

    def __init__(self, order: BatchOrder) -> None:
        self.order = order.encode()
        self.sent_to = 0
        self.heard_s = 0.0
        self.silent_s = SILENT_S
        self.rows: list[OutputRow] | None = None
        self.error: BaseException | None = None

    @property
    def has_ended(self) -> bool:
        return self.rows is not None or self.error is not None

    def heard(self) -> None:
        """Record a sign of life."""
        self.heard_s = time.monotonic()


class Evaluator:
    """Evaluates small batches."""

    def __init__(
        self,
        spark: SparkContext,
        context: WorkerContext,
        executors: ReadyExecutors,
        channel: ChannelServer,
        lifetime_s: float = LIFETIME_S,
    ) -> None:
        self._spark = spark
        self._context = context
        self._executors = executors
        self._lifetime_s = lifetime_s
        self._changed = threading.Condition()
        # The condition guards all of these.
        self._is_needed = self._is_running = self._is_stopped = False
        self._suspensions = 0
        self._job = self._abandoned = 0
        self._location: str | None = None
        self._has_replied = False
        self._connected, self._is_connected = EvaluatorAttempt(0, 0), False
        self._request: _Request | None = None
        channel.serve_evaluator(self._serve)
        self._thread = threading.Thread(target=self._run, name="evaluator", daemon=True)
        self._thread.start()

    def evaluate(self, order: BatchOrder) -> list[OutputRow]:
        """Evaluate a batch. Only one thread may call this. Raises the error of Spark's job if it fails meanwhile."""
        request = _Request(order)
        with self._changed:
            self._request, self._is_needed = request, True
            self._changed.notify_all()
            while not self._changed.wait_for(lambda: request.has_ended, _LOOK_S):
                if self._is_silent(request):
                    self._abandon(request)
            self._request = None
        if request.error is not None:
            raise request.error
        assert request.rows is not None
        return request.rows

    def _is_silent(self, request: _Request) -> bool:
        """Whether the present job has received the request, is connected and gives no sign of life. False once it is
        abandoned. Spark itself notices a process that has ended, and the next attempt needs time to start."""
        is_at_work = self._is_running and request.sent_to == self._job and self._abandoned != self._job
        return is_at_work and self._is_connected and time.monotonic() > request.heard_s + request.silent_s

    def _abandon(self, request: _Request) -> None:
        """Cancel the present job, and leave the request to the next one, on another executor if there is one."""
        _log.warning(
            "the evaluator (job %d, %s) gave no sign of life for %g s: the next one gets its batch",
            self._job, self._location or "local", request.silent_s,
        )  # fmt: skip
        self._abandoned = self._job
        request.silent_s *= 2
        self._executors.avoid(self._location)
        with suppress(Py4JError, OSError):
            self._spark.cancelJobGroup(_group(self._job))

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Leave the core to another job. The job ends before the block, after its request if it has one. A further
        request waits for the end of the block."""
        with self._changed:
            self._suspensions += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._is_running)
        try:
            yield
        finally:
            with self._changed:
                self._suspensions -= 1
                self._changed.notify_all()

    def stop(self) -> None:
        """End the job and the thread. A job that does not end is cancelled."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        self._thread.join(_STOP_S)
        if self._thread.is_alive():
            with suppress(Py4JError, OSError):
                self._spark.cancelAllJobs()
            self._thread.join(_STOP_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._may_run() or self._is_stopped)
                if self._is_stopped:
                    return
                self._job += 1
                self._is_running, self._has_replied = True, False
            error = self._run_job(self._job)
            with self._changed:
                self._is_running = False
                if error is not None:
                    self._failed(error)
                self._changed.notify_all()

    def _run_job(self, job: int) -> BaseException | None:
        try:
            # Without an interruption, Spark kills the Python process of a cancelled task, also a stopped one.
            self._spark.setJobGroup(_group(job), "evaluates small batches", interruptOnCancel=False)
            self._location = self._executors.steady()
            one = located(self._spark, [self._location])
            run_tasks(one.mapPartitions(EvaluatorTask(self._context, job).run))
        except BaseException as error:  # noqa: BLE001 - `evaluate` raises it
            return error
        return None

    def _failed(self, error: BaseException) -> None:
        """Pass the error to the request. If the job has worked, and ended before it received the request, or if it is
        abandoned, the next job gets the request."""
        request = self._request if self._has_request() else None
        if (
            request is not None
            and self._abandoned != self._job
            and (request.sent_to == self._job or not self._has_replied)
        ):
            request.error = error
        else:
            _log.warning("the evaluator has ended between two batches, the next batch starts it again: %s", error)
        self._is_needed = request is not None and request.error is None

    def _serve(self, name: bytes, connection: EvaluatorConnection) -> None:
        """Exchange requests and replies with an attempt of the task, in a thread of the channel.

        Raises FlightServerError if the attempt is not the newest one.
        """
        attempt = self._accept(name)
        due_s = time.monotonic() + self._lifetime_s
        try:
            while (request := self._next_request(attempt, due_s, connection)) is not None:
                connection.writer.write_metadata(request.order)
                rows = read_reply(connection.reader, request.heard)
                with self._changed:
                    if self._connected == attempt:
                        request.rows, self._has_replied = rows, True
                        self._changed.notify_all()
        finally:
            with self._changed:
                if self._connected == attempt:
                    self._is_connected = False

    def _accept(self, name: bytes) -> EvaluatorAttempt:
        try:
            attempt = EvaluatorAttempt.decode(name)
        except msgspec.DecodeError as error:
            raise flight.FlightServerError(f"not an attempt of the evaluator: {error}") from error
        with self._changed:
            is_current = self._is_running and attempt.job == self._job
            if not is_current or attempt <= self._connected:
                raise flight.FlightServerError(f"another attempt of the evaluator is served, not {attempt}")
            self._connected, self._is_connected = attempt, True
            self._changed.notify_all()
        return attempt

    def _next_request(
        self, attempt: EvaluatorAttempt, due_s: float, connection: EvaluatorConnection
    ) -> _Request | None:
        """Wait for the next request. None if the attempt has to end."""
        with self._changed:
            wait_s = max(0.0, due_s - time.monotonic())
            self._changed.wait_for(lambda: self._has_request() or not self._may_serve(attempt), wait_s)
            is_served = self._may_serve(attempt) and not connection.is_broken()
            if self._request is None or not self._has_request() or not is_served:
                return None
            self._request.sent_to = attempt.job
            self._request.heard()
            return self._request

    def _may_run(self) -> bool:
        return self._is_needed and not self._suspensions and not self._is_stopped

    def _may_serve(self, attempt: EvaluatorAttempt) -> bool:
        return self._may_run() and self._connected == attempt

    def _has_request(self) -> bool:
        return self._request is not None and not self._request.has_ended


def _group(job: int) -> str:
    return f"evaluator-{job}"


def read_reply(reader: Any, heard: Callable[[], None]) -> list[OutputRow]:
    """The rows of a reply. Calls `heard` for each part. Raises FlightServerError, and pyarrow's errors if the
    connection breaks."""
    rows: list[OutputRow] = []
    while True:
        try:
            part = ReplyPart.decode(reader.read_chunk().app_metadata or b"")
        except StopIteration:
            raise flight.FlightServerError("the evaluator has ended within a reply") from None
        except msgspec.DecodeError as error:
            raise flight.FlightServerError(f"not a reply of the evaluator: {error}") from error
        heard()
        rows += part.rows
        if part.is_last:
            return rows
