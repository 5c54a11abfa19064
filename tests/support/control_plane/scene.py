"""A service over its own database, with a manual clock and users of every role."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from fraud_control.domain.read_models import RuleChanged, RuleInput
from fraud_control.domain.roles import Actor, Role
from fraud_control.domain.rule_input import RuleReader
from fraud_control.feed.events import FeedAlert, FeedCorrection
from fraud_control.service.alerts.index import AlertIndex
from fraud_control.service.store_access import StoreAccess
from fraud_control.settings import ControlPlaneSettings
from fraud_control.store.database import Database
from tests.support.control_plane.desk import Desk
from tests.support.rules import LIMITS, SCHEMA

VIC = Actor("vic", Role.VIEWER)
ANN = Actor("ann", Role.ANALYST)
ABE = Actor("abe", Role.ANALYST)
PAT = Actor("pat", Role.APPROVER)
PIA = Actor("pia", Role.APPROVER)
ADA = Actor("ada", Role.ADMIN)
REASON = "three frauds in a week"
"""The comment of a request for approval."""
RULE: dict[str, Any] = {
    "groupingKeyNames": ["payeeId", "beneficiaryId"],
    "aggregateFieldName": "paymentAmount",
    "aggregatorFunctionType": "SUM",
    "limitOperatorType": ">",
    "limit": 20,
    "windowMinutes": 20,
}


@dataclass
class Clock:
    """A clock in epoch milliseconds that only the test advances."""

    now_ms: int = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


@dataclass
class Scene:
    """A service with its database, settings and clock. `notified` collects the notifications of its listeners."""

    database: Database
    settings: ControlPlaneSettings
    clock: Clock = field(default_factory=Clock)
    notified: list[RuleChanged] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.service = self.another()
        self.store = self.service.store
        self.service.listen(self.notified.append)

    def another(self, **settings: Any) -> Desk:
        """Create a service with other settings over the same database."""
        changed = replace(self.settings, **settings)
        return Desk(StoreAccess(self.database, changed, RuleReader(SCHEMA, LIMITS), self.clock))

    def index(self, *alerts: FeedAlert) -> str:
        """Add alerts to the index, and return the id of the last one."""
        with self.database.writing() as session:
            AlertIndex(SCHEMA).add(session, alerts)
        return alerts[-1].facts.alert_id

    def prune(self, before_ms: int) -> None:
        """Remove alerts that were appended before a time from the index."""
        with self.database.writing() as session:
            AlertIndex(SCHEMA).prune(session, before_ms, self.clock())

    def correct(self, alert_id: str, kind: str) -> None:
        """Let a nightly correction about an alert arrive in the index."""
        correction = FeedCorrection(5, 9_000, alert_id, kind, 70, None, None)
        with self.database.writing() as session:
            AlertIndex(SCHEMA).correct(session, [correction], self.clock())


@cache
def _template() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        Database.open(f"sqlite:///{folder}/control.db").close()
        return (Path(folder) / "control.db").read_bytes()


def empty_store(folder: Path) -> str:
    """Create a store with its tables in a folder and return its URL."""
    (folder / "control.db").write_bytes(_template())
    return f"sqlite:///{folder / 'control.db'}"


def rule_input(**changes: Any) -> RuleInput:
    """The tests' rule with some members changed; None omits a member."""
    members = {**RULE, **changes}
    return RuleInput(document={name: value for name, value in members.items() if value is not None})
