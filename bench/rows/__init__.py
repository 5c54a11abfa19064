"""All groups of rows, in the order of the page."""

from __future__ import annotations

from bench.figures import Rows
from bench.rows import (
    backlog,
    control_plane,
    dag_pages,
    kernel,
    late_rows,
    latency,
    list_changes,
    lists,
    long_windows,
    nightly,
    operations,
    rebuild,
    scaling,
    state,
    supervision,
    warm_up,
)
from bench.rows.recovery import busy_starts, demo_start, large_state
from bench.rows.rules import many_rules, rule_cost, rule_log
from bench.rows.soaks import batches, ids, plans, steady, warm_ups
from bench.rows.soaks import lists as list_feed

ALL: tuple[Rows, ...] = (
    *backlog.ROWS,
    *latency.ROWS,
    *many_rules.ROWS,
    *scaling.ROWS,
    *kernel.ROWS,
    *lists.ROWS,
    *list_changes.ROWS,
    *late_rows.ROWS,
    *operations.ROWS,
    *large_state.ROWS,
    *busy_starts.ROWS,
    *demo_start.ROWS,
    *rule_cost.ROWS,
    *rule_log.ROWS,
    *state.ROWS,
    *long_windows.ROWS,
    *rebuild.ROWS,
    *warm_up.ROWS,
    *supervision.ROWS,
    *nightly.ROWS,
    *dag_pages.ROWS,
    *control_plane.ROWS,
    *steady.ROWS,
    *batches.ROWS,
    *ids.ROWS,
    *warm_ups.ROWS,
    *plans.ROWS,
    *list_feed.ROWS,
)
