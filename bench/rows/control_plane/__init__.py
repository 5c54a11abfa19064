"""Rows about the control plane: changes and readers, many viewers, and the paint of the pages."""

from __future__ import annotations

from bench.rows.control_plane import changes, pages, viewers

ROWS = (*changes.ROWS, *viewers.ROWS, *pages.ROWS)
