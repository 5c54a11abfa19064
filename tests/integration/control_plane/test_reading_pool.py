"""The processes that read payments: each answer has a limit, and a process that has ended is replaced."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from fraud_control.domain.errors import Unavailable
from fraud_control.service.reading.pool import PROCESSES, ReadingPool
from fraud_control.web.load.lanes import LIMITS, LaneName
from tests.support.control_plane.questions import answer
from tests.support.waiting import until

LONG_S = 600.0
ASK_AND_WAIT = """
import sys
from fraud_control.service.reading.pool import ReadingPool
from tests.support.control_plane.questions import answer
with ReadingPool() as pool:
    print(pool.ask(answer, "topic", ("sleep", 0.0), "too slow").decode(), flush=True)
    sys.stdin.read()
"""


def ask(pool: ReadingPool, kind: str, seconds: float = 0.0) -> int:
    return int(pool.ask(answer, "topic", (kind, seconds), "too slow"))


@pytest.mark.parametrize("kind", ["sleep", "work"])
def test_a_process_that_needs_too_long_is_replaced(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is short for one question only: a process takes seconds to start."""
    with ReadingPool() as pool:
        pid = ask(pool, "sleep")
        with monkeypatch.context() as patch:
            patch.setattr("fraud_control.service.reading.pool._ANSWER_S", 0.2)
            with pytest.raises(Unavailable, match="too slow"):
                ask(pool, kind, LONG_S)
        assert not psutil.pid_exists(pid)
        assert ask(pool, "sleep") != pid


def test_a_process_that_ended_is_replaced_and_errors_are_reported() -> None:
    with ReadingPool() as pool:
        pid = ask(pool, "sleep")
        with pytest.raises(Unavailable, match="no broker for topic"):
            ask(pool, "fail")
        assert ask(pool, "sleep") == pid
        with pytest.raises(Unavailable, match="has ended"):
            ask(pool, "end")
        assert ask(pool, "sleep") != pid


def test_questions_of_several_threads_get_answers_of_two_processes() -> None:
    with ReadingPool() as pool, ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(lambda _: ask(pool, "sleep", 0.01), range(20)))) == 2


def test_the_processes_end_with_the_pool_also_in_the_middle_of_an_answer() -> None:
    with ThreadPoolExecutor(1) as threads:
        with ReadingPool() as pool:
            pid = ask(pool, "sleep")
            waiting = threads.submit(ask, pool, "sleep", LONG_S)
            until(
                lambda: psutil.Process(pid).status() == psutil.STATUS_SLEEPING and waiting.running(),
                "an answer in work",
            )
        assert waiting.exception(timeout=180) is not None
    until(lambda: not psutil.pid_exists(pid), "the end of the process")


def test_the_processes_end_after_a_kill_of_the_server() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ASK_AND_WAIT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
    ) as server:
        assert server.stdout is not None
        pid = int(server.stdout.readline())
        server.send_signal(signal.SIGKILL)
    until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, "its end")


@pytest.mark.parametrize("lane", [LaneName.EVIDENCE, LaneName.ENTITIES])
def test_no_thread_of_a_lane_waits_for_the_process_of_another_question(lane: LaneName) -> None:
    assert LIMITS[lane].threads == 1
    assert LIMITS[LaneName.EVIDENCE].threads + LIMITS[LaneName.ENTITIES].threads == PROCESSES
