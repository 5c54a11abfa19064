"""Monitors the alerts per minute of each rule. Above the flood limit, raises an alarm and can move the rule to SHADOW.

Every process monitors the rates, because its pages show the flooding rules. Only one process at a time, the leader,
raises alarms and moves rules.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

from fraud_control.background_thread import BackgroundThread
from fraud_control.domain.errors import ControlPlaneError
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.roles import Actor, Role, system_author
from fraud_control.feed.memory import FeedMemory
from fraud_control.service.items.heads import rule_head
from fraud_control.service.rules.transitions import change_state
from fraud_control.service.store_access import StoreAccess
from fraud_control.settings import Flood
from fraud_control.store.leases import Leadership
from fraud_control.watch.alarm_reports import AlarmReports, end_others
from fraud_ops.alarms import Alarm
from fraud_rules.runtime.retry import RepeatedWork


@dataclass(frozen=True, slots=True)
class FloodChange:
    """A flood of a rule began (`began`) or ended; `per_minute` is the number of its alerts in the last minute."""

    rule_id: int
    began: bool
    per_minute: int


@dataclass(slots=True)
class FloodWatch:
    """A flood begins above `alerts_per_minute` and ends at half of that, so that a flood raises one alarm only."""

    alerts_per_minute: int
    flooding: set[int] = field(default_factory=set)

    def update(self, rates: Mapping[int, float]) -> Iterable[FloodChange]:
        """List the floods that began or ended, from each rule's alerts of the last minute. An absent rule has none."""
        changes = []
        for rule_id, rate in rates.items():
            if rule_id not in self.flooding and rate > self.alerts_per_minute:
                changes.append(FloodChange(rule_id, began=True, per_minute=int(rate)))
        for rule_id in self.flooding:
            rate = rates.get(rule_id, 0.0)
            if rate <= self.alerts_per_minute / 2:
                changes.append(FloodChange(rule_id, began=False, per_minute=int(rate)))
        for change in changes:
            (self.flooding.add if change.began else self.flooding.discard)(change.rule_id)
        return changes


ALARM = "ALERT_FLOOD"
GUARD = Actor(system_author("flood-guard"), Role.APPROVER)

_OBSERVED_MS: Final = 180_000

_log = logging.getLogger(__name__)


class FloodGuard(BackgroundThread):
    """Raises alarms about flooding rules, and moves them to SHADOW if the settings require it.

    Alarms name the `detector`. `lead` opens the leadership; only the process that leads raises alarms and moves rules.
    """

    def __init__(
        self,
        memory: FeedMemory,
        store: StoreAccess,
        settings: Flood,
        detector: str,
        alarms: AlarmReports,
        clock_ms: Callable[[], int],
        lead: Callable[[], AbstractContextManager[Leadership]],
        interval_s: float = 2.0,
    ) -> None:
        super().__init__("fraud-control-flood")
        self._memory = memory
        self._store = store
        self._settings = settings
        self._detector = detector
        self._alarms = alarms
        self._leads_since_ms: int | None = None
        self._clock_ms = clock_ms
        self._lead = lead
        self._interval_s = interval_s
        self._watch = FloodWatch(settings.alerts_per_minute)

    @property
    def flooding(self) -> frozenset[int]:
        """The rules above the flood limit."""
        return frozenset(self._watch.flooding)

    def check(self, *, leads: bool = True) -> None:
        """Check all rates once. Without `leads`, update only the set of flooding rules."""
        rates = self._memory.rates(self._clock_ms())
        changes = self._watch.update(rates)
        if not leads:
            return
        for change in changes:
            self._act(change)
        for rule_id in sorted(self.flooding - {each.rule_id for each in changes}):
            self._report(FloodChange(rule_id, began=True, per_minute=int(rates.get(rule_id, 0))))
        self._end_old_alarms()

    def _work(self, attempt: RepeatedWork) -> None:
        with self._lead() as lead:
            attempt.record_success()
            self._check_while_leading(lead)

    def _check_while_leading(self, lead: Leadership) -> None:
        """Check repeatedly while this process leads. Otherwise check once, so that the caller can try to lead again."""
        if lead:
            self._take_over()
        while not self._stop.wait(self._interval_s):
            lead.check()
            self.check(leads=bool(lead))
            if not lead:
                return

    def _take_over(self) -> None:
        """Raise the alarms of all flooding rules: the previous leader may have died before it raised them."""
        self._leads_since_ms = self._clock_ms()
        rates = self._memory.rates(self._clock_ms())
        for rule_id in sorted(self.flooding):
            self._act(FloodChange(rule_id, began=True, per_minute=int(rates.get(rule_id, 0))))

    def _end_old_alarms(self) -> None:
        """Once the rates cover the last minutes, end the alarms of an earlier leader whose floods have ended."""
        if self._leads_since_ms is None or self._clock_ms() - self._leads_since_ms < _OBSERVED_MS:
            return
        self._leads_since_ms = None
        flooding = {f"rule {rule_id}" for rule_id in self.flooding}
        end_others(self._alarms, ALARM, self._detector, flooding, "no longer floods")

    def _act(self, change: FloodChange) -> None:
        moved = self._settings.to_shadow and change.began and self._moved_to_shadow(change)
        self._report(change, moved=moved)

    def _report(self, change: FloodChange, *, moved: bool = False) -> None:
        """Report whether a rule floods. The store decides whether that is news."""
        said, part = self._message(change, moved=moved), f"rule {change.rule_id}"
        self._alarms.report(Alarm(ALARM, self._detector, said, resolved=not change.began, part=part))

    def _message(self, change: FloodChange, *, moved: bool) -> str:
        limit = self._settings.alerts_per_minute
        if not change.began:
            return f"rule {change.rule_id} no longer floods: {change.per_minute} alerts in the last minute"
        done = "; the rule was moved to SHADOW" if moved else ""
        return (
            f"rule {change.rule_id} raised {change.per_minute} alerts in the last minute, over the limit {limit}{done}"
        )

    def _moved_to_shadow(self, change: FloodChange) -> bool:
        comment = f"{change.per_minute} alerts in a minute, over the limit {self._settings.alerts_per_minute}"
        try:
            with self._store.reading() as work:
                head = rule_head(work.session, change.rule_id)
                state, revision = StateName(head.state), head.revision
            if state is not StateName.ACTIVE:
                return False
            with self._store.change(GUARD, comment) as work:
                change_state(work, GUARD, change.rule_id, revision, StateName.SHADOW, comment)
        except ControlPlaneError as error:
            _log.warning("rule %d floods but stays ACTIVE: %s", change.rule_id, " ".join(str(error).split()))
            return False
        return True
