"""Monitors the store and raises alarms: changes that do not reach the rule log, drift, a broken audit chain,
live rules without an approval, receivers that do not accept notifications.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from fraud_control.background_thread import LeadingThread
from fraud_control.domain.read_models import AuditVerdict, OutboxState
from fraud_control.service.notifications.outbox import FailingReceiver
from fraud_control.store.leases import Leadership
from fraud_control.sync.drift import DriftReport
from fraud_control.sync.unapproved import UnapprovedItem
from fraud_control.watch.alarm_reports import AlarmReports
from fraud_ops.alarms import Alarm
from fraud_rules.errors import FraudError
from fraud_rules.runtime.clock import SteadyClock

STUCK_MS: Final = 30_000

_EVERY_MS: Final = {"outbox": 5_000, "receivers": 10_000, "unapproved": 10_000, "drift": 60_000, "audit": 60_000}
_POLL_INTERVAL_S: Final = 1.0
_MOST_NAMED: Final = 5

_log = logging.getLogger(__name__)


class StoreAlarm(StrEnum):
    """The alarms about the store; each has its runbook."""

    OUTBOX_STUCK = "OUTBOX_STUCK"
    DRIFT = "DRIFT"
    AUDIT_BROKEN = "AUDIT_BROKEN"
    UNAPPROVED_RULE = "UNAPPROVED_RULE"
    RECEIVER_FAILING = "RECEIVER_FAILING"


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks of the store. Each raises FraudError if it cannot check. `unapproved` is empty without four eyes."""

    outbox: Callable[[], OutboxState]
    drift: Callable[[], DriftReport]
    audit: Callable[[], AuditVerdict]
    unapproved: Callable[[], Sequence[UnapprovedItem]]
    receivers: Callable[[], Sequence[FailingReceiver]]


class StoreWatch(LeadingThread):
    """Checks the store while this process leads. `lead` opens the leadership. Alarms name the `detector`."""

    def __init__(
        self,
        checks: Checks,
        detector: str,
        alarms: AlarmReports,
        clock_ms: Callable[[], int],
        steady_ms: SteadyClock,
        lead: Callable[[], AbstractContextManager[Leadership]],
    ) -> None:
        super().__init__("control-plane-watch", lead, _POLL_INTERVAL_S)
        self._checks = checks
        self._detector = detector
        self._alarms = alarms
        self._clock_ms = clock_ms
        self._steady_ms = steady_ms
        self._due_ms = dict.fromkeys(_EVERY_MS, -math.inf)
        self._unapproved: frozenset[UnapprovedItem] | None = None
        self._failing: frozenset[str] | None = None
        self._drifted: frozenset[str] = frozenset()

    def step(self) -> None:
        """Run the checks that are due. A check that raises FraudError runs again after its interval."""
        now_ms = self._steady_ms()
        checks = {
            "outbox": self._check_outbox,
            "receivers": self._check_receivers,
            "unapproved": self._check_unapproved,
            "drift": self._check_drift,
            "audit": self._check_audit,
        }
        for name, check in checks.items():
            if now_ms >= self._due_ms[name]:
                self._due_ms[name] = now_ms + _EVERY_MS[name]
                try:
                    check()
                except FraudError as error:
                    _log.warning("the %s cannot be checked: %s", name, " ".join(str(error).split()))

    def _check_outbox(self) -> None:
        state = self._checks.outbox()
        age_ms = 0 if state.oldest_ms is None else self._clock_ms() - state.oldest_ms
        message = f"{state.pending} changes wait for the rule log, the oldest for {age_ms // 1_000} s"
        self._update_alarm(StoreAlarm.OUTBOX_STUCK, message, holds=age_ms > STUCK_MS)

    def _check_drift(self) -> None:
        """Report rules and lists that differ in two checks in a row, because a change in progress can differ for a
        moment.
        """
        report = self._checks.drift()
        ordered = [str(each.item) for each in report.differences]
        lasting, self._drifted = [name for name in ordered if name in self._drifted], frozenset(ordered)
        named = ", ".join(lasting[:_MOST_NAMED]) + (", ..." if len(lasting) > _MOST_NAMED else "")
        message = f"store and rule log differ in {len(lasting)} rules or lists" + (f": {named}" if lasting else "")
        self._update_alarm(StoreAlarm.DRIFT, message, holds=bool(lasting))

    def _check_unapproved(self) -> None:
        """Report content in force without an approval. More such content raises the alarm again."""
        found = frozenset(self._checks.unapproved())
        known = self._unapproved
        self._unapproved = found
        further = known is not None and bool(found - known)
        named = ", ".join(sorted(map(str, found))[:_MOST_NAMED])
        message = f"{len(found)} live rules or lists have no approval" + (f": {named}" if found else "")
        self._update_alarm(StoreAlarm.UNAPPROVED_RULE, message, holds=bool(found), again=further)

    def _check_receivers(self) -> None:
        """Report failing receivers of notifications. Another failing receiver raises the alarm again."""
        found = self._checks.receivers()
        names = frozenset(each.receiver for each in found)
        known, self._failing = self._failing, names
        further = known is not None and bool(names - known)
        named = ", ".join(f"{each.receiver} ({each.fault})" for each in found)
        message = f"receivers do not accept notifications: {named}" if found else "all receivers accept notifications"
        self._update_alarm(StoreAlarm.RECEIVER_FAILING, message, holds=bool(found), again=further)

    def _check_audit(self) -> None:
        verdict = self._checks.audit()
        message = f"the audit log has {verdict.rows} rows"
        if not verdict.whole:
            message += f" and was altered from row {verdict.broken_at} on"
        self._update_alarm(StoreAlarm.AUDIT_BROKEN, message, holds=not verdict.whole)

    def _update_alarm(self, name: StoreAlarm, message: str, *, holds: bool, again: bool = False) -> None:
        """Report whether a condition holds. The store decides whether that is news."""
        self._alarms.report(Alarm(name, self._detector, message, resolved=not holds), again=again)
