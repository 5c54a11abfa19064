"""A network of a test's own, whose faults reach only the packets of one port.

A network namespace of Linux has its own loopback interface, packet filter and queues. Many kernels lack netem, so the
packet filter drops packets (xt_statistic), and a token bucket limits the rate (HTB). Needs root, iptables and tc.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

_NEW_NETWORK = 0x40000000  # CLONE_NEWNET
_OWN = Path("/proc/thread-self/ns/net")
_CLASS = "1:20"


def needs_root_and(*programs: str) -> tuple[pytest.MarkDecorator, ...]:
    """The marks that skip tests with network namespaces without root or one of these programs."""
    missing = any(shutil.which(program) is None for program in programs)
    return (
        pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace needs root"),
        pytest.mark.skipif(missing, reason=f"needs {' and '.join(programs)}"),
    )


@dataclass(frozen=True)
class PortNetwork:
    """The packets from and to a TCP port. One fault at a time; `heal` ends it."""

    port: int

    def lose(self, share: float) -> None:
        """Drop this share of the packets, in both directions."""
        for side in ("--sport", "--dport"):
            chance = ("-m", "statistic", "--mode", "random", "--probability", str(share))
            _run("iptables", "-A", "INPUT", "-p", "tcp", side, str(self.port), *chance, "-j", "DROP")

    def cut(self) -> None:
        """Drop all packets. Connections stay open, as after a cable was pulled."""
        for side in ("--sport", "--dport"):
            _run("iptables", "-A", "INPUT", "-p", "tcp", side, str(self.port), "-j", "DROP")

    def slow(self, rate: str) -> None:
        """Limit the rate of the packets, both directions together (`2mbit`, in the notation of tc)."""
        _run("tc", "qdisc", "add", "dev", "lo", "root", "handle", "1:", "htb", "default", "10")
        _run("tc", "class", "add", "dev", "lo", "parent", "1:", "classid", "1:10", "htb", "rate", "10gbit")
        _run("tc", "class", "add", "dev", "lo", "parent", "1:", "classid", _CLASS, "htb", "rate", rate)
        for side in ("--sport", "--dport"):
            which = ("-p", "tcp", side, str(self.port))
            _run("iptables", "-t", "mangle", "-A", "OUTPUT", *which, "-j", "CLASSIFY", "--set-class", _CLASS)

    def heal(self) -> None:
        """End the fault."""
        _run("iptables", "-F")
        _run("iptables", "-t", "mangle", "-F")
        subprocess.run(["tc", "qdisc", "del", "dev", "lo", "root"], capture_output=True, check=False)

    def dropped(self) -> int:
        """The number of packets that the fault has dropped."""
        listed = subprocess.run(
            ["iptables", "-L", "INPUT", "-v", "-x", "-n"], capture_output=True, text=True, check=True
        )
        return sum(int(line.split()[0]) for line in listed.stdout.splitlines() if " DROP " in line)


@contextmanager
def own_network() -> Iterator[None]:
    """Move this thread to a new network with only a loopback interface, and back at the end of the block.

    Threads and processes that this thread starts inside the block are in the same network.
    """
    before = os.open(_OWN, os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        if libc.unshare(_NEW_NETWORK):
            raise OSError(ctypes.get_errno(), "a network namespace needs root")
        try:
            _run("ip", "link", "set", "lo", "up")
            yield
        finally:
            assert libc.setns(before, _NEW_NETWORK) == 0, os.strerror(ctypes.get_errno())
    finally:
        os.close(before)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
