"""The payment gate of `examples/`, without Kafka: no status before the decisions of the payment's batch are read."""

from __future__ import annotations

import pytest
from examples.payment_gate import Evaluated, Gate, Status


def gate_with(*payments: tuple[int, str | None]) -> Gate:
    gate = Gate("decisions", "quarantine", positions={"decisions": 0, "quarantine": 0})
    for offset, transaction_id in payments:
        gate.add_payment(0, offset, transaction_id)
    return gate


def evaluated(end: int, decisions: int = 0, quarantine: int = 0, offset: int = 0) -> Evaluated:
    return Evaluated(offset, {0: end}, {"decisions": decisions, "quarantine": quarantine})


def released(*ids: str) -> list[Status]:
    return [Status(each, held=False, reason="") for each in ids]


def test_a_payment_waits_until_the_detector_has_evaluated_it() -> None:
    gate = gate_with((0, "a"), (1, "b"))
    assert list(gate.settle()) == []
    gate.add_evaluated(evaluated(1))
    assert list(gate.settle()) == released("a")
    gate.add_evaluated(evaluated(2))
    assert list(gate.settle()) == released("b")


def test_a_progress_record_counts_only_after_the_decisions_of_its_batch() -> None:
    gate = gate_with((0, "a"), (1, "b"))
    gate.add_evaluated(evaluated(2, decisions=3))
    gate.positions["decisions"] = 2
    assert list(gate.settle()) == []
    gate.add_decision(2, "b", "DECLINE")
    gate.positions["decisions"] = 3
    assert list(gate.settle()) == [*released("a"), Status("b", held=True, reason="DECLINE")]


@pytest.mark.parametrize(("outcome", "held"), [("NOTE", False), ("REVIEW", True), ("DECLINE", True)])
def test_review_and_decline_hold_a_payment(outcome: str, held: bool) -> None:
    gate = gate_with((0, "a"))
    gate.add_decision(0, "a", outcome)
    gate.add_evaluated(evaluated(1))
    assert [status.held for status in gate.settle()] == [held]


def test_a_held_payment_stays_held_when_it_is_delivered_again() -> None:
    gate = gate_with((0, "a"), (1, "a"))
    gate.add_decision(0, "a", "REVIEW")
    gate.add_evaluated(evaluated(2))
    assert list(gate.settle()) == [Status("a", held=True, reason="REVIEW")]


def test_a_quarantined_payment_is_held_and_an_unreadable_record_has_no_status() -> None:
    gate = gate_with((0, None), (1, "b"))
    gate.add_quarantined(0, (0, 0))
    gate.add_quarantined(1, (0, 1))
    gate.add_evaluated(evaluated(2))
    assert list(gate.settle()) == [Status("b", held=True, reason="QUARANTINED")]


def test_a_restarted_gate_begins_at_the_oldest_record_that_still_counts() -> None:
    gate = gate_with((0, "a"), (1, "b"))
    gate.add_decision(4, "b", "REVIEW")
    gate.add_quarantined(7, (0, 3))
    gate.positions |= {"decisions": 6, "quarantine": 9}
    gate.add_evaluated(evaluated(1, offset=5))
    assert list(gate.settle()) == released("a")
    assert (gate.settled, gate.resume_at(), gate.last_evaluated) == ({0: 1}, {"decisions": 4, "quarantine": 7}, 5)
    gate.add_evaluated(evaluated(2, offset=6))
    assert [status.held for status in gate.settle()] == [True]
    gate.add_quarantined(7, (0, 1))  # read again, although its payment has a status
    assert gate.resume_at() == {"decisions": 6, "quarantine": 7}
    gate.add_payment(0, 3, None)
    gate.add_evaluated(evaluated(4, offset=7))
    assert list(gate.settle()) == []
    assert gate.resume_at() == {"decisions": 6, "quarantine": 9}
