"""Leadership by leases in the store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fraud_control.domain.errors import LeadershipLost
from fraud_control.store import leases
from fraud_control.store.database import Database
from tests.support.control_plane.leaders import check_leadership, end_lease, lease_end
from tests.support.control_plane.scene import Scene
from tests.support.waiting import until


@pytest.fixture
def other(scene: Scene) -> Iterator[Database]:
    database = Database.open(scene.settings.database)
    yield database
    database.close()


def test_one_process_leads_at_a_time_and_a_suspended_one_writes_nothing(scene: Scene, other: Database) -> None:
    check_leadership(scene.database, other)


def test_long_work_costs_no_leadership(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader's thread only waits here. Another thread renews."""
    monkeypatch.setattr(leases, "_RENEW_S", 0.01)
    with scene.database.leadership("mirror") as lead:
        before = lease_end(scene.database, "mirror")
        until(lambda: lease_end(scene.database, "mirror") > before, "the lease is renewed")
        lead.check()


def test_a_leader_that_cannot_renew_stops_in_time(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = [1_000_000]
    monkeypatch.setattr(leases, "steady_ms", lambda: now_ms[0])
    with scene.database.leadership("mirror") as lead:
        now_ms[0] += leases.LEASE_MS - 1
        lead.check()
        now_ms[0] += 1
        with pytest.raises(LeadershipLost):
            lead.check()


def test_a_clock_that_was_set_back_makes_no_lease_longer(scene: Scene, other: Database) -> None:
    with scene.database.leadership("mirror"):
        end_lease(other, "mirror", lease_end(other, "mirror") + 3_600_000)
        with other.leadership("mirror") as lead:
            assert lead
