"""The place of the archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import Variable

from fraud_rules.configuration.project import Project

if TYPE_CHECKING:
    from fraud_rules.batch.archive.store import ArchiveStore

ARCHIVE_VARIABLE = "fraud_archive"
"""The Airflow variable with the archive's folder or `s3://BUCKET/PREFIX`. The default is var/archive of the project."""


def archive_store() -> ArchiveStore:
    """The archive. Raises ConfigError if there is no project, or if the variable names no place of an archive."""
    from fraud_rules.batch.archive.store import ArchiveStore

    named = Variable.get(ARCHIVE_VARIABLE, default=None)
    return ArchiveStore.at(named or str(Project.find().var / "archive"))
