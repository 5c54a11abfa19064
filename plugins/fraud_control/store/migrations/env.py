"""Alembic runs this module: it applies the migrations on the given connection."""

from __future__ import annotations

from alembic import context

from fraud_control.store.migrations import VERSION_TABLE
from fraud_control.store.models import Base

context.configure(
    connection=context.config.attributes["connection"], target_metadata=Base.metadata, version_table=VERSION_TABLE
)
with context.begin_transaction():
    context.run_migrations()
