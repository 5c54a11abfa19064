"""A task's side of the driver's channel, see `stream.channel`."""

from __future__ import annotations

import logging
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Self

from pyspark import TaskContext

if TYPE_CHECKING:
    from pyarrow import flight

from fraud_rules.errors import DetectorFailed
from fraud_rules.runtime.compression import compress
from fraud_rules.stream.channel import (
    AUTHORIZATION,
    CHANNEL_PORT,
    PREPARATION,
    PROGRESS,
    SERVER_NAME,
    ChannelAddress,
    EvaluatorAttempt,
    PreparationReport,
    TaskReport,
    bearer,
    part_name,
)
from fraud_rules.stream.worker.wire import OutputRow, ReplyPart, TaskRow, in_row, sent

_QUIET_S: Final = 1.0
_BEAT_S: Final = 1.0
_REPORT_TIMEOUT_S: Final = 2.0
_OUTPUT_TIMEOUT_S: Final = 300.0
_EXCHANGE_TIMEOUT_S: Final = 600.0
"""Spark ends a silent task earlier, see `spark.python.worker.idleTimeoutSeconds`."""

_PART_BYTES: Final = 1_048_576

_log = logging.getLogger(__name__)


class TaskWork:
    """The progress of one task that runs the engine, a `TaskProgress`. A failed report is logged and ignored.

    A repeated task reports at once. So the loss of a host counts as progress, and a supervisor does not restart a
    detector that has just moved its batch to another host.
    """

    def __init__(self, channel: ChannelAddress | None, batch_id: int) -> None:
        """Without a channel, the task reports nothing."""
        context = TaskContext.get()
        self._channel = channel
        self._batch_id = batch_id
        self._task, self._attempt = (0, 0) if context is None else (context.partitionId(), context.attemptNumber())
        self._fetched_bytes = self._restored = self._rows = self._key_groups = 0
        self._restores = False
        self._due_s = time.monotonic() + (0.0 if self._attempt else _QUIET_S)
        self._report()

    def fetched(self, size_bytes: int) -> None:
        """Add bytes read from the topic of the state, see `TaskProgress`."""
        self._fetched_bytes += size_bytes
        self._restores = True
        self._report()

    def restored(self, events: int) -> None:
        """Add restored events, see `TaskProgress`."""
        self._restored += events
        self._restores = True
        self._report()

    def evaluated(self, rows: int) -> None:
        """Add evaluated rows, see `TaskProgress`."""
        self._rows += rows
        self._restores = False
        self._report()

    def key_group_done(self) -> None:
        """Count an evaluated key group."""
        self._key_groups += 1
        self._restores = False
        self._report()

    def _report(self) -> None:
        if self._channel is None or time.monotonic() < self._due_s:
            return
        report = TaskReport(
            self._batch_id,
            self._task,
            self._attempt,
            self._restored,
            self._rows,
            self._key_groups,
            self._restores,
            self._fetched_bytes,
        )
        _report(self._channel, PROGRESS, report.encode())
        self._due_s = time.monotonic() + _QUIET_S


