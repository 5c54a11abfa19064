"""The migrations of the tables. Each is a module in `versions`, which must not change after its release."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection

from fraud_control.domain.errors import StoreTooNew
from fraud_control.store.tables import create_tables

VERSION_TABLE: Final = "fraud_control_version"
"""Airflow uses Alembic's default name and may share the database, so this table has its own name."""


def migrate(connection: Connection) -> None:
    """Create the tables in an empty database, and upgrade others to the newest version, in the transaction of this
    connection. Raises StoreTooNew, also for a version before the first release.
    """
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    found = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()
    if found is None:
        create_tables(connection)
        command.stamp(config, "head")
        return
    if found not in known:
        oldest, newest = min(known, key=int), max(known, key=int)
        raise StoreTooNew(
            f"the control plane's store has version {found} of its tables, and this release knows versions {oldest} "
            f"(the first that was released) to {newest}: run the release that has written it here too, or restore a "
            "backup of the store"
        )
    command.upgrade(config, "head")
