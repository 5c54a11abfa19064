"""Finds the runbook of a verdict, alarm or error: docs/runbooks/<slug>.md."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

from fraud_ops.paths import RUNBOOKS
from fraud_rules.configuration.project import Project

__all__ = ["runbook_file", "runbook_path", "slug"]

_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
_ELSEWHERE = {"broker-unavailable": "broker-down", "history-at-risk": "history-lost"}
"""Names that share the page of another name."""


def slug(name: str | StrEnum) -> str:
    """The page name of a verdict, alarm or error: `archive-damaged` for ARCHIVE_DAMAGED and ArchiveDamaged."""
    found = _WORD.sub("-", str(name)).lower().replace("_", "-")
    return _ELSEWHERE.get(found, found)


def runbook_path(name: str | StrEnum) -> str:
    """The path of the runbook below Airflow's address."""
    return f"{RUNBOOKS}/{slug(name)}"


def runbook_file(name: str | StrEnum) -> Path:
    """The file of the runbook. Raises ConfigError if there is no project."""
    return Project.find().root / "docs" / "runbooks" / f"{slug(name)}.md"
