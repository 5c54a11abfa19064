"""Finds the runbook of a verdict, alarm or error: docs/runbooks/<slug>.md."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

from fraud_ops.paths import RUNBOOKS
from fraud_rules.configuration.shipped import RUNBOOK_PAGES, shipped

DAG_IDS = frozenset(
    {
        "fraud_archive", "fraud_backtest", "fraud_checkpoint_drill", "fraud_checkpoint_health", "fraud_detector",
        "fraud_detector_ops", "fraud_nightly_reevaluation", "fraud_retention", "fraud_seed_rules",
        "fraud_supervision", "fraud_topics", "fraud_warm_up",
    }
)  # fmt: skip
"""The DAGs that runbooks name, with the ids that they have by default."""

_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
_ELSEWHERE = {
    "broker-unavailable": "broker-down",
    "day-busy": "archive-busy",
    "day-empty": "day-not-archived",
    "day-too-old": "day-not-archived",
    "draining": "stopped",
    "history-at-risk": "history-lost",
    "master-unavailable": "refused",
    "reevaluation-failed": "archive-failed",
    "rule-log-foreign": "archive-foreign",
}
"""Names that share the page of another name."""


def slug(name: str | StrEnum) -> str:
    """The page name of a verdict, alarm or error: `archive-damaged` for ARCHIVE_DAMAGED and ArchiveDamaged."""
    found = _WORD.sub("-", str(name)).lower().replace("_", "-")
    return _ELSEWHERE.get(found, found)


def runbook_path(name: str | StrEnum) -> str:
    """The path of the runbook below Airflow's address."""
    return f"{RUNBOOKS}/{slug(name)}"


def runbook_file(name: str | StrEnum) -> Path:
    """The file of the runbook."""
    return shipped() / RUNBOOK_PAGES / f"{slug(name)}.md"
