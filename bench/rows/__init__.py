"""All groups of rows, in the order of the page."""

from __future__ import annotations

from bench.figures import Rows
from bench.rows import (
    backlog,
    control_plane,
    demo_start,
    engine,
    kernel,
    large_state,
    latency,
    nightly,
    operations,
    rule_parts,
    scaling,
    state,
)
from bench.rows.soaks import batches, ids, lists, plans, steady, warm_ups

ALL: tuple[Rows, ...] = (
    *backlog.ROWS,
    *latency.ROWS,
    *engine.ROWS,
    *kernel.ROWS,
    *rule_parts.ROWS,
    *operations.ROWS,
    *large_state.ROWS,
    *demo_start.ROWS,
    *state.ROWS,
    *scaling.ROWS,
    *nightly.ROWS,
    *control_plane.ROWS,
    *steady.ROWS,
    *batches.ROWS,
    *ids.ROWS,
    *warm_ups.ROWS,
    *plans.ROWS,
    *lists.ROWS,
)
