"""The driver sees that a host without the kernel's code makes progress before its first task."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from fraud_rules.stream.channel import CHANNEL_VARIABLE
from fraud_rules.stream.driver.channel_server import ChannelServer, serve_channel

HOST = "127.0.0.1"
LIMIT_S = 120.0

PREPARES = """
import sys, threading
from fraud_rules.stream.worker.preparation import preparation_reported

threads = threading.active_count()
with preparation_reported(0.1):
    assert threading.active_count() == threads, "a thread would not survive the fork"
    while sys.argv[1:]:
        pass
"""


@pytest.fixture
def server() -> Iterator[ChannelServer]:
    with serve_channel(HOST, HOST) as server:
        yield server


def preparing(server: ChannelServer, *busy: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, CHANNEL_VARIABLE: server.address.encode()}
    return subprocess.Popen([sys.executable, "-c", PREPARES, *busy], env=environment)


def await_more(server: ChannelServer, than_s: float) -> float:
    deadline_s = time.monotonic() + LIMIT_S
    while server.prepared_s() <= than_s:
        assert time.monotonic() < deadline_s, "the driver receives no progress"
        time.sleep(0.05)
    return server.prepared_s()


def test_a_busy_preparation_makes_progress_until_it_is_killed(server: ChannelServer) -> None:
    with preparing(server, "busy") as daemon:
        try:
            await_more(server, await_more(server, await_more(server, 0.0)))
            (reporter,) = psutil.Process(daemon.pid).children()
        finally:
            daemon.kill()
    reporter.wait(LIMIT_S)


def test_a_short_preparation_ends_without_a_driver_that_answers(server: ChannelServer) -> None:
    server.shutdown()
    assert preparing(server).wait(LIMIT_S) == 0
