"""The reports on a warm-up: the API shows the newest one, and since when the rule is live."""

from __future__ import annotations

import json
from typing import Any

from fraud_control.domain.item import ItemName
from fraud_control.feed.events import FeedOperation
from fraud_control.feed.memory import FeedMemory, MemoryBounds
from fraud_control.web.convert import activation_of
from fraud_rules.logs.rule_status import decode_operation

LIVE = {"ruleId": 1, "ruleVersion": 7, "status": "LIVE", "batchId": 3, "time": 1_000}


def add(memory: FeedMemory, offset: int, **members: Any) -> None:
    memory.add(FeedOperation(offset, decode_operation(json.dumps(LIVE | members).encode())))


def shown(memory: FeedMemory) -> tuple[Any, ...]:
    operation = memory.operation(7, ItemName.of_rule(1))
    assert operation is not None
    activation = activation_of(operation)
    warm_up = activation.warm_up
    return activation.batch_id, None if warm_up is None else (warm_up.state, warm_up.progress, warm_up.since)


def test_a_rule_is_live_then_warming_then_warm() -> None:
    memory = FeedMemory()
    add(memory, 0, warmUp={"state": "REQUESTED"})
    assert shown(memory) == (3, ("REQUESTED", None, None))
    add(memory, 1, warmUp={"state": "RUNNING", "progress": 0.6, "time": 2_000})
    assert shown(memory) == (3, ("RUNNING", 0.6, None))
    add(memory, 2, batchId=9, time=3_000, warmUp={"state": "WARM", "batchId": 9, "time": 3_000, "rows": 5, "since": 50})
    assert shown(memory) == (3, ("WARM", None, 50)), "the rule is live since batch 3"


def test_a_forgotten_report_does_not_take_a_newer_one_along() -> None:
    memory = FeedMemory(MemoryBounds(operations=2))
    add(memory, 0, warmUp={"state": "REQUESTED"})
    for offset in (1, 2):
        add(memory, offset, warmUp={"state": "RUNNING", "progress": offset / 10, "time": offset})
    assert shown(memory) == (3, ("RUNNING", 0.2, None))


def test_a_rule_without_a_request_has_no_warm_up() -> None:
    memory = FeedMemory()
    add(memory, 0)
    assert shown(memory) == (3, None)
