"""A broker behind a TCP proxy that can withhold commits, or their answers, from the clients that send them.

The broker advertises the proxy's address, so every client reaches the broker through the proxy after its first request
for metadata. The proxy reads only the headers of requests and answers.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import Final

from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import HOST, Broker
from tests.support.ports import free_ports

_END_TRANSACTION: Final = 26
"""Kafka's number of the request that commits or aborts."""


class CommitFault(Enum):
    """What happens to the next commits."""

    NONE = auto()
    CUT_BEFORE = auto()
    """The connection ends before the broker receives the commit. One commit only."""
    CUT_AFTER = auto()
    """The connection ends when the broker answers. One commit only."""
    HOLD_BEFORE = auto()
    """The broker does not receive the commit, and the connection stays open."""
    HOLD_AFTER = auto()
    """The client does not receive the answer, and the connection stays open."""


_BEFORE: Final = (CommitFault.CUT_BEFORE, CommitFault.HOLD_BEFORE)
_AFTER: Final = (CommitFault.CUT_AFTER, CommitFault.HOLD_AFTER)


class CommitProxy:
    """Forwards connections to a broker. `fault` may change at any time, and `reached` counts the commits it met."""

    def __init__(self, broker_port: int, port: int) -> None:
        self._broker_port = broker_port
        self._listener = socket.create_server((HOST, port))
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self.fault = CommitFault.NONE
        self.reached = 0
        threading.Thread(target=self._accept, name="commit proxy", daemon=True).start()

    def close(self) -> None:
        """End all connections."""
        self._listener.close()
        for each in self._sockets:
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection((HOST, self._broker_port))
                self._sockets += [client, broker]
                commits = set[int]()
                for pump in (
                    partial(self._forward, client, broker, partial(_is_commit, commits), *_BEFORE),
                    partial(self._forward, broker, client, partial(_is_answer, commits), *_AFTER),
                ):
                    threading.Thread(target=pump, daemon=True).start()

    def _forward(
        self,
        source: socket.socket,
        target: socket.socket,
        can_meet: Callable[[bytes], bool],
        cut: CommitFault,
        hold: CommitFault,
    ) -> None:
        """Forward one direction of a connection. Frames that `can_meet` a fault of this direction do."""
        with _ending(source, target):
            for frame in _frames(source):
                fault = self._meets(cut, hold) if can_meet(frame) else CommitFault.NONE
                if fault is cut:
                    return
                if fault is not hold:
                    target.sendall(frame)

    def _meets(self, cut: CommitFault, hold: CommitFault) -> CommitFault:
        """The fault that a commit meets, if it is one of these. A cut meets one commit."""
        with self._lock:
            fault = self.fault
            if fault in (cut, hold):
                self.reached += 1
            if fault is cut:
                self.fault = CommitFault.NONE
            return fault


class ProxiedBroker(Broker):
    """A broker that advertises the address of a proxy."""

    def __init__(self, home: Path, project: Project) -> None:
        port, controller_port, self.proxy_port = free_ports(3)
        super().__init__(home, port, controller_port, project)

    def _configure(self, data: Path) -> Path:
        path = super()._configure(data)
        text = path.read_text(encoding="utf-8")
        own = f"advertised.listeners=BROKER://{HOST}:"
        path.write_text(text.replace(f"{own}{self.port}", f"{own}{self.proxy_port}"), encoding="utf-8")
        return path


@contextmanager
def broker_behind_a_proxy(home: Path, project: Project) -> Iterator[tuple[Broker, CommitProxy]]:
    """A running broker and its proxy. Both end with the block."""
    broker = ProxiedBroker(home, project)
    proxy = CommitProxy(broker.port, broker.proxy_port)
    try:
        broker.start()
        yield broker, proxy
    finally:
        broker.kill()
        proxy.close()


def _is_commit(commits: set[int], request: bytes) -> bool:
    """Whether a request commits. Adds its number to `commits`."""
    kind, _, correlation = struct.unpack_from(">hhi", request, 4)
    if kind == _END_TRANSACTION:
        commits.add(correlation)
    return bool(kind == _END_TRANSACTION)


def _is_answer(commits: set[int], answer: bytes) -> bool:
    """Whether this answers a request of `commits`."""
    return struct.unpack_from(">i", answer, 4)[0] in commits


def _frames(source: socket.socket) -> Iterator[bytes]:
    """The requests or answers of a connection, each with its length."""
    while head := _read(source, 4):
        body = _read(source, int.from_bytes(head, "big"))
        if body is None:
            return
        yield head + body


def _read(source: socket.socket, size: int) -> bytes | None:
    """This many bytes, None at the end of the connection."""
    found = bytearray()
    while len(found) < size:
        part = source.recv(min(size - len(found), 1 << 20))
        if not part:
            return None
        found += part
    return bytes(found)


@contextmanager
def _ending(*sockets: socket.socket) -> Iterator[None]:
    """Ends the connection on both sides with the block, also for the thread of the other direction."""
    try:
        with contextlib.suppress(OSError):
            yield
    finally:
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
