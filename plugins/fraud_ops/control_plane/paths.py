"""Paths below which Airflow's API server serves the control plane."""

from __future__ import annotations

from typing import Final

__all__ = ["API", "PAGES"]

PAGES: Final = "/fraud/control"
API: Final = f"{PAGES}/api"
