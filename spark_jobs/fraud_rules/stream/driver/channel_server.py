"""The server of the driver's channel, see `stream.channel`."""

from __future__ import annotations

import datetime
import hmac
import secrets
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec
import pyarrow as pa
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pyarrow import ArrowException, flight

from fraud_rules.errors import DetectorFailed
from fraud_rules.stream.channel import (
    AUTHORIZATION,
    CHANNEL_PORT,
    PREPARATION,
    PROGRESS,
    SERVER_NAME,
    ChannelAddress,
    PreparationReport,
    TaskReport,
    bearer,
    part_name,
)
from fraud_rules.stream.work import TasksProgress
from fraud_rules.stream.worker.wire import TaskRow


class EvaluatorConnection(NamedTuple):
    """The connection of an attempt of the evaluator: its reader and writer, and whether the attempt has left."""

    reader: Any
    writer: Any
    is_broken: Callable[[], bool]


_Key = TypeVar("_Key")
_Report = TypeVar("_Report")

ServeEvaluator: TypeAlias = Callable[[bytes, EvaluatorConnection], None]
"""Exchanges batches with an attempt of the evaluator, whose name it receives."""

_MOST_TASKS: Final = 10_000
"""A batch has fewer tasks, and a cluster fewer executors. Further reports of progress are ignored."""

_SHUTDOWN_S: Final = 2.0

_VALID: Final = datetime.timedelta(days=3_650)


class ChannelServer(flight.FlightServerBase):  # type: ignore[misc] # pyarrow has no types
    """Receives what the tasks of a start send. Only tasks with the start's token are heard."""

    def __init__(self, host: str, bind: str, port: int = 0) -> None:
        """Listens at once at the address `bind`, with TLS. Tasks connect to `host`. Port 0 is a free port.

        Raises DetectorFailed if the port cannot be used.
        """
        token, (certificate, key) = secrets.token_hex(32), _certificate()
        authorization = {AUTHORIZATION: _Authorization(token)}
        try:
            super().__init__(
                f"grpc+tls://{bind}:{port}", tls_certificates=[(certificate, key)], middleware=authorization
            )
        except (OSError, ArrowException) as error:
            raise DetectorFailed(
                f"the driver cannot listen for its tasks at {bind}:{port}: {error} (set spark.driver.bindAddress or "
                f"{CHANNEL_PORT})"
            ) from error
        self.address = ChannelAddress(f"grpc+tls://{host}:{self.port}", token, certificate)
        self._lock = threading.Lock()
        self._reports: dict[int, TaskReport] = {}
        self._prepared_s: dict[str, float] = {}
        self._outputs: dict[str, IO[bytes]] = {}
        self._parts: dict[bytes, pa.Table] = {}
        self._serve_evaluator: ServeEvaluator | None = None

    def do_action(self, context: Any, action: Any) -> list[bytes]:
        """Receive the progress of a task, or of an executor before its first task."""
        try:
            if action.type == PROGRESS:
                task = TaskReport.decode(action.body.to_pybytes())
                self._keep(self._reports, task.task, task)
            elif action.type == PREPARATION:
                preparation = PreparationReport.decode(action.body.to_pybytes())
                self._keep(self._prepared_s, preparation.daemon, preparation.cpu_s)
            else:
                raise flight.FlightServerError(f"unknown action {action.type}")
        except msgspec.DecodeError as error:
            raise flight.FlightServerError(f"not a report of progress: {error}") from error
        return []

    def _keep(self, reports: dict[_Key, _Report], key: _Key, report: _Report) -> None:
        with self._lock:
            if key in reports or len(reports) < _MOST_TASKS:
                reports[key] = report

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Receive an output in parts. Its file has no name, so it is gone with this process."""
        file = tempfile.TemporaryFile()  # noqa: SIM115 - `output` closes it
        try:
            for chunk in reader:
                for part in chunk.data.column(0):
                    file.write(part.as_buffer())
            file.flush()
        except BaseException:
            file.close()
            raise
        with self._lock:
            self._outputs[descriptor.command.decode()] = file

    def hand_out(self, batch_id: int, parts: Sequence[Sequence[TaskRow]]) -> None:
        """Set the rows of the parts of a large batch. Tasks fetch their parts by number."""
        self._parts = {part_name(batch_id, number): _table_of(part) for number, part in enumerate(parts)}

    def do_get(self, context: Any, ticket: Any) -> Any:
        """Send a part to its task. A task of an earlier batch gets none."""
        part = self._parts.get(ticket.ticket)
        if part is None:
            raise flight.FlightServerError(f"no part {ticket.ticket!r}: another batch runs")
        return flight.RecordBatchStream(part)

    def serve_evaluator(self, serve: ServeEvaluator) -> None:
        """Set the function that serves the evaluator of small batches, in a thread of this server."""
        self._serve_evaluator = serve

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Exchange batches with an attempt of the evaluator, until one of both ends it."""
        if self._serve_evaluator is None:
            raise flight.FlightServerError("this driver has no evaluator")
        self._serve_evaluator(descriptor.command or b"", EvaluatorConnection(reader, writer, context.is_cancelled))

    def output(self, name: str) -> bytes:
        """The output that a task has sent under this name, once. Raises DetectorFailed without one."""
        with self._lock:
            file = self._outputs.pop(name, None)
        if file is None:
            raise DetectorFailed(f"a task has not sent its output {name} to the driver: this is a defect, report it")
        with file:
            file.seek(0)
            return file.read()

    def progress(self, batch_id: int) -> TasksProgress:
        """What the tasks of a batch have reported so far."""
        with self._lock:
            reports = [each for each in self._reports.values() if each.batch_id == batch_id]
        return TasksProgress(
            sum(each.restored for each in reports),
            sum(each.rows for each in reports),
            sum(each.key_groups for each in reports),
            any(each.restores for each in reports),
            sum(each.fetched_bytes for each in reports),
            sum(each.attempt for each in reports),
        )

    def prepared_s(self) -> float:
        """The CPU time that all executors have reported before their first task."""
        with self._lock:
            return sum(self._prepared_s.values())

    def batch_ended(self) -> None:
        """Drop the progress and the parts of the batch, and the outputs of attempts that Spark has not used."""
        self._parts = {}
        with self._lock:
            self._reports.clear()
            unused, self._outputs = self._outputs, {}
        for file in unused.values():
            file.close()


