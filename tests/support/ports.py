"""Free ports for the servers of a test."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack
from typing import Literal, overload

_PORTS = range(10_240, 32_768)
"""Linux takes the ports of outgoing connections from 32768 (ip_local_port_range)."""
_ATTEMPTS = 100


@overload
def free_ports(count: Literal[1]) -> tuple[int]: ...
@overload
def free_ports(count: Literal[2]) -> tuple[int, int]: ...
@overload
def free_ports(count: Literal[3]) -> tuple[int, int, int]: ...
def free_ports(count: int) -> tuple[int, ...]:
    """Find distinct unused ports on the loopback interface.

    No outgoing connection can take them while their server is down, because they are below the ephemeral ports. A
    client that reconnects to an ephemeral port without a server would connect to itself after some thousand attempts.
    """
    with ExitStack() as held:
        return tuple(_hold_free_port(held) for _ in range(count))


def _hold_free_port(held: ExitStack) -> int:
    for port in random.sample(_PORTS, _ATTEMPTS):
        one = held.enter_context(socket.socket())
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            continue
        return port
    raise AssertionError(f"{_ATTEMPTS} ports from {_PORTS.start} to {_PORTS.stop - 1} are in use")
