"""Triggers that observe the detector.

None of them has an `on_kill`. So clearing, marking or deleting a task does not affect the detector, and the next run
adopts it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from fraud_ops.hooks.detector import FraudDetectorHook, supervisor_id
from fraud_ops.verdicts.act import SupervisorAction, next_action
from fraud_ops.verdicts.health import health, rival
from fraud_ops.verdicts.observation import DetectorObservation
from fraud_ops.verdicts.until import Until, outcome
from fraud_ops.verdicts.verdict import Health, Limits, Verdict
from fraud_rules.deploy.intent import SUPERVISOR
from fraud_rules.deploy.plan import outlook
from fraud_rules.deploy.release import Release, fingerprint
from fraud_rules.errors import FraudError
from fraud_rules.runtime.clock import now_ms

__all__ = ["NEWS", "OVER", "SETTLE_S", "OutcomeTrigger", "SupervisionTrigger", "is_well", "known_as"]

NEWS, OVER, DECLARED = "news", "over", "declared"
"""Why a `SupervisionTrigger` fires."""

SETTLE_S = 5.0
"""How long a trigger waits before it fires. If a task resumes before the scheduler has noticed its deferral, the
scheduler counts it as killed."""

_START_S = 20.0
"""After the request of a start, the trigger waits this long before it fires, because the task would take CPU from the
start."""

_RECORD_S = 10.0
_CLOCK_S = 5.0
_DECLARED_S = 15.0


class OutcomeTrigger(BaseTrigger):
    """Fires with an `Outcome` when the detector has reached a state, or cannot reach it."""

    def __init__(
        self,
        until: str,
        epoch: int | None = None,
        *,
        kafka_conn_id: str,
        limits: dict[str, int] | None = None,
        look_s: float = 1.0,
    ) -> None:
        super().__init__()
        self.until = Until(until)
        self.epoch = epoch
        self.kafka_conn_id = kafka_conn_id
        self.limits = Limits(**(limits or {}))
        self.look_s = look_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.{type(self).__qualname__}", {
            "until": self.until.value,
            "epoch": self.epoch,
            "kafka_conn_id": self.kafka_conn_id,
            "limits": self.limits.as_dict(),
            "look_s": self.look_s,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        hook = FraudDetectorHook(self.kafka_conn_id)
        await hook.resolve()
        await asyncio.sleep(SETTLE_S)
        with closing(hook.watch()) as watch:
            while True:
                seen = await asyncio.to_thread(watch.observe)
                ended = outcome(self.until, self.epoch, seen, health(seen, self.limits, seen.at_ms))
                if ended is not None:
                    yield TriggerEvent(ended.as_dict())
                    return
                await asyncio.sleep(self.look_s)


class SupervisionTrigger(BaseTrigger):
    """Supervises a detector, writes notes about it, and starts it again if it has died or hangs. The trigger does this
    itself, so that a start need not wait for the scheduler. It fires when the operator must raise an alarm.

    `known` is the verdict that the operator knows already (`known_as`), so that only news wakes it. `ends_ms` is the
    end of the run's window. `declared` is the fingerprint declared at the start of the run: another one ends the run,
    and the next run deploys it. If a triggerer counts as dead by mistake, a task has two triggers for a moment. They
    start the detector once, because the intent log accepts only the first intent.
    """

    def __init__(
        self,
        *,
        kafka_conn_id: str,
        spark_conn_id: str,
        ends_ms: int,
        declared: str,
        known: str = "",
        link: str = "",
        limits: dict[str, int] | None = None,
        look_s: float = 2.0,
    ) -> None:
        super().__init__()
        self.kafka_conn_id = kafka_conn_id
        self.spark_conn_id = spark_conn_id
        self.ends_ms = ends_ms
        self.declared = declared
        self.known = known
        self.link = link
        self.limits = Limits(**(limits or {}))
        self.look_s = look_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.{type(self).__qualname__}", {
            "kafka_conn_id": self.kafka_conn_id,
            "spark_conn_id": self.spark_conn_id,
            "ends_ms": self.ends_ms,
            "declared": self.declared,
            "known": self.known,
            "link": self.link,
            "limits": self.limits.as_dict(),
            "look_s": self.look_s,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        hook = FraudDetectorHook(self.kafka_conn_id, self.spark_conn_id)
        await hook.resolve()
        began_s = checked_s = time.monotonic()
        recorded_s = requested_s = float("-inf")
        event: dict[str, Any] | None = None
        with closing(hook.watch()) as watch:
            while True:
                seen = await asyncio.to_thread(watch.observe)
                verdict = health(seen, self.limits, seen.at_ms, supervisor_id())
                if time.monotonic() - recorded_s >= _RECORD_S and seen.fault is None:
                    recorded_s = time.monotonic()
                    await asyncio.to_thread(self._record_supervision, hook, seen, verdict)
                if seen.skew_ms is None and seen.fault is None and time.monotonic() - began_s < _CLOCK_S:
                    await asyncio.sleep(
                        self.look_s
                    )  # ages need the broker's time, which the append time of the note shows
                    continue
                ahead = outlook(seen.intents, seen.deployment, seen.at_ms)
                action = next_action(seen, verdict, ahead, seen.at_ms)
                if action.release is not None:
                    requested_s = time.monotonic() if event is None else requested_s
                    await asyncio.to_thread(self._carry_out, hook, seen, action, action.release)
                event = event or self._event(seen, verdict, action, crash_loop=ahead.alarm)
                if event is None and time.monotonic() - checked_s >= _DECLARED_S:
                    checked_s = time.monotonic()
                    event = await self._new_declaration(hook)
                starts = verdict.health is not Health.HEALTHY and time.monotonic() - requested_s < _START_S
                if event is not None and not starts and time.monotonic() - began_s >= SETTLE_S:
                    yield TriggerEvent(event)
                    return
                await asyncio.sleep(self.look_s)

    def _carry_out(
        self, hook: FraudDetectorHook, seen: DetectorObservation, action: SupervisorAction, release: Release
    ) -> None:
        """Append the intent of an action. If that fails, the next observation leads to another try."""
        try:
            record = hook.run(seen, release, action.reason, SUPERVISOR)
            self.log.info("%s; epoch %s is to run %s", action, record.epoch, record.intent.fingerprint)
        except FraudError as error:
            self.log.warning("%s; %s", action, error)

    def _event(
        self, seen: DetectorObservation, verdict: Verdict, action: SupervisorAction, *, crash_loop: bool
    ) -> dict[str, Any] | None:
        recovered = verdict.health is Health.HEALTHY and not is_well(self.known)
        known = known_as(seen, verdict)
        if recovered or (not verdict.health.is_well and known != self.known):
            news = {"why": NEWS, "verdict": verdict.as_dict(), "known": known}
            return {**news, "step": str(action), "crash_loop": crash_loop}
        return {"why": OVER} if now_ms() >= self.ends_ms else None

    async def _new_declaration(self, hook: FraudDetectorHook) -> dict[str, Any] | None:
        try:
            await hook.resolve()
            declared = fingerprint(await hook.async_declared())
        except (FraudError, OSError) as error:
            self.log.warning("the declared release is invalid: %s", error)
            return None
        return None if declared == self.declared else {"why": DECLARED}

    def _record_supervision(self, hook: FraudDetectorHook, seen: DetectorObservation, verdict: Verdict) -> None:
        """Write a note, unless another supervisor is at work. If that fails, a later observation writes it."""
        if rival(seen, self.limits, seen.at_ms, supervisor_id()) is not None:
            return
        try:
            hook.record_supervision(seen, verdict.health.value, self.link)
        except FraudError as error:
            self.log.warning("the supervision note was not written: %s", error)


def known_as(seen: DetectorObservation, verdict: Verdict) -> str:
    """The key of a verdict for comparison: the same health of another intent is news."""
    epoch = -1 if seen.effective_intent is None else seen.effective_intent.epoch
    return f"{verdict.health.value}@{epoch}"


def is_well(known: str) -> bool:
    """Whether a known verdict raised no alarm."""
    return known == "" or Health(known.partition("@")[0]).is_well
