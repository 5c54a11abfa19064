"""The driver's channel: large outputs arrive whole, and strangers are not heard."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from pyarrow import flight

from fraud_rules.errors import DetectorFailed
from fraud_rules.model.output import MarkUpdate
from fraud_rules.stream.batch_order import BatchOrder, pack_marks
from fraud_rules.stream.channel import AUTHORIZATION, PREPARATION, PROGRESS, SERVER_NAME, ChannelAddress, bearer
from fraud_rules.stream.driver.channel_server import ChannelServer, EvaluatorConnection, serve_channel
from fraud_rules.stream.driver.evaluator import read_reply
from fraud_rules.stream.pins import NO_PIN
from fraud_rules.stream.work import TasksProgress
from fraud_rules.stream.worker.driver_link import Exchange, pack, received
from fraud_rules.stream.worker.wire import OutputRow, TaskRow, unpack
from tests.support.ports import free_ports

LIMIT_BYTES = 1_000
HOST = "127.0.0.1"


@pytest.fixture
def server() -> Iterator[ChannelServer]:
    with serve_channel(HOST, HOST) as server:
        yield server


def no_output(name: str) -> bytes:
    raise AssertionError(f"{name} was sent")


def incompressible(size: int) -> bytes:
    return random.Random(1).randbytes(size)


def test_a_small_output_stays_in_its_row(server: ChannelServer) -> None:
    assert unpack(pack(server.address, b"small", LIMIT_BYTES), no_output) == b"small"
    assert unpack(pack(None, incompressible(5_000), LIMIT_BYTES), no_output) == incompressible(5_000)


@pytest.mark.parametrize("size", [5_000, 5_000_000])
def test_a_large_output_goes_to_the_driver(size: int, server: ChannelServer) -> None:
    row = pack(server.address, incompressible(size), LIMIT_BYTES)
    assert len(row) < 100
    assert unpack(row, server.output) == incompressible(size)
    with pytest.raises(DetectorFailed, match="has not sent its output"):
        unpack(row, server.output)


def test_the_outputs_of_a_lost_attempt_end_with_the_batch(server: ChannelServer) -> None:
    row = pack(server.address, incompressible(5_000), LIMIT_BYTES)
    server.batch_ended()
    with pytest.raises(DetectorFailed, match="has not sent its output"):
        unpack(row, server.output)


@pytest.mark.parametrize("token", ["", "another"])
def test_a_stranger_is_not_heard(token: str, server: ChannelServer) -> None:
    stranger = ChannelAddress(server.address.location, token, server.address.certificate)
    with pytest.raises(DetectorFailed, match="not a task of the detector"):
        pack(stranger, incompressible(5_000), LIMIT_BYTES)
    with pytest.raises(flight.FlightUnauthenticatedError):
        act(server, b"[4,0,0,1,1,1,true,1]", token=token)
    assert server.progress(4) == TasksProgress()


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b'[4,"0",0,1,1,1,true,1]', b"\xff" * 100_000])
def test_garbage_is_refused_and_harms_nothing(body: bytes, server: ChannelServer) -> None:
    with pytest.raises(flight.FlightServerError, match="not a report of progress"):
        act(server, body)
    act(server, b"[4,0,0,1,2,3,false,5]")
    assert server.progress(4) == TasksProgress(1, 2, 3, restores=False, fetched_bytes=5)


@pytest.mark.parametrize(
    "body", [b"", b'["a"]', b'["a",-1]', b'["a",1e300]', b'["a","1"]', b'["' + b"a" * 301 + b'",1]', b"\xff" * 100_000]
)
def test_a_garbage_preparation_is_refused_and_harms_nothing(body: bytes, server: ChannelServer) -> None:
    with pytest.raises(flight.FlightServerError, match="not a report of progress"):
        act(server, body, kind=PREPARATION)
    for report in (b'["a",2.5]', b'["b",1]', b'["a",4]'):
        act(server, report, kind=PREPARATION)
    assert server.prepared_s() == 5


def test_a_task_gets_the_rows_of_its_part(server: ChannelServer) -> None:
    rows = [TaskRow(1, b"a"), TaskRow(3, b"b"), TaskRow(1, b"c"), TaskRow(5, None, b"marks")]
    server.hand_out(7, [[], rows])
    assert list(received(server.address, 7, 1)) == rows
    assert list(received(server.address, 7, 0)) == []


def test_a_task_of_an_earlier_batch_gets_no_rows(server: ChannelServer) -> None:
    """Its host was cut off, perhaps, while another host evaluated the batch."""
    rows = [TaskRow(1, b"a")]
    server.hand_out(7, [rows])
    server.batch_ended()
    with pytest.raises(DetectorFailed, match="another batch runs"):
        list(received(server.address, 7, 0))
    server.hand_out(8, [rows])
    with pytest.raises(DetectorFailed, match="another batch runs"):
        list(received(server.address, 7, 0))


@pytest.mark.parametrize("sizes", [[], [10, 20], [700_000] * 5, [3_000_000, 1]])
def test_a_reply_of_any_size_arrives_whole(sizes: list[int], server: ChannelServer) -> None:
    rows = [OutputRow(number, incompressible(size), b"state") for number, size in enumerate(sizes)]
    received_rows: list[list[OutputRow]] = []

    def serve(name: bytes, connection: EvaluatorConnection) -> None:
        for request in (b"first", b"second"):
            connection.writer.write_metadata(request)
            received_rows.append(read_reply(connection.reader, lambda: None))

    server.serve_evaluator(serve)
    with Exchange(server.address, 1) as exchange:
        for expected in (b"first", b"second"):
            assert exchange.next_request() == expected
            exchange.reply(iter(rows))
        assert exchange.next_request() is None
    assert received_rows == [rows, rows]


def test_an_order_with_very_many_marks_reaches_the_evaluator(server: ChannelServer) -> None:
    """It is one frame of the exchange."""
    marks = [
        MarkUpdate(number % 64, ("payeeId",), 2, 1, (f"payee-{number:010}",), 1_700_000_000_000 + number, 1)
        for number in range(200_000)
    ]
    order = BatchOrder(NO_PIN, marks=pack_marks(marks))

    def serve(name: bytes, connection: EvaluatorConnection) -> None:
        connection.writer.write_metadata(order.encode())
        read_reply(connection.reader, lambda: None)

    server.serve_evaluator(serve)
    with Exchange(server.address, 1) as exchange:
        assert BatchOrder.decode(exchange.next_request() or b"") == order
        exchange.reply([])


def test_an_error_within_a_reply_ends_the_exchange(server: ChannelServer) -> None:
    faults: list[str] = []

    def serve(name: bytes, connection: EvaluatorConnection) -> None:
        connection.writer.write_metadata(b"request")
        try:
            read_reply(connection.reader, lambda: None)
        except flight.FlightServerError as error:
            faults.append(str(error))

    def failing() -> Iterator[OutputRow]:
        yield OutputRow(1, b"output")
        raise DetectorFailed("no memory")

    server.serve_evaluator(serve)
    with Exchange(server.address, 1) as exchange:
        assert exchange.next_request() == b"request"
        with pytest.raises(DetectorFailed, match="no memory"):
            exchange.reply(failing())
    assert faults == ["the evaluator has ended within a reply"]


def test_a_task_that_never_replies_does_not_keep_the_driver() -> None:
    """Its host was cut off, perhaps."""
    has_ended = threading.Event()

    def serve(name: bytes, connection: EvaluatorConnection) -> None:
        connection.writer.write_metadata(b"request")
        with suppress(flight.FlightServerError):
            read_reply(connection.reader, lambda: None)
        has_ended.set()

    with ExitStack() as stack:
        with serve_channel(HOST, HOST) as server:
            server.serve_evaluator(serve)
            exchange = stack.enter_context(Exchange(server.address, 1))
            assert exchange.next_request() == b"request"
        assert not has_ended.is_set()
    assert has_ended.wait(30)


def test_a_driver_without_an_evaluator_refuses_an_exchange(server: ChannelServer) -> None:
    with pytest.raises(DetectorFailed, match="has no evaluator"), Exchange(server.address, 1) as exchange:
        exchange.next_request()


def test_an_unknown_action_is_refused(server: ChannelServer) -> None:
    with pytest.raises(flight.FlightServerError, match="unknown action"):
        act(server, b"", kind="shutdown")


def test_a_client_without_tls_harms_nothing(server: ChannelServer) -> None:
    with socket.create_connection((HOST, server.port), timeout=5) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n" * 1_000)
    assert unpack(pack(server.address, incompressible(5_000), LIMIT_BYTES), server.output) == incompressible(5_000)


def test_an_unreachable_driver_is_named(server: ChannelServer) -> None:
    (port,) = free_ports(1)
    nowhere = ChannelAddress(f"grpc+tls://{HOST}:{port}", "token", server.address.certificate)
    with pytest.raises(DetectorFailed, match=rf"cannot send an output of 5,\d+ bytes.*{port}.*channel.port"):
        pack(nowhere, incompressible(5_000), LIMIT_BYTES)


def test_a_port_in_use_is_named() -> None:
    with serve_channel(HOST, HOST) as server:
        taken = serve_channel(HOST, HOST, server.port)
        with pytest.raises(DetectorFailed, match="cannot listen for its tasks"), taken:
            pass


def test_an_address_shows_no_secrets(server: ChannelServer) -> None:
    assert server.address.token not in repr(server.address)


def act(server: ChannelServer, body: bytes, token: str | None = None, kind: str = PROGRESS) -> list[Any]:
    address = server.address
    tls = {"tls_root_certs": address.certificate, "override_hostname": SERVER_NAME}
    given = bearer(address.token if token is None else token).encode()
    options = flight.FlightCallOptions(timeout=10, headers=[(AUTHORIZATION.encode(), given)])
    with flight.connect(address.location, **tls) as client:
        return list(client.do_action(flight.Action(kind, body), options))
