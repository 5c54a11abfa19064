"""The folder of the archive, and the day that a run evaluates."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import Variable

from fraud_rules.configuration.project import Project
from fraud_rules.model.day import Day

__all__ = ["ARCHIVE_VARIABLE", "archive_folder", "day_of"]

ARCHIVE_VARIABLE = "fraud_archive"
"""The Airflow variable with the archive's folder. The default is var/archive of the project."""


def archive_folder() -> Path:
    """The archive's folder. Raises ConfigError if there is no project."""
    named = Variable.get(ARCHIVE_VARIABLE, default=None)
    return Path(named) if named else Project.find().var / "archive"


def day_of(text: str) -> Day:
    """The day in a partition key or a parameter; yesterday if `text` is empty. Raises InputInvalid."""
    return Day.parse(text) if text else Day.today().plus(-1)
