"""Rows about the control plane: changes and readers, many viewers, the paint of the pages, and a full store."""

from __future__ import annotations

from bench.rows.control_plane import changes, full_store, pages, viewers

ROWS = (*changes.ROWS, *viewers.ROWS, *pages.ROWS, *full_store.ROWS)
