"""Names for the columns of the flat int64 arrays that the compiled kernel works on.

A grouping state (one key group, one grouping, one epoch) consists of a few two-dimensional int64 arrays. So its memory
can belong to one process or be a file that every worker of a host maps, and numba compiles plain loops.
"""

from __future__ import annotations

import numpy as np

NONE = int(np.iinfo(np.int64).min)
"""The value of an absent watermark, bound or time. Valid event times are never that small."""

FOREVER_MS = 1 << 60
"""Longer than any cool-down or lateness. With it, marks never expire by age."""

# Header: one vector per grouping state.
H_EVENTS = 0  # rows used in `events`
H_SLOTS = 1  # rows used in `slots`
H_POOL = 2  # rows allocated in `pool`
H_MARKS = 3  # rows used in `marks`
H_DISTINCT = 4  # rows used in `distinct`
H_WATERMARK = 5
H_BOUND = 6  # the retention bound H
H_FIRST = 7  # event time of the first transaction accepted
H_SEQ = 8  # arrival number of the next accepted transaction
H_STRINGS = 9  # interned strings
H_TEXT = 10  # bytes of the interned strings
H_STRINGS_DUE = 11  # the number of strings at which those out of use are removed
H_OUT = 12  # rows written to the output by this call
H_GENERATION = 13  # incremented whenever an array is recreated or grown
H_MEASURES = 14  # bytes of the encoded measures
H_SEED = 15  # the seed of the strings' hashes
H_SETTLED = 16  # rows appended before this time may become parts of sums (see `step_sums`)
HEADER_SIZE = 17

# Events: one row per accepted transaction, in arrival order.
E_APPEND = 0
E_SLOT = 1
E_NULLS = 2  # bit i set: schema field i is null
E_SEQ = 3
E_FIELDS = 4  # the schema's fields follow, in schema order

# Slots: one row per grouping key.
S_BASE = 0  # the key's first pool row
S_CAP = 1  # pool rows allocated to the key
S_TAIL = 2  # pool rows used by the key, ordered by (event time, arrival)
S_WIDTH = 3  # then: one left end per window class, three words per distinct measure, the key's values

# Pool: one row per retained transaction or sum, by key and event time.
P_TIME = 0  # of a sum: the newest event time in it
P_EVENT = 1  # row in `events`; NO_EVENT: a sum
P_SUMS = 2  # the running totals along the key's rows follow

# The addend of a running total, for rows that pass its filter.
TOTAL_ROWS = 0  # 1
TOTAL_VALUES = 1  # 1 if the field is not null
TOTAL_LOW = 2  # the low 32 bits of the value
TOTAL_HIGH = 3  # the value shifted right by 32, with its sign
TOTAL_SQUARE_0 = 4  # 32-bit limbs of the value's square, lowest first
TOTAL_SQUARE_1 = 5
TOTAL_SQUARE_2 = 6
TOTAL_SQUARE_3 = 7

NO_EVENT = -1

# Series: one row per series of a long window, in the order of `Measures.series`.
Q_BEGUN = 0  # 1: the series has begun here and is in force
Q_BEGAN = 1  # the retention bound when it began: older rows are not in the series
Q_BOUND = 2  # B: of the rows before the retention bound, those from B on count
Q_SINCE = 3  # the event time from which it has all rows; NONE: from that of the grouping on
Q_IS_WARM = 4  # 1: Q_SINCE is the beginning of a warm-up's history, which can be before that of the grouping
Q_ENDED = 5  # the newest append time when its end was noticed; NONE: in force
Q_HISTORY = 6  # of the rows that warm-ups have added, those from this event time on are in the series
Q_WIDTH = 7

# Windows: one row per window class.
W_LENGTH = 0  # in ms; of a calendar window, -1 - its column of `Arrivals.calendar_starts`
W_STEP = 1  # a long window starts at a multiple of this, in ms; 1: any other window
W_SERIES = 2  # row in `series`; -1: none
W_WIDTH = 3

# Marks: one row per (rule incarnation, key) that has alerted or suppressed an alert.
M_RULE = 0  # incarnation of the rule
M_SLOT = 1
M_RESET_SEQ = 2  # COUNT_WITH_RESET: arrival number of the last alert, or NONE
M_RESET_TIME = 3  # event time of the key's newest row at that alert
M_REVIVED = 4  # rows that arrived after the mark, but sort before M_RESET_TIME
M_LAST_TIME = 5  # largest event time among the alerts, or NONE
M_SUPPRESSED = 6
M_WIDTH = 7

# Distinct: one row per (measure, key, value) in a current window.
D_MEASURE = 0
D_SLOT = 1
D_EVENT = 2  # an event that has the value
D_COUNT = 3
D_WIDTH = 4

