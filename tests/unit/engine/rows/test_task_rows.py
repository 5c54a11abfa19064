"""All key groups of a task share the work on rows: the results are those of packed rows, key group by key group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from fraud_rules.engine.engine import KeyGroupEngine
from fraud_rules.engine.fanout import fan_out
from fraud_rules.engine.state.head import Head, decode_head, encode_head
from fraud_rules.engine.state.store import HeapViews
from fraud_rules.engine.statelog import MemoryStateLog
from fraud_rules.engine.task_rows import rows_of_blobs, spread
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import DeclaredEntity
from fraud_rules.model.transaction import TransactionBatch
from tests.support.rules import SCHEMA, rule_log
from tests.support.streams.packed import RULES, SETTINGS, START_MS, comparable, decoded_batches

KEY_GROUPS, BATCHES, ROWS = 5, 50, 40
LONG_MS = BATCHES * ROWS * 20
ACCOUNT = DeclaredEntity("account", (("out", "payeeId"), ("in", "beneficiaryId")))


def rules_that_change(**members: Any) -> RuleTimeline:
    """Rules with filters and a condition. One of them changes, and the state is cleared, in the middle of batches."""
    common = {"ruleState": "ACTIVE", "limitOperatorType": ">", "windowSeconds": 10, **members}
    sums = {**common, "aggregateFieldName": "paymentAmount", "aggregatorFunctionType": "SUM"}
    filtered = {"filter": "paymentType in ('CSH', 'CRD')", "when": "paymentAmount > 20"}
    by_account: list[dict[str, Any]] = []
    if SCHEMA.entities:
        grouping = {"groupingKeyNames": ["account", "paymentType"]}
        by_account = [{**sums, **grouping, "ruleId": 4, "limit": 50, "filter": "role = 'in'", "cooldownSeconds": 2}]
    records = [
        *by_account,
        {**sums, "ruleId": 1, "groupingKeyNames": RULES[0], "limit": 300, **filtered},
        {**common, "ruleId": 2, "groupingKeyNames": RULES[1], "aggregatorFunctionType": "COUNT_WITH_RESET", "limit": 7},
        {**sums, "ruleId": 3, "groupingKeyNames": RULES[2], "limit": 90, "cooldownSeconds": 5},
        {**sums, "ruleId": 1, "groupingKeyNames": RULES[0], "limit": 200, **filtered},
        {"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL"},
    ]
    times = [*[1] * (len(records) - 2), START_MS + LONG_MS // 3 + 110, START_MS + LONG_MS // 2 + 110]
    return rule_log(records, times, SCHEMA)


class Task:
    """The key groups of one task, in memory."""

    def __init__(self, rules: RuleTimeline) -> None:
        self.rules, self.views = rules, HeapViews()
        self.logs = [MemoryStateLog() for _ in range(KEY_GROUPS)]
        self.engines = [KeyGroupEngine(group, SCHEMA, SETTINGS, log, self.views) for group, log in enumerate(self.logs)]

    def evaluate(self, batch: TransactionBatch, number: int, *, packed: bool) -> list[tuple[object, ...]]:
        if packed:
            blobs = fan_out(batch, self.rules, SCHEMA, KEY_GROUPS)
            rows = {group: rows_of_blobs([blob]) for group, blob in blobs.items()}
        else:
            rows = spread(batch, self.rules, SCHEMA, KEY_GROUPS)
        return [
            comparable(engine.process_rows(rows.get(group, []), self.rules, number, 0))
            for group, engine in enumerate(self.engines)
        ]


@pytest.mark.parametrize(
    ("entities", "longest_cooldown_s"),
    [((), SETTINGS.limits.max_cooldown_seconds), ((ACCOUNT,), 0)],
    ids=["fields", "entities"],
)
def test_shared_rows_give_the_results_of_packed_rows(
    entities: tuple[DeclaredEntity, ...], longest_cooldown_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.SCHEMA", replace(SCHEMA, entities=entities))
    limits = replace(SETTINGS.limits, max_cooldown_seconds=max(5, longest_cooldown_s))
    monkeypatch.setattr(f"{__name__}.SETTINGS", replace(SETTINGS, limits=limits))
    rules = rules_that_change()
    packed, shared = Task(rules), Task(rules)
    alerts = 0
    for number, batch in enumerate(decoded_batches(BATCHES, ROWS)):
        expected = packed.evaluate(batch, number, packed=True)
        assert shared.evaluate(batch, number, packed=False) == expected
        alerts += sum(len(each[0]) for each in expected)
    assert alerts > 100
    assert [log.image() for log in shared.logs] == [log.image() for log in packed.logs]


def test_a_task_that_remembers_heads_writes_the_log_of_one_that_reads_them() -> None:
    """Another process decodes each head and scans all chunks; the log must not depend on that."""
    rules = rules_that_change(windowSeconds=2)
    remembering, forgetful = Task(rules), Task(rules)
    for number, batch in enumerate(decoded_batches(2 * BATCHES, 10)):
        for view in forgetful.views._views.values():
            view.known_head = None
        assert remembering.evaluate(batch, number, packed=False) == forgetful.evaluate(batch, number, packed=False)
        assert [log.head() for log in remembering.logs] == [log.head() for log in forgetful.logs]
    assert [log.image() for log in remembering.logs] == [log.image() for log in forgetful.logs]
    assert max(info.level for log in remembering.logs for info in head_of(log).chunks) > 0


def test_a_sealed_head_is_the_encoded_head() -> None:
    task = Task(rules_that_change())
    for number, batch in enumerate(decoded_batches(3, ROWS)):
        task.evaluate(batch, number, packed=False)
    for digest in (0, 1 << 20, 1 << 40, (1 << 63) - 1):
        for version in (0, 127, 200, 70_000):
            head = msgspec.structs.replace(head_of(task.logs[0]), digest=digest, version=version)
            encoded = head.seal()
            assert encoded == encode_head(head)
            assert decode_head(encoded) == head


def test_several_packed_batches_unpack_as_one() -> None:
    batches = list(decoded_batches(4, 6)) + list(decoded_batches(1, 1, seed=2))
    blobs = [batch.pack() for batch in batches]
    for chosen in (blobs, blobs[:1], [], [blobs[0], TransactionBatch.concat([]).pack()]):
        one = TransactionBatch.concat([TransactionBatch.unpack(blob) for blob in chosen])
        assert TransactionBatch.unpack_all(chosen).pack() == one.pack()


def head_of(log: MemoryStateLog) -> Head:
    encoded = log.head()
    assert encoded is not None
    return decode_head(encoded)
