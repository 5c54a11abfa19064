"""Where the archive is, and which day a run is about."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import Variable

from fraud_rules.configuration.project import Project
from fraud_rules.model.day import Day

__all__ = ["ARCHIVE_VARIABLE", "archive_folder", "day_of"]

ARCHIVE_VARIABLE = "fraud_archive"
"""The Airflow variable with the archive's folder; without it, it is var/archive of the project."""


def archive_folder() -> Path:
    """The archive's folder. Raises ConfigError where no project is found."""
    named = Variable.get(ARCHIVE_VARIABLE, default=None)
    return Path(named) if named else Project.find().var / "archive"


def day_of(text: str) -> Day:
    """The day that a partition or a parameter names; yesterday when neither does. Raises InputInvalid."""
    return Day.parse(text) if text else Day.today().plus(-1)