# Rules of a plan.
R_KIND = 0  # KIND_* of `aggregates`
R_WINDOW = 1  # window class
R_FILTER = 2
R_COUNT = 3  # pool column with the running count of rows; -1: the count follows from positions
R_VALUES = 4  # pool column with the running count of values; -1: as for R_COUNT
R_LOW = 5  # pool column of TOTAL_LOW; TOTAL_HIGH and the squares follow it
R_TREE = 6
R_DISTINCT = 7
R_COOLDOWN = 8  # ms, 0: none
R_RULE = 9  # incarnation
R_OPERATOR = 10
R_LIMIT_NEGATIVE = 11
R_FROM_HIGH = 12  # interval of firing values as (value >> 32, value & 0xFFFFFFFF), both ends included
R_FROM_LOW = 13
R_TO_HIGH = 14
R_TO_LOW = 15
R_NEGATE = 16
R_MODE = 17  # MODE_*
R_SHARED = 18  # rules with the same number have the same aggregate: extremes and distinct values
R_WHEN = 19  # column of `Arrivals.passes`: the rows that the rule evaluates. Without `when` it is R_FILTER
R_LIMIT = 20  # the number of its limit among those of a row (`Arrivals.limits`); -1: the limit is a literal
R_ALERTS = 21  # 0: a SIGNAL, which never alerts
R_CONDITIONS = 22  # the number of its conditions, and the row of the first one. They follow the rules of all versions
R_FIRST_CONDITION = 23
R_REQUIRED = 24  # the least number of conditions that must hold; 0: none may hold
R_HAS_AGGREGATE = 25  # 0: the conditions alone decide, and the value is the number of those that hold
R_NAMED = 26  # the number of rules that it names: their outcomes decide, too
R_REPORTED = 27  # 1: another rule names it, so that each of its evaluations has an output row
R_OWN = 28  # 1: a limit of its conditions reads its own aggregate
R_LONG = 29  # window class of a long window and its baseline together, plus one; 0: no long window
R_WIDTH = 30

MODE_PAUSED = 0
MODE_PLAIN = 1
MODE_BASELINE = 2

# The baselines of a plan's rules. `read_aggregate` reads the columns that have the places of R_*.
B_KIND = R_KIND
B_REACH = R_WINDOW  # window class of the window and the baseline together
B_MIN_COUNT = 2
B_COUNT = R_COUNT
B_VALUES = R_VALUES
B_LOW = R_LOW
B_TREE = R_TREE
B_DEVIATIONS = 7  # 1: the limit counts deviations from the mean
B_OWN_SCALE = 8  # factors that bring the aggregate and the mean to one scale; one of them is 1
B_BASE_SCALE = 9
B_WIDTH = 10

OP_EQ = 0
OP_NE = 1
OP_GE = 2
OP_LE = 3
OP_GT = 4
OP_LT = 5
OP_ALWAYS = 6
OP_NEVER = 7

LIMBS = 12
"""32-bit limbs of the wide factors of AVG and STDDEV limits (384 bits)."""

# Output: one row per alert, suppressed alert or pending alert, and per evaluation of a rule that another rule names;
# with `explain`, one row per evaluation. The rows of its conditions follow, if its own aggregate meets the limit.
O_ROW = 0
O_RULE = 1
O_COUNT = 2  # windowCount
O_VALUES = 3  # non-null values in the window
O_HIGH = 4  # the aggregate, (O_HIGH << 32) + O_LOW
O_LOW = 5
O_SQUARE = 6  # four limbs
O_SUPPRESSED = 10
O_COMPLETE = 11
O_FIRED = 12  # FIRED_*; in the row of a condition, whether it holds
# For rules with a baseline; O_SQUARE then has the squares of the baseline.
O_BASE_COUNT = 13
O_BASE_VALUES = 14
O_BASE_HIGH = 15
O_BASE_LOW = 16
O_CONDITIONS = 17  # the rows of conditions that follow
O_ALERTED = 18  # of a pending alert: the largest event time of the alerts before it, NONE without any
O_WIDTH = 19

FIRED_NO = 0
FIRED_YES = 1
FIRED_SUPPRESSED = 2
FIRED_SIGNAL = 3  # the rule holds, but it is a SIGNAL
FIRED_PENDING = 4  # the rule can hold, but the outcomes of the rules that it names decide

# The outcomes of a row.
ROW_ACCEPTED = 1
ROW_DUPLICATE = 2
ROW_CONFLICTING_DUPLICATE = 3  # a duplicate with other values than the retained transaction
ROW_LATE_KEPT = 4
ROW_LATE_EXPIRED = 5

# The reasons why the kernel returns.
DONE = 0
NEED_EVENTS = 1
NEED_SLOTS = 2
NEED_POOL = 3
NEED_MARKS = 4
NEED_OUTPUT = 5
NEED_RUNS = 6
