"""Spent marks are dropped: memory stays bounded, and the answers stay the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.engine import KeyGroupEngine
from fraud_rules.engine.fanout import fan_out
from fraud_rules.engine.state.store import HeapViews
from fraud_rules.engine.statelog import MemoryStateLog
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.output import KeyGroupOutput
from fraud_rules.model.ruleset import RuleTimeline
from tests.support.records.decoded import decoded
from tests.support.rules import SCHEMA, rule_log
from tests.support.streams.runs import numbers

START_MS = 1_700_000_000_000
LONGEST_S = 60


def settings(longest_s: int) -> DetectorSettings:
    limits = RuleLimits(max_cooldown_seconds=longest_s)
    return DetectorSettings(key_groups=1, max_out_of_orderness_ms=2_000, limits=limits)


def timeline(rules: Sequence[dict[str, Any]]) -> RuleTimeline:
    """The rules, appended at the seconds after the beginning that their `at` says."""
    common = {"ruleState": "ACTIVE", "groupingKeyNames": ["payeeId"], "limitOperatorType": ">="}
    plain = [{name: value for name, value in rule.items() if name != "at"} for rule in rules]
    return rule_log(
        [{**common, "aggregateFieldName": "paymentAmount", **rule} for rule in plain],
        [START_MS + 1_000 * rule.get("at", -1) for rule in rules],
    )


def packed(payees: np.ndarray, at_ms: np.ndarray, first: int, rules: RuleTimeline) -> bytes:
    """One batch; rows arrive as they happen, some of them late by up to three seconds."""
    values = [
        b'{"transactionId":%d,"eventTime":%d,"payeeId":%d,"beneficiaryId":1,"paymentType":"CSH","paymentAmount":1.00}'
        % (first + i, at_ms[i] - (2_999 if i % 7 == 3 else 0), payees[i])
        for i in range(len(payees))
    ]
    return fan_out(decoded(values, at_ms, first + np.arange(len(payees))), rules, SCHEMA, 1)[0]


@pytest.mark.parametrize(
    "suppressing",
    # The default run has the keys of both rules together.
    [pytest.param(False, id="alerts only", marks=pytest.mark.long), pytest.param(True, id="another rule suppresses")],
)
def test_keys_that_alert_once_leave_no_marks(*, suppressing: bool) -> None:
    once = {"ruleId": 1, "aggregatorFunctionType": "COUNT_WITH_RESET", "limit": 1, "windowSeconds": 10}
    other = {"ruleId": 2, "aggregatorFunctionType": "COUNT", "limit": 2, "windowSeconds": 10, "cooldownSeconds": 60}
    rules = timeline([once, other] if suppressing else [once])
    log, views, sizes = MemoryStateLog(), HeapViews(), []
    rows, batches = 1_000, 80
    for batch in range(batches):
        payees = np.arange(batch * rows, (batch + 1) * rows)
        at_ms = START_MS + batch * 20_000 + np.arange(rows) * 10
        if suppressing:
            payees[-20:] = payees[-40:-20] = -1 - np.arange(20)  # the same keys, again and again
        engine = KeyGroupEngine(0, SCHEMA, settings(LONGEST_S), log, views, observer=lambda *_: None)
        output = engine.process([packed(payees, at_ms, batch * rows, rules)], rules, batch, 0)
        sizes.append((output.retained_marks, output.retained_bytes, sum(map(len, log._chunks.values()))))
    early, late = (np.max(sizes[begin : begin + 20], axis=0) for begin in (20, 60))
    assert (late <= 1.1 * early).all(), (early, late)
    kept_s = LONGEST_S + 10 + 20
    assert late[0] < 4 * rows * kept_s / 20, "marks of some minutes at most"


@pytest.mark.parametrize("seed", numbers(2, 1))
def test_dropped_marks_change_no_answer(seed: int) -> None:
    """Rules with resets and cool-downs, one of which is set and taken back later: cool-downs up to the longest there
    may be, and as many keys as come back after a minute."""
    count = {"aggregatorFunctionType": "COUNT", "windowSeconds": 10}
    rules = timeline(
        [
            {**count, "ruleId": 1, "limit": 2, "aggregatorFunctionType": "COUNT_WITH_RESET"},
            {**count, "ruleId": 2, "limit": 2, "cooldownSeconds": LONGEST_S},
            {**count, "ruleId": 3, "limit": 1},
            {**count, "ruleId": 4, "limit": 3, "aggregatorFunctionType": "COUNT_WITH_RESET", "cooldownSeconds": 7},
            {**count, "ruleId": 3, "limit": 1, "cooldownSeconds": 30, "at": 300},
            {**count, "ruleId": 3, "limit": 1, "at": 500},
            {**count, "ruleId": 4, "limit": 3, "cooldownSeconds": 50, "at": 600},
        ]
    )
    random, rows, batches = np.random.default_rng(seed), 40, 150
    blobs = []
    for batch in range(batches):
        payees = random.integers(0, 60, rows) + 20 * (batch // 15)
        at_ms = START_MS + batch * 5_000 + np.arange(rows) * 100
        blobs.append(packed(payees, at_ms, batch * rows, rules))

    def answers(longest_s: int, *, fresh: bool) -> tuple[list[Any], int]:
        log, views, found, output = MemoryStateLog(), HeapViews(), [], None
        for batch, blob in enumerate(blobs):
            views = HeapViews() if fresh else views
            output = KeyGroupEngine(0, SCHEMA, settings(longest_s), log, views).process([blob], rules, batch, 0)
            found.append(comparable(output))
        return found, sum(map(len, log._chunks.values()))

    kept, kept_bytes = answers(31_622_400, fresh=False)
    dropped, dropped_bytes = answers(LONGEST_S, fresh=False)
    restored, _ = answers(LONGEST_S, fresh=True)
    assert sum(len(alerts) for alerts, *_ in kept) > 500
    assert any(b'"suppressed":' in text for alerts, *_ in kept for _, text in alerts)
    assert dropped == kept
    assert restored == kept
    assert dropped_bytes < kept_bytes


def comparable(output: KeyGroupOutput) -> tuple[object, ...]:
    return ([(alert.alert_id, alert.json) for alert in output.alerts], output.late, output.duplicates, output.rows)


def test_a_batch_whose_marks_are_all_spent_at_its_end() -> None:
    """The first keys pay twice and alert. The state keeps these marks until the log has them, and drops them under the
    many payments of the next batch."""
    rule = {"ruleId": 1, "aggregatorFunctionType": "COUNT", "limit": 2, "windowSeconds": 10}
    rules = timeline([rule])
    pairs, others = 20, 60_000
    payees = np.concatenate([np.repeat(np.arange(pairs), 2), 1_000 + np.arange(others)])
    at_ms = START_MS + np.arange(len(payees)) * 100
    engine = KeyGroupEngine(0, SCHEMA, settings(LONGEST_S), MemoryStateLog(), HeapViews())
    output = engine.process([packed(payees, at_ms, 0, rules)], rules, 0, 0)
    assert output.alerts
    later = packed(payees[2 * pairs :] + others, at_ms[2 * pairs :] + 10_000_000, 100_000, rules)
    output = engine.process([later], rules, 1, 0)
    assert output.retained_marks == 0


def test_a_mark_of_a_batch_replaces_the_older_one_in_the_log() -> None:
    """Some keys alert and are suppressed once. Their next alerts report this, and the many payments after them make the
    marks spent within the same batch. A restored state must not count the suppressed alerts again."""
    rule = {"ruleId": 1, "aggregatorFunctionType": "COUNT", "limit": 2, "windowSeconds": 10, "cooldownSeconds": 5}
    rules = timeline([rule])
    pairs, others = 20, 60_000
    again = np.concatenate([np.repeat(np.arange(pairs), 2), 1_000 + np.arange(others)])
    batches = [
        (np.repeat(np.arange(pairs), 3), START_MS + np.arange(3 * pairs)),
        (again, START_MS + 60_000 + np.arange(len(again)) * 100),
        (np.repeat(np.arange(pairs), 2), START_MS + 10_000_000 + np.arange(2 * pairs)),
    ]

    def answers(*, fresh: bool) -> list[object]:
        log, views, found = MemoryStateLog(), HeapViews(), []
        for batch, (payees, at_ms) in enumerate(batches):
            views = HeapViews() if fresh else views
            blob = packed(payees, at_ms, batch * 100_000, rules)
            output = KeyGroupEngine(0, SCHEMA, settings(LONGEST_S), log, views).process([blob], rules, batch, 0)
            found.append(comparable(output))
        return found

    live = answers(fresh=False)
    assert any(b'"suppressed":' in text for _, text in live[1][0])  # type: ignore[index]
    assert answers(fresh=True) == live


def test_a_cooldown_holds_for_a_payment_that_arrived_before_its_rule_ended() -> None:
    """A batch can know the end of a rule before all payments that arrived before this end are read."""
    rule = {"ruleId": 1, "aggregatorFunctionType": "COUNT", "limit": 1, "windowSeconds": 1, "cooldownSeconds": 60}
    known, ended = timeline([rule]), timeline([rule, {"ruleId": 1, "ruleState": "DELETE", "at": 20}])
    log, alerts = MemoryStateLog(), []
    for batch, (payee, at_ms, rules) in enumerate([(7, 0, known), (8, 19_000, ended), (7, 19_500, ended)]):
        blob = packed(np.array([payee]), np.array([START_MS + at_ms]), batch, rules)
        engine = KeyGroupEngine(0, SCHEMA, settings(LONGEST_S), log, HeapViews())
        alerts.append(len(engine.process([blob], rules, batch, 0).alerts))
    assert alerts == [1, 1, 0]
