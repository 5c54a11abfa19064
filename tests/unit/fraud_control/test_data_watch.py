"""The alarms about payments and rules: one at the start of a fault, one at its end."""

from __future__ import annotations

from fraud_control.watch.data_watch import DataWatch
from fraud_rules.monitoring.data_faults import DataFault, DataVerdict
from tests.support.control_plane.alarm_memory import AlarmMemory

NULL = DataFault(DataVerdict.FIELD_NULL, "90% of the payments have no amount", 1, name="amount")
RATE = DataFault(DataVerdict.RULE_RATE, "99 alerts", 1, rule_id=5)


def test_a_fault_is_an_alarm_until_it_ends() -> None:
    faults, alarms = [NULL, RATE], AlarmMemory()
    watch = DataWatch(lambda: faults, "detector", alarms, lambda: True)
    watch.observe()
    watch.observe()
    assert [(each.name, each.part, each.resolved) for each in alarms.news] == [
        ("FIELD_NULL", "field amount", False),
        ("RULE_RATE", "rule 5", False),
    ]
    faults.remove(NULL)
    watch.observe()
    assert [(each.name, each.part, each.resolved) for each in alarms.news[2:]] == [("FIELD_NULL", "field amount", True)]
