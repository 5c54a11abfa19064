"""Concludes the evaluation of a rule: evaluates its conditions, updates marks, and writes the output."""

from __future__ import annotations

from fraud_rules.engine.window.aggregates import KIND_RESET
from fraud_rules.engine.window.bundles import EvaluatedRow, Ints, KernelArrays, StateArrays
from fraud_rules.engine.window.compiler import compiled, inlined
from fraud_rules.engine.window.evaluation.aggregate import WindowAggregate, write_aggregate
from fraud_rules.engine.window.evaluation.combined import are_conditions_complete, evaluate_conditions
from fraud_rules.engine.window.evaluation.windows import is_complete
from fraud_rules.engine.window.hash_tables import ensure_mark, find_mark
from fraud_rules.engine.window.layout import (
    FIRED_NO,
    FIRED_PENDING,
    FIRED_SIGNAL,
    FIRED_SUPPRESSED,
    FIRED_YES,
    H_OUT,
    H_SEQ,
    M_LAST_TIME,
    M_RESET_SEQ,
    M_RESET_TIME,
    M_REVIVED,
    M_SUPPRESSED,
    NONE,
    O_ALERTED,
    O_COMPLETE,
    O_CONDITIONS,
    O_FIRED,
    O_ROW,
    O_RULE,
    O_SUPPRESSED,
    P_TIME,
    R_ALERTS,
    R_CONDITIONS,
    R_COOLDOWN,
    R_HAS_AGGREGATE,
    R_KIND,
    R_NAMED,
    R_REPORTED,
    R_RULE,
    S_BASE,
    S_TAIL,
)


@inlined
def report(arrays: KernelArrays, row: EvaluatedRow, r: int, reach: int, met: bool, aggregate: WindowAggregate) -> int:
    """Alert or suppress if rule r holds: its own aggregate has `met` the limit, and enough conditions hold. The alert
    of a rule that names rules is pending. Returns the output row, or -1 if there is none.

    `reach` is the class of the window that the evaluation reads.
    """
    state, rows = arrays.state, arrays.rules.rows
    fired = FIRED_NO
    suppressed = 0
    conditions = 0
    complete = True
    alerted = NONE
    if met and rows[r, R_CONDITIONS] != 0:
        conditions = rows[r, R_CONDITIONS]
        holding, met, complete = evaluate_conditions(arrays, row, r, aggregate)
        if rows[r, R_HAS_AGGREGATE] == 0:
            aggregate = WindowAggregate(0, aggregate.values, 0, holding, 0, 0, 0, 0)
    elif rows[r, R_REPORTED] != 0:
        complete = are_conditions_complete(arrays, row, r)
    if met:
        if rows[r, R_NAMED] != 0:
            fired = FIRED_PENDING
            alerted, suppressed = _last_alert(state, rows, r, row.slot)
        elif rows[r, R_ALERTS] != 0:
            fired, suppressed = _fire(state, rows, r, row.slot, row.time)
        else:
            fired = FIRED_SIGNAL
    if arrays.explain == 0 and rows[r, R_REPORTED] == 0 and (fired == FIRED_NO or rows[r, R_ALERTS] == 0):
        return -1
    output, at = arrays.results.output, state.header[H_OUT]
    state.header[H_OUT] = at + 1 + conditions
    write_aggregate(output, at, aggregate)
    output[at, O_ROW] = row.number
    output[at, O_RULE] = r
    output[at, O_SUPPRESSED] = suppressed
    output[at, O_COMPLETE] = complete and is_complete(arrays, row, reach)
    output[at, O_CONDITIONS] = conditions
    output[at, O_ALERTED] = alerted
    output[at, O_FIRED] = fired
    return at


@compiled
def _last_alert(state: StateArrays, rows: Ints, r: int, slot: int) -> tuple[int, int]:
    """The mark of rule r: the largest event time of its alerts (NONE without any), and the alerts suppressed since."""
    entry = state.mark_table[find_mark(state, rows[r, R_RULE], slot)] - 1
    if entry < 0:
        return NONE, 0
    return state.marks[entry, M_LAST_TIME], state.marks[entry, M_SUPPRESSED]


@compiled
def _fire(state: StateArrays, rows: Ints, r: int, slot: int, time: int) -> tuple[int, int]:
    """Alert or suppress, because rule r holds, and update the marks. Returns (FIRED_*, alerts suppressed
    since the previous alert)."""
    marks = state.marks
    entry = ensure_mark(state, rows[r, R_RULE], slot)
    last_time = marks[entry, M_LAST_TIME]
    if rows[r, R_COOLDOWN] > 0 and last_time != NONE and time < last_time + rows[r, R_COOLDOWN]:
        marks[entry, M_SUPPRESSED] += 1
        return FIRED_SUPPRESSED, 0
    suppressed = marks[entry, M_SUPPRESSED]
    marks[entry, M_SUPPRESSED] = 0
    if last_time == NONE or time > last_time:
        marks[entry, M_LAST_TIME] = time
    if rows[r, R_KIND] == KIND_RESET:
        youngest = state.slots[slot, S_BASE] + state.slots[slot, S_TAIL] - 1
        marks[entry, M_RESET_SEQ] = state.header[H_SEQ] - 1
        marks[entry, M_RESET_TIME] = state.pool[youngest, P_TIME]
        marks[entry, M_REVIVED] = 0
    return FIRED_YES, suppressed
