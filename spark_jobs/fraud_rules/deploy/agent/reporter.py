"""Reports the agent and its attempts in heartbeats: at once after a change, otherwise at an interval."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from fraud_rules.deploy.agent.watch import AgentIdentity
from fraud_rules.deploy.attempt import AgentStatus, AttemptStatus
from fraud_rules.runtime.clock import SteadyClock

Write = Callable[[AgentStatus, list[AttemptStatus]], None]
"""Writes the status of the agent and its attempts. Raises Fenced if another agent has taken over, BrokerUnavailable."""


class Reporter:
    """Collects changed attempts for the next heartbeat. `heartbeat_ms` is the interval of heartbeats by `steady_ms`."""

    def __init__(self, me: AgentIdentity, write: Write, heartbeat_ms: int, steady_ms: SteadyClock) -> None:
        self._me = me
        self._write = write
        self._heartbeat_ms = heartbeat_ms
        self._steady_ms = steady_ms
        self._pending: dict[str, AttemptStatus] = {}
        self._reported: dict[str, AttemptStatus] = {}
        self._due_ms: int | None = None

    def queue(self, status: AttemptStatus) -> None:
        """Report the status with the next heartbeat if it has changed."""
        known = self._pending.get(status.attempt_id) or self._reported.get(status.attempt_id)
        if known is None or msgspec.structs.replace(known, at_ms=status.at_ms) != status:
            self._pending[status.attempt_id] = status

    def make_due(self) -> None:
        """Make the next heartbeat due at once."""
        self._due_ms = None

    def report(self, executed: int, current: AttemptStatus | None, now_ms: int) -> None:
        """Write a heartbeat if it is due or a change cannot wait. `executed` is the newest executed epoch, `now_ms` the
        time in epoch ms.

        Raises the errors of `Write`. Unwritten changes remain queued.
        """
        urgent = any(not _can_wait(each, self._reported) for each in self._pending.values())
        if not urgent and self._due_ms is not None and self._steady_ms() < self._due_ms:
            return
        me = self._me
        status = AgentStatus(me.detector, me.agent, me.host, me.code, now_ms, executed, current)
        self._write(status, list(self._pending.values()))
        self._reported |= self._pending
        self._pending.clear()
        self._due_ms = self._steady_ms() + self._heartbeat_ms


def _can_wait(status: AttemptStatus, reported: Mapping[str, AttemptStatus]) -> bool:
    """Whether the status can wait for the next heartbeat, because only its batches and its work have changed."""
    known = reported.get(status.attempt_id)
    if known is None:
        return False
    changed = {"at_ms": status.at_ms, "batches_committed": status.batches_committed, "work": status.work}
    return msgspec.structs.replace(known, **changed) == status