@contextmanager
def serve_channel(host: str, bind: str, port: int = 0) -> Iterator[ChannelServer]:
    """A server that ends with the context. Raises DetectorFailed.

    The server waits for its calls, and the call of a host that is cut off can last for hours. So this waits for the
    server `_SHUTDOWN_S` at most.
    """
    server = ChannelServer(host, bind, port)
    try:
        yield server
    finally:
        server.batch_ended()
        shutdown = threading.Thread(target=server.shutdown, name="channel-shutdown", daemon=True)
        shutdown.start()
        shutdown.join(_SHUTDOWN_S)


def _table_of(rows: Sequence[TaskRow]) -> pa.Table:
    groups, blobs, marks = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        [pa.array(groups, pa.int32()), pa.array(blobs, pa.binary()), pa.array(marks, pa.binary())], TaskRow._fields
    )


class _Authorization(flight.ServerMiddlewareFactory):  # type: ignore[misc] # pyarrow has no types
    """Refuses a call without the token, before anything of it is read."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._expected = bearer(token).encode()

    def start_call(self, info: Any, headers: Any) -> None:
        given = headers.get(AUTHORIZATION, [""])[0]
        if not hmac.compare_digest(str(given).encode(), self._expected):
            raise flight.FlightUnauthenticatedError("this is not a task of the detector's present start")


def _certificate() -> tuple[str, str]:
    """A certificate for `SERVER_NAME`, signed by itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, SERVER_NAME)])
    # The clocks of the hosts may differ, and a detector runs for years.
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _VALID)
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(SERVER_NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return (
        certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode(),
    )
