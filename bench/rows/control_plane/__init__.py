"""Rows about the control plane: changes and readers, many viewers, and a full store."""

from __future__ import annotations

from bench.rows.control_plane import changes, full_store, viewers

ROWS = (*changes.ROWS, *viewers.ROWS, *full_store.ROWS)
