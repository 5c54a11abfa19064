"""Which page says what to do about what: docs/runbooks/<slug>.md, one for each verdict, alarm and named error."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

from fraud_rules.configuration.project import Project

__all__ = ["BASE_PATH", "LOGS", "runbook_file", "runbook_path", "slug"]

BASE_PATH = "/fraud/runbooks"
"""Where Airflow serves the pages to whoever is logged in."""

LOGS = "/fraud/logs"
"""Where it serves the ends of the detector's logs."""


_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
_ELSEWHERE = {"broker-unavailable": "broker-down", "history-at-risk": "history-lost"}
"""Names that share the page of another."""


def slug(name: str | StrEnum) -> str:
    """The page of a verdict, an alarm or an error: `archive-damaged` for ARCHIVE_DAMAGED and for ArchiveDamaged."""
    found = _WORD.sub("-", str(name)).lower().replace("_", "-")
    return _ELSEWHERE.get(found, found)


def runbook_path(name: str | StrEnum) -> str:
    """The address of its page below Airflow's own."""
    return f"{BASE_PATH}/{slug(name)}"


def runbook_file(name: str | StrEnum) -> Path:
    """Where its page is kept. Raises ConfigError where no project is found."""
    return Project.find().root / "docs" / "runbooks" / f"{slug(name)}.md"
