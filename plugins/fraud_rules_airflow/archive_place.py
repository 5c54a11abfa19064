"""The place of the archive, and the day that a run evaluates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import Variable

from fraud_rules.configuration.project import Project
from fraud_rules.model.day import Day

if TYPE_CHECKING:
    from fraud_rules.batch.archive.store import ArchiveStore

ARCHIVE_VARIABLE = "fraud_archive"
"""The Airflow variable with the archive's folder or `s3://BUCKET/PREFIX`. The default is var/archive of the project."""


def archive_store() -> ArchiveStore:
    """The archive. Raises ConfigError if there is no project, or if the variable names no place of an archive."""
    from fraud_rules.batch.archive.store import ArchiveStore

    named = Variable.get(ARCHIVE_VARIABLE, default=None)
    return ArchiveStore.at(named or str(Project.find().var / "archive"))


def day_of(text: str) -> Day:
    """The day in a partition key or a parameter; yesterday if `text` is empty. Raises InputInvalid."""
    return Day.parse(text) if text else Day.today().plus(-1)
