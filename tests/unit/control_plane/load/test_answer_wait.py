"""How long an answer of the reading child may take, under a clock of the test."""

from __future__ import annotations

from fraud_ops.control_plane.service.reading.child import AnswerLimits, AnswerWait

LIMITS = AnswerLimits(idle_s=15.0, answer_s=120.0)


def test_an_answer_may_take_longer_than_the_patience_as_long_as_the_child_works() -> None:
    wait = AnswerWait(LIMITS, began_s=100.0, used_s=7.0)
    assert not any(wait.is_over(100.0 + second, 7.0 + 0.01 * second) for second in range(1, 120))
    assert wait.is_over(220.0, 8.2)


def test_a_child_that_uses_no_cpu_time_makes_no_progress() -> None:
    wait = AnswerWait(LIMITS, began_s=100.0, used_s=7.0)
    assert not wait.is_over(110.0, 7.2)
    assert not wait.is_over(124.9, 7.2)
    assert wait.is_over(125.0, 7.2)


def test_a_little_cpu_time_of_waiting_threads_is_no_progress() -> None:
    wait = AnswerWait(LIMITS, began_s=100.0, used_s=7.0)
    assert not wait.is_over(114.9, 7.09)
    assert wait.is_over(115.0, 7.09)
