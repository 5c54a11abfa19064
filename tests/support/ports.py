"""Free ports for the servers of a test."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import Literal, overload


@overload
def free_ports(count: Literal[1]) -> tuple[int]: ...
@overload
def free_ports(count: Literal[2]) -> tuple[int, int]: ...
@overload
def free_ports(count: Literal[3]) -> tuple[int, int, int]: ...
def free_ports(count: int) -> tuple[int, ...]:
    """Find distinct unused ports on the loopback interface."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return tuple(each.getsockname()[1] for each in sockets)
