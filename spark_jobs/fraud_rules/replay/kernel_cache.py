"""Compiles the window kernel: `python -m fraud_rules.replay.kernel_cache`, once a version and kind of CPU.

Compiling takes a minute and a half on one core. bin/bootstrap runs this module, so that detectors
start without compiling. Otherwise the first process compiles, and the others wait for its code.
"""

from __future__ import annotations

import sys
import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from fraud_rules.model.day import DAY_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fraud_rules.model.log_entry import LogEntry
    from fraud_rules.model.schema import TransactionSchema
    from fraud_rules.model.transaction import TransactionBatch

_RULE: Final = {
    "ruleId": 1,
    "ruleState": "ACTIVE",
    "groupingKeyNames": ["account"],
    "aggregateFieldName": "amount",
    "aggregatorFunctionType": "SUM",
    "limitOperatorType": ">",
    "limit": 1,
    "windowMinutes": 1,
}
_LONG_RULE: Final = {**_RULE, "aggregatorFunctionType": "MAX", "windowMinutes": 2_880, "resolutionSeconds": 3_600}
_PREVIOUS_RULE: Final = {**_RULE, "ruleId": 2, "when": "amount > previous(amount)"}


def load_kernel() -> None:
    """Evaluate two rules once, and change a state. The first call reads the code from the cache, or compiles it.

    The workers of a detector load all that a batch may need, before its first batch.
    """
    from fraud_rules.engine.window.compiler import compiling

    with compiling():
        _evaluate([(0, 0)])
        _change_state()


def compile_kernel() -> None:
    """Compile every function: evaluate rows that expire, rows of many accounts, and a late row, and change a state."""
    from fraud_rules.engine.window.compiler import compiling

    with compiling():
        _evaluate([(n * 60_000, n % 2) for n in range(200)])
        _evaluate([(n, n) for n in range(4_000)])
        _evaluate([(n, n % 16) for n in range(8_000)])
        _evaluate([*((n, 1) for n in range(1, 1_200)), (0, 1)])
        _change_state()
        _count()


def main() -> int:
    """Compile the kernel and report the duration."""
    began_s = time.monotonic()
    compile_kernel()
    sys.stderr.write(f"the window kernel is compiled ({time.monotonic() - began_s:.0f} s)\n")
    return 0


def _evaluate(transactions: list[tuple[int, int]]) -> None:
    """Evaluate transactions (time in ms, account), then one that raises an alert, then a duplicate of it."""
    from fraud_rules.configuration.settings import DetectorSettings
    from fraud_rules.replay.replay import replay

    steps: list[dict[str, Any]] = [{"at": 1, "rule": _RULE}, {"at": 1, "rule": _PREVIOUS_RULE}]
    last = max(at for at, _ in transactions) + 1
    for number, (at, account) in enumerate([*transactions, (last, 1)]):
        amount = "2.00" if at == last else "1.00"
        transaction = {"transactionId": number, "eventTime": 1 + at, "account": account, "amount": amount}
        steps.append({"at": max(1 + at, steps[-1]["at"]), "tx": transaction})
    replay(
        {"steps": [*steps, steps[-1]]},
        _schema(),
        DetectorSettings(max_out_of_orderness_ms=0, key_groups=1, event_time_floor_ms=0),
    )


def _change_state() -> None:
    """Load a row and a mark, and add others, as a restore and a warm-up do. Measure the time of a rule."""
    import numpy as np

    from fraud_rules.engine.rule_meter import RuleMeter
    from fraud_rules.engine.state.arrays import HeapArrays
    from fraud_rules.engine.state.grouping_state import GroupingState, Marks
    from fraud_rules.engine.window.layout import M_WIDTH
    from fraud_rules.model.transaction import Column, TransactionBatch

    def row(number: int) -> TransactionBatch:
        values = np.array([number], dtype=np.int64)
        columns = {name: Column(values, None, None) for name in _schema().names}
        return TransactionBatch(values, values.astype(np.int32), values, columns)

    marks = Marks(np.zeros((1, M_WIDTH), dtype=np.int64), (Column(np.zeros(1, dtype=np.int64), None, None),))
    state = GroupingState.create(_schema(), ("account",), HeapArrays())
    state.load(row(1), np.array([1]), (marks,))
    state.append(row(2), np.array([2]), (marks,))
    state.marks_after_history()
    RuleMeter()
    _fold(row)


def _fold(row: Callable[[int], TransactionBatch]) -> None:
    """Fold a row into a sum by step, read the sum, and load it."""
    import numpy as np

    from fraud_rules.engine.state.arrays import HeapArrays
    from fraud_rules.engine.state.grouping_state import GroupingState
    from fraud_rules.engine.window.layout import FOREVER_MS
    from fraud_rules.model.ruleset import RuleTimeline

    rules = RuleTimeline([_entry(_LONG_RULE)])
    state = GroupingState.create(_schema(), ("account",), HeapArrays())
    plan = state.plan([rules.latest.groupings["account",]])
    for day in (1, 3):
        state.accept(row(day * DAY_MS), np.zeros(1, dtype=np.int64), plan, 0, explain=False)
    state.settle(FOREVER_MS)
    rows, numbers, sums = state.rows(), state.arrival_numbers(), state.sums()
    assert len(sums) == 1, "the older row is a sum"
    state.load(rows, numbers, (state.marks(),), plan.measures, sums)


def _count() -> None:
    """Count the alerts of zero evaluations, to compile the counting code of a what-if."""
    import numpy as np

    from fraud_rules.engine.window.evaluation.curve import LimitCurve
    from fraud_rules.engine.window.layout import O_WIDTH
    from fraud_rules.model.rule import Rule

    rule = _entry(_RULE).change
    assert isinstance(rule, Rule), "the rule is valid"
    curve = LimitCurve(rule, [Decimal(1)], _schema())
    curve.add(np.zeros((0, O_WIDTH), dtype=np.int64), np.zeros(0, dtype=np.int8))


def _entry(rule: Mapping[str, object]) -> LogEntry:
    """The entry of a log that begins with this rule."""
    import msgspec

    from fraud_rules.codec.rules.codec import read_entry
    from fraud_rules.model.limits import RuleLimits

    return read_entry(0, 1, msgspec.json.encode(rule), _schema(), RuleLimits())


def _schema() -> TransactionSchema:
    from fraud_rules.model.schema import Field, FieldType, TransactionSchema

    return TransactionSchema(
        (
            Field("transactionId", FieldType.LONG),
            Field("eventTime", FieldType.TIMESTAMP),
            Field("account", FieldType.LONG),
            Field("amount", FieldType.DECIMAL, precision=18, scale=2),
        )
    )


if __name__ == "__main__":
    sys.exit(main())
