"""The child process that reads payments: its end looks at its progress first."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import psutil
import pytest

from fraud_ops.control_plane.domain.errors import Unavailable
from fraud_ops.control_plane.service.reading.child import AnswerLimits, ReadingChild
from fraud_ops.control_plane.web.load.lanes import LIMITS, LaneName

MODULE = "tests.support.control_plane.question_child"
LONG_S = 600.0


@contextmanager
def child_of(limits: AnswerLimits) -> Iterator[ReadingChild]:
    with closing(ReadingChild(MODULE, "the source", "too slow", limits)) as child:
        yield child


def pid_of(child: ReadingChild) -> int:
    return int(child.ask(("sleep", 0.0)))


@pytest.mark.parametrize(
    ("question", "limits"),
    [(("sleep", LONG_S), AnswerLimits(idle_s=2.0)), (("work", LONG_S), AnswerLimits(idle_s=LONG_S, answer_s=4.0))],
    ids=["no progress", "no end"],
)
def test_a_child_that_makes_no_progress_or_finds_no_end_is_replaced(
    question: tuple[str, float], limits: AnswerLimits
) -> None:
    with child_of(limits) as child:
        pid = pid_of(child)
        with pytest.raises(Unavailable, match="too slow"):
            child.ask(question)
        assert not psutil.pid_exists(pid)
        assert pid_of(child) != pid


def test_a_child_that_ended_starts_again_once_and_its_errors_are_reported() -> None:
    with child_of(AnswerLimits()) as child:
        pid = pid_of(child)
        with pytest.raises(Unavailable, match="no broker"):
            child.ask(("fail", 0.0))
        assert pid_of(child) == pid
        with pytest.raises(Unavailable, match="has ended"):
            child.ask(("end", 0.0))
        assert pid_of(child) != pid


def test_questions_of_several_threads_get_their_own_answers() -> None:
    with child_of(AnswerLimits()) as child, ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(lambda _: pid_of(child), range(20)))) == 1


@pytest.mark.parametrize("lane", [LaneName.EVIDENCE, LaneName.ENTITIES])
def test_no_thread_of_a_lane_waits_for_the_child_of_another_question(lane: LaneName) -> None:
    assert LIMITS[lane].threads == 1
