"""The place of the archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import Variable, conf

from fraud_rules.configuration.project import Project
from fraud_rules.errors import ConfigError

if TYPE_CHECKING:
    from fraud_rules.batch.archive.store import ArchiveStore

ARCHIVE_VARIABLE = "fraud_archive"
"""The Airflow variable with the archive's folder or `s3://BUCKET/PREFIX`. The default is var/archive of the project, if
the executor runs all tasks on one host."""

_ON_ONE_HOST = "LocalExecutor"


def archive_store() -> ArchiveStore:
    """The archive. Raises ConfigError if there is no project, if the variable names no place of an archive, or if it is
    missing and workers may be on several hosts: each would begin an archive of its own."""
    from fraud_rules.batch.archive.store import ArchiveStore

    named = Variable.get(ARCHIVE_VARIABLE, default=None)
    executor = conf.get("core", "executor", fallback=_ON_ONE_HOST)
    if not named and executor != _ON_ONE_HOST:
        raise ConfigError(
            f"with {executor}, the Airflow variable {ARCHIVE_VARIABLE} must name the archive: a folder that all "
            "workers mount, or s3://BUCKET/PREFIX"
        )
    return ArchiveStore.at(named or str(Project.find().var / "archive"))
