"""Which page says what to do about what: docs/runbooks/<slug>.md, one for each verdict and alarm."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["BASE_PATH", "LOGS", "runbook_path", "slug"]

BASE_PATH = "/fraud/runbooks"
"""Where Airflow serves the pages to whoever is logged in."""

LOGS = "/fraud/logs"
"""Where it serves the ends of the detector's logs."""


def slug(name: str | StrEnum) -> str:
    """The page of a verdict or an alarm: `checkpoint-damaged` for CHECKPOINT_DAMAGED."""
    return str(name).lower().replace("_", "-")


def runbook_path(name: str | StrEnum) -> str:
    """The address of its page below Airflow's own."""
    return f"{BASE_PATH}/{slug(name)}"
