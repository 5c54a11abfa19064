"""The migrations of the tables. Each is a module in `versions`, which must not change after its release."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from sqlalchemy.engine import Connection

__all__ = ["VERSION_TABLE", "migrate"]

VERSION_TABLE: Final = "fraud_control_version"
"""Airflow uses Alembic's default name and may share the database, so this table has its own name."""


def migrate(connection: Connection) -> None:
    """Upgrade the tables to the newest version, in the transaction of this connection."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
