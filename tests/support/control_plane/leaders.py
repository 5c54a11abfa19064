"""Checks of leadership that hold for each database."""

from __future__ import annotations

import pytest
from sqlalchemy import select, update

from fraud_control.domain.errors import LeadershipLost
from fraud_control.store.database import Database
from fraud_control.store.leases import LeadershipRow
from fraud_control.store.models import Fact


def lease_end(database: Database, name: str) -> int:
    """The end of a lease by the database's clock."""
    with database.reading() as session:
        return session.scalars(select(LeadershipRow.until_ms).where(LeadershipRow.name == name)).one()


def end_lease(database: Database, name: str, until_ms: int = 0) -> None:
    """Let a lease end, as if its process had been suspended."""
    with database.writing() as session:
        session.execute(update(LeadershipRow).where(LeadershipRow.name == name).values(until_ms=until_ms))


def check_leadership(first: Database, second: Database) -> None:
    """One of two processes leads; after the end of its lease the other leads, and the first one notices."""
    with (
        first.leadership("publisher") as ours,
        second.leadership("publisher") as theirs,
        second.leadership("mirror") as other,
    ):
        assert list(map(bool, (ours, theirs, other))) == [True, False, True]
    with second.leadership("publisher") as again:
        assert again, "a leadership ends with its block"
    with first.leadership("publisher") as suspended:
        suspended.check()
        end_lease(second, "publisher")
        with second.leadership("publisher") as successor:
            assert successor
        with pytest.raises(LeadershipLost, match="publisher"), first.writing() as session:
            session.add(Fact(name="late", value="change"))
        first.renew_leases()
        with pytest.raises(LeadershipLost, match="publisher"):
            suspended.check()
    with first.reading() as session:
        assert session.get(Fact, "late") is None
