"""The matches of rules: each transaction counts once, however a batch is split and whichever versions apply."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.engine import KeyGroupEngine
from fraud_rules.engine.fanout import fan_out
from fraud_rules.engine.rule_meter import RuleMeter
from fraud_rules.engine.state.store import HeapViews
from fraud_rules.engine.statelog import MemoryStateLog
from fraud_rules.engine.task_rows import rows_of_blobs, spread
from fraud_rules.model.output import KeyGroupOutput
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.transaction import TransactionBatch
from tests.support.records.decoded import decoded
from tests.support.rules import SCHEMA, count_rule, rule_log

START_MS, ROWS, KEY_GROUPS = 1_700_000_000_000, 300, 4
RULE = count_rule(limit=1000, windowMinutes=20)
CASH, LARGE = "paymentType = 'CSH'", "paymentAmount >= 100"


def timeline(*changes: tuple[int, dict[str, Any]]) -> RuleTimeline:
    """Rules by their append times."""
    return rule_log([{**RULE, **members} for _, members in changes], [at_ms for at_ms, _ in changes])


def transactions() -> TransactionBatch:
    """A third are cash, the first half is of 100."""
    values = [
        b'{"transactionId":%d,"eventTime":%d,"payeeId":%d,"beneficiaryId":1,"paymentType":"%s","paymentAmount":%d}'
        % (i, START_MS + i, i % 20, b"CRD" if i % 3 else b"CSH", 100 if i < ROWS // 2 else 1)
        for i in range(ROWS)
    ]
    return decoded(values, range(START_MS, START_MS + ROWS))


def outputs(rules: RuleTimeline, *, small: bool, meter: RuleMeter | None) -> list[KeyGroupOutput]:
    batch, settings = transactions(), DetectorSettings(key_groups=KEY_GROUPS)
    parts = spread(batch, rules, SCHEMA, KEY_GROUPS) if small else {}
    blobs = {} if small else fan_out(batch, rules, SCHEMA, KEY_GROUPS)
    found = []
    for key_group in sorted({*parts, *blobs}):
        rows = parts[key_group] if small else rows_of_blobs([blobs[key_group]])
        engine = KeyGroupEngine(key_group, SCHEMA, settings, MemoryStateLog(), HeapViews(), meter=meter)
        output = engine.process_rows(rows, rules, 0, START_MS)
        found.append(KeyGroupOutput.decode(output.encode()))
    return found


def total(found: list[KeyGroupOutput]) -> dict[int, tuple[int, int]]:
    passed, held = Counter[int](), Counter[int]()
    for each in (matches for output in found for matches in output.matches):
        passed.update(dict(zip(each.rules, each.passed, strict=True)))
        held.update(dict(zip(each.rules, each.held, strict=True)))
    return {rule_id: (passed[rule_id], held[rule_id]) for rule_id in passed}


@pytest.mark.parametrize("small", [True, False], ids=["one task", "blobs"])
@pytest.mark.parametrize("measured", [True, False])
def test_each_transaction_counts_once(small: bool, measured: bool) -> None:
    rules = timeline(
        (0, {"ruleId": 1}),
        (0, {"ruleId": 2, "filter": CASH}),
        (0, {"ruleId": 3, "filter": CASH, "when": LARGE}),
        (0, {"ruleId": 4, "when": LARGE, "groupingKeyNames": []}),
        (0, {"ruleId": 5, "filter": "paymentType = 'WIR'"}),
    )
    found = outputs(rules, small=small, meter=RuleMeter(interval_s=0) if measured else None)
    expected = {1: (300, 300), 2: (100, 100), 3: (100, 150), 4: (300, 150), 5: (0, 0)}
    assert total(found) == expected
    keys = Counter[str]()
    for name, count in (pair for output in found for pair in output.keys):
        keys[name] += count
    assert keys == {"payeeId": 20, "": 1}


@pytest.mark.parametrize("small", [True, False], ids=["one task", "blobs"])
def test_each_row_counts_for_the_version_that_applies_to_it(small: bool) -> None:
    """The filter changes at row 150, and rule 2 begins there."""
    change_ms = START_MS + ROWS // 2 - 1
    rules = timeline(
        (0, {"ruleId": 1, "filter": CASH}), (change_ms, {"ruleId": 1}), (change_ms, {"ruleId": 2, "filter": CASH})
    )
    found = total(outputs(rules, small=small, meter=None))
    counts = rules.rule_counts(rules.entry_counts_of(transactions()))
    old = int((counts == 1).sum())
    cash = [i for i in range(ROWS) if i % 3 == 0]
    assert 0 < old < ROWS
    assert found == {
        1: (sum(i < old for i in cash) + ROWS - old,) * 2,
        2: (sum(i >= old for i in cash),) * 2,
    }