class Exchange:
    """The evaluator's requests and replies, as long as the driver wants them. Each method raises DetectorFailed if the
    driver is gone.

    From a request to its reply, a thread sends an empty part each second, so the driver knows a process that is alive.
    """

    def __init__(self, channel: ChannelAddress, job: int) -> None:
        """`job` is the driver's number of the evaluator's job."""
        context = TaskContext.get()
        self._attempt = EvaluatorAttempt(job, 0 if context is None else context.attemptNumber())
        self._channel = channel
        self._ended = threading.Event()
        self._writing = threading.Lock()
        self._is_evaluating = False

    def __enter__(self) -> Self:
        from pyarrow import ArrowException, flight

        self._errors: tuple[type[Exception], ...] = (OSError, ArrowException)
        descriptor = flight.FlightDescriptor.for_command(self._attempt.encode())
        self._writer, self._reader = self._call(
            _client(self._channel).do_exchange, descriptor, _options(self._channel, _EXCHANGE_TIMEOUT_S)
        )
        threading.Thread(target=self._beat, name="alive", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        # The driver has closed the exchange, or the task raises another error.
        with self._writing, suppress(*self._errors):
            self._writer.close()

    def next_request(self) -> bytes | None:
        """The next request. None at the end of the exchange."""
        try:
            request = bytes(self._call(self._reader.read_chunk).app_metadata)
        except StopIteration:
            return None
        self._is_evaluating = True
        return request

    def reply(self, rows: Iterable[OutputRow]) -> None:
        """Reply to the last request."""
        part, size = list[OutputRow](), 0
        for row in rows:
            if size >= _PART_BYTES:
                self._write(ReplyPart(part, is_last=False))
                part, size = [], 0
            part.append(row)
            size += len(row.blob) + len(row.state or b"")
        self._is_evaluating = False
        self._write(ReplyPart(part, is_last=True))

    def _write(self, part: ReplyPart) -> None:
        with self._writing:
            self._call(self._writer.write_metadata, part.encode())

    def _beat(self) -> None:
        alive = ReplyPart([], is_last=False).encode()
        while not self._ended.wait(_BEAT_S):
            with self._writing:
                if self._is_evaluating and not self._ended.is_set():
                    with suppress(*self._errors):  # the task's own call raises it
                        self._writer.write_metadata(alive)

    def _call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return method(*arguments)
        except self._errors as error:
            raise _unreachable("exchange batches with", self._channel, error) from error


def pack(channel: ChannelAddress | None, output: bytes, limit_bytes: int) -> bytes:
    """Pack an output into a row for `wire.unpack`. With a channel, an output above the limit goes to the driver, and
    the row holds its name.

    Raises DetectorFailed if the driver does not receive it.
    """
    compressed = compress(output)
    if channel is None or len(compressed) <= limit_bytes:
        return in_row(compressed)
    name = uuid.uuid4().hex  # of this attempt of the task
    _send(channel, name, memoryview(compressed))
    return sent(name)


def report_preparation(channel: ChannelAddress, report: PreparationReport) -> None:
    """Send the CPU time of an executor's Python daemon. A failed report is logged and ignored."""
    _report(channel, PREPARATION, report.encode())


def received(channel: ChannelAddress | None, batch_id: int, number: int) -> Iterator[TaskRow]:
    """The rows that the driver hands out to the task with this number in a large batch.

    Raises DetectorFailed if the driver does not send them.
    """
    import pyarrow as pa
    from pyarrow import flight

    assert channel is not None
    try:
        ticket = flight.Ticket(part_name(batch_id, number))
        table = _client(channel).do_get(ticket, _options(channel, _OUTPUT_TIMEOUT_S)).read_all()
    except (OSError, pa.ArrowException) as error:
        raise _unreachable("receive the rows of a batch from", channel, error) from error
    yield from map(TaskRow, *(column.to_pylist() for column in table.columns))


def _unreachable(action: str, channel: ChannelAddress, error: Exception) -> DetectorFailed:
    return DetectorFailed(
        f"{socket.gethostname()} cannot {action} the driver at {channel.location}: "
        f"{' '.join(str(error).split())[:300]} (is the port open? see {CHANNEL_PORT})"
    )


def _report(channel: ChannelAddress, action: str, body: bytes) -> None:
    from pyarrow import ArrowException, flight

    try:
        list(_client(channel).do_action(flight.Action(action, body), _options(channel, _REPORT_TIMEOUT_S)))
    except (OSError, ArrowException) as error:
        _log.warning("the driver does not receive a report of %s: %s", action, error)


def _send(channel: ChannelAddress, name: str, output: memoryview) -> None:
    import pyarrow as pa
    from pyarrow import flight

    schema = pa.schema([("part", pa.binary())])
    try:
        descriptor = flight.FlightDescriptor.for_command(name)
        writer, _ = _client(channel).do_put(descriptor, schema, _options(channel, _OUTPUT_TIMEOUT_S))
        with writer:
            for start in range(0, len(output), _PART_BYTES):
                part = pa.array([output[start : start + _PART_BYTES]], pa.binary())
                writer.write_batch(pa.record_batch([part], schema=schema))
    except (OSError, pa.ArrowException) as error:
        raise _unreachable(f"send an output of {len(output):,} bytes to", channel, error) from error


@lru_cache(maxsize=1)
def _client(channel: ChannelAddress) -> flight.FlightClient:
    from pyarrow import flight

    return flight.connect(channel.location, tls_root_certs=channel.certificate, override_hostname=SERVER_NAME)


def _options(channel: ChannelAddress, timeout_s: float) -> flight.FlightCallOptions:
    from pyarrow import flight

    headers = [(AUTHORIZATION.encode(), bearer(channel.token).encode())]
    return flight.FlightCallOptions(timeout=timeout_s, headers=headers)
