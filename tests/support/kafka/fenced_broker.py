"""A broker that has lost the controller: it names itself in its first answer, and no living broker in later ones."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Final

from fraud_rules.kafka.broker import HOST

_METADATA: Final = 3
_VERSIONS: Final = 18
_FORBIDDEN: Final = 29
"""The error of the topic. Clients repeat a request after the real one, that no leader is available, for a long time."""


@contextmanager
def fenced_broker() -> Iterator[str]:
    """Serve until the end of the block. Yields the address."""
    with socket.create_server((HOST, 0)) as listener:
        port, answers = listener.getsockname()[1], count()
        threading.Thread(target=_accept, args=(listener, port, answers), daemon=True).start()
        yield f"{HOST}:{port}"
        listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, port: int, answers: Iterator[int]) -> None:
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_serve, args=(client, port, answers), daemon=True).start()


def _serve(client: socket.socket, port: int, answers: Iterator[int]) -> None:
    with contextlib.suppress(OSError), client:
        while size := client.recv(4, socket.MSG_WAITALL):
            request = client.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
            kind, _, correlation, name_bytes = struct.unpack_from(">hhih", request)
            if kind == _VERSIONS:
                body = _versions()
            else:
                (topics,) = struct.unpack_from(">i", request, 10 + name_bytes)
                body = _metadata(topics == 1, port, is_first=next(answers) == 0)
            client.sendall(struct.pack(">ii", 4 + len(body), correlation) + body)


def _versions() -> bytes:
    """The requests that this broker knows: their numbers, first and last versions."""
    known = ((_METADATA, 0, 4), (_VERSIONS, 0, 3))
    each = b"".join(struct.pack(">hhhB", *numbers, 0) for numbers in known)
    return struct.pack(">hB", 0, len(known) + 1) + each + struct.pack(">iB", 0, 0)


def _metadata(about_a_topic: bool, port: int, *, is_first: bool) -> bytes:
    """Version 4: brokers, cluster, controller, topics."""
    host = HOST.encode()
    broker = struct.pack(f">iih{len(host)}sih", 1, 1, len(host), host, port, -1) if is_first else struct.pack(">i", 0)
    cluster = struct.pack(">h1si", 1, b"c", 1 if is_first else -1)
    topic = struct.pack(">ihh1sbi", 1, _FORBIDDEN, 1, b"t", 0, 0) if about_a_topic else struct.pack(">i", 0)
    return struct.pack(">i", 0) + broker + cluster + topic
