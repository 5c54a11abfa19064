"""Concludes the evaluation of a rule: compares the aggregate with the limit, updates marks, and writes the output."""

from __future__ import annotations

from fraud_rules.engine.window.aggregates import KIND_RESET, KIND_STDDEV
from fraud_rules.engine.window.bundles import Arrivals, Ints, MeasureArrays, ResultArrays, RuleArrays, StateArrays
from fraud_rules.engine.window.compiler import compiled, inlined
from fraud_rules.engine.window.evaluation.combined import evaluate_conditions
from fraud_rules.engine.window.evaluation.condition import is_met, is_met_at
from fraud_rules.engine.window.hash_tables import ensure_mark, find_mark
from fraud_rules.engine.window.key_rows import opening
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
    O_COUNT,
    O_FIRED,
    O_HIGH,
    O_LOW,
    O_ROW,
    O_RULE,
    O_SQUARE,
    O_SUPPRESSED,
    O_VALUES,
    P_TIME,
    R_ALERTS,
    R_CONDITIONS,
    R_COOLDOWN,
    R_HAS_AGGREGATE,
    R_KIND,
    R_LIMIT,
    R_NAMED,
    R_REPORTED,
    R_RULE,
    R_WINDOW,
    S_BASE,
    S_TAIL,
)
from fraud_rules.engine.window.series.step_sums import complete_from


@inlined
def conclude(
    state: StateArrays,
    side: StateArrays,
    measures: MeasureArrays,
    rules: RuleArrays,
    arrivals: Arrivals,
    results: ResultArrays,
    explain: int,
    i: int,
    r: int,
    slot: int,
    run: int,
    time: int,
    count: int,
    values: int,
    high: int,
    low: int,
    s0: int,
    s1: int,
    s2: int,
    s3: int,
) -> None:
    """Conclude the evaluation of rule r for row i: `count` rows and `values` values in the window, the aggregate
    (high << 32) + low, and the limbs of a sum of squares."""
    if rules.rows[r, R_LIMIT] < 0:
        met = is_met(rules, r, results.limbs, high, low, values, s0, s1, s2, s3)
    else:
        met = is_met_at(arrivals, rules, i, r, results.limbs, high, low, values, s0, s1, s2, s3)
    window = rules.rows[r, R_WINDOW]
    at = report(
        state, side, measures, rules, arrivals, results, explain, i, r, slot, run, window, time, met, count, values,
        high, low, s0, s1, s2, s3,
    )  # fmt: skip
    if at >= 0 and rules.rows[r, R_KIND] == KIND_STDDEV:
        results.output[at, O_SQUARE] = s0
        results.output[at, O_SQUARE + 1] = s1
        results.output[at, O_SQUARE + 2] = s2
        results.output[at, O_SQUARE + 3] = s3


@inlined
def report(
    state: StateArrays,
    side: StateArrays,
    measures: MeasureArrays,
    rules: RuleArrays,
    arrivals: Arrivals,
    results: ResultArrays,
    explain: int,
    i: int,
    r: int,
    slot: int,
    run: int,
    reach: int,
    time: int,
    met: bool,
    count: int,
    values: int,
    high: int,
    low: int,
    s0: int,
    s1: int,
    s2: int,
    s3: int,
) -> int:
    """Alert or suppress if rule r holds: its own aggregate has `met` the limit, and enough conditions hold. The alert
    of a rule that names rules is pending. Returns the output row, or -1 if there is none.

    `reach` is the class of the window that the evaluation reads.
    """
    fired = FIRED_NO
    suppressed = 0
    conditions = 0
    complete = True
    alerted = NONE
    if met and rules.rows[r, R_CONDITIONS] != 0:
        conditions = rules.rows[r, R_CONDITIONS]
        holding, met, complete = evaluate_conditions(
            state, side, measures, rules, arrivals, results, i, r, slot, run, time, count, values, high, low, s0, s1,
            s2, s3,
        )  # fmt: skip
        if rules.rows[r, R_HAS_AGGREGATE] == 0:
            count, high, low = 0, 0, holding
    if met:
        if rules.rows[r, R_NAMED] != 0:
            fired = FIRED_PENDING
            alerted, suppressed = _last_alert(state, rules.rows, r, slot)
        elif rules.rows[r, R_ALERTS] != 0:
            fired, suppressed = _fire(state, rules.rows, r, slot, time)
        else:
            fired = FIRED_SIGNAL
    if explain == 0 and rules.rows[r, R_REPORTED] == 0 and (fired == FIRED_NO or rules.rows[r, R_ALERTS] == 0):
        return -1
    opens = opening(measures, arrivals, i, reach, time)
    at = state.header[H_OUT]
    state.header[H_OUT] = at + 1 + conditions
    results.output[at, O_ROW] = i
    results.output[at, O_RULE] = r
    results.output[at, O_COUNT] = count
    results.output[at, O_VALUES] = values
    results.output[at, O_HIGH] = high
    results.output[at, O_LOW] = low
    results.output[at, O_SUPPRESSED] = suppressed
    results.output[at, O_COMPLETE] = complete and opens >= complete_from(state, measures, reach)
    results.output[at, O_CONDITIONS] = conditions
    results.output[at, O_ALERTED] = alerted
    results.output[at, O_FIRED] = fired
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
