"""Alarms of checks that run again and again."""

from __future__ import annotations

from fraud_ops.alarms import REPEAT_MS, Alarm
from fraud_ops.operators.standing_alarms import Raised, changes

ALARM = Alarm("STALLED", "detector", "no batch", part="checkpoint")


def sent(known: dict[str, Raised], found: list[Alarm], at_ms: int) -> tuple[list[tuple[str, bool]], dict[str, Raised]]:
    sending, after = changes(known, {each.name: each for each in found}, at_ms)
    return [(each.name, each.resolved) for each in sending], after


def test_a_check_every_two_minutes_sends_a_standing_alarm_once_an_hour() -> None:
    known: dict[str, Raised] = {}
    count = 0
    for at_ms in range(0, 24 * 3_600_000, 120_000):
        messages, known = sent(known, [ALARM], at_ms)
        count += len(messages)
    assert count == 24 * 3_600_000 // REPEAT_MS


def test_an_alarm_ends_once_and_can_come_again() -> None:
    _, known = sent({}, [ALARM], 0)
    messages, known = sent(known, [], 1)
    assert messages == [("STALLED", True)] and known == {}
    assert sent(known, [], 2) == ([], {})
    messages, _ = sent(known, [ALARM], 3)
    assert messages == [("STALLED", False)]


def test_another_fault_of_the_same_check_is_another_alarm() -> None:
    _, known = sent({}, [ALARM], 0)
    messages, _ = sent(known, [ALARM, Alarm("DISK_FULL", "detector", "full")], 1)
    assert messages == [("DISK_FULL", False)]
