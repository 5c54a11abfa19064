"""Paths below which the control plane serves its parts. Airflow's plugin serves them below the same paths."""

from __future__ import annotations

from typing import Final

ROOT: Final = "/fraud"
PAGES: Final = f"{ROOT}/control"
API: Final = f"{PAGES}/api"
RUNBOOKS: Final = f"{ROOT}/runbooks"
OPEN: Final = f"{ROOT}/open"
"""Where Airflow's plugin sends a browser back with a ticket for a session."""
SESSION: Final = f"{ROOT}/session"
"""Where the control plane exchanges the ticket."""
HEALTH: Final = f"{ROOT}/health"
LOGS: Final = f"{ROOT}/logs"
"""The ends of the detector's logs."""
REPORTS: Final = f"{ROOT}/reports"
"""The reports of re-evaluations and what-ifs."""

FORWARDED_HOST: Final = "x-forwarded-host"
"""The header with the host names of Airflow for a browser."""
FORWARDED_PREFIX: Final = "x-forwarded-prefix"
"""The header with the path below which a proxy serves these paths, without a slash at its end."""


def report_path(kind: str, name: str) -> str:
    """The path of a report. `kind` is `nights`, with a day as `name`, or `whatif`, with the name of its folder."""
    return f"{REPORTS}/{kind}/{name}/report.html"
