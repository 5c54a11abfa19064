"""The order of a batch reaches the tasks unchanged."""

from __future__ import annotations

from fraud_rules.engine.statelog import StateVersion
from fraud_rules.model.output import MarkUpdate
from fraud_rules.stream.batch_order import BatchOrder, TaskState, pack_marks, unpack_marks
from fraud_rules.stream.pins import NO_PIN, Pin


def test_an_order_survives_its_encoding() -> None:
    pin = Pin(5, 3, {"1": [("limit", "is too large")]}, "digest")
    order = BatchOrder(pin, [StateVersion(1, 2**64 - 1)] * 5, [7, 8], [1, 3], {0: (4, 9)}, True, {3: b"marks"})
    assert BatchOrder.decode(order.encode()) == order


def test_a_task_learns_the_state_of_its_key_group() -> None:
    versions = [StateVersion(number, 10 + number) for number in range(4)]
    order = BatchOrder(NO_PIN, versions, ends=[70, 80], unswept=[2])
    assert [order.task_state(number) for number in (1, 2)] == [
        TaskState(versions[1], 80),
        TaskState(versions[2], 70, sweeps=True),
    ]


def test_each_key_group_has_its_own_marks() -> None:
    first, second, third = (
        MarkUpdate(key_group, ("payeeId", "paymentType"), 7, 4, (number, "CSH"), last_ms, number)
        for number, (key_group, last_ms) in enumerate([(3, 1_700_000_000_000), (1, None), (3, 5)])
    )
    packed = pack_marks([first, second, third])
    assert {key_group: unpack_marks(each) for key_group, each in packed.items()} == {1: [second], 3: [first, third]}
    assert unpack_marks(packed.get(2)) == []
