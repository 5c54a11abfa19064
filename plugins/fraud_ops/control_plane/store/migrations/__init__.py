"""The tables' history. Each step is a module of `versions`, made by `alembic revision` and never changed once
released.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from sqlalchemy.engine import Connection

__all__ = ["VERSION_TABLE", "migrate"]

VERSION_TABLE: Final = "fraud_control_version"
"""Not Alembic's own name: Airflow has that one, and may be in the same database."""


def migrate(connection: Connection) -> None:
    """Bring the tables to the newest version, in the transaction of this connection."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
