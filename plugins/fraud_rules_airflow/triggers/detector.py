"""Triggers that observe the detector.

No trigger has an `on_kill`. So clearing, marking or deleting a task does not affect the detector. The next run
supervises it again.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import asdict
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from fraud_ops.verdicts.actions import SupervisorAction, next_action
from fraud_ops.verdicts.health import assess_detector, other_supervisor
from fraud_ops.verdicts.observation import DetectorObservation
from fraud_ops.verdicts.until import Until, outcome
from fraud_ops.verdicts.verdict import Health, Verdict
from fraud_rules.configuration.settings import HealthSettings
from fraud_rules.deploy.intent import SUPERVISOR
from fraud_rules.deploy.plan import outlook
from fraud_rules.deploy.release import Release, fingerprint
from fraud_rules.errors import FraudError
from fraud_rules.runtime.clock import now_ms
from fraud_rules_airflow.hooks.detector import FraudDetectorHook, supervisor_id

NEWS, OVER, DECLARED, DIFFERENT = "news", "over", "declared", "different"
"""The reasons why a `SupervisionTrigger` fires: a new verdict, the end of the run's window, a new declared release,
another release on this host than on the worker's."""

SETTLE_S = 5.0
"""The shortest time from the start of a trigger until it fires. If a task resumes before the scheduler has recorded its
deferral, the scheduler treats the task as killed."""

_PAUSE_AFTER_START_S = 20.0
"""How long a trigger that has requested a start delays its event, because a resumed task takes CPU time
from the start."""

_SUPERVISION_INTERVAL_S = 10.0
"""The interval of supervision records."""

_CLOCK_TIMEOUT_S = 5.0
"""How long a trigger waits for the broker's time before it uses this host's clock."""

_DECLARATION_INTERVAL_S = 15.0
"""The interval of checks whether the declared release has changed."""


class OutcomeTrigger(BaseTrigger):
    """Fires with an `Outcome` when the detector has reached the state `until`, or cannot reach it."""

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
        self.limits = HealthSettings(**(limits or {}))
        self.look_s = look_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.{type(self).__qualname__}", {
            "until": self.until.value,
            "epoch": self.epoch,
            "kafka_conn_id": self.kafka_conn_id,
            "limits": asdict(self.limits),
            "look_s": self.look_s,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        hook = FraudDetectorHook(self.kafka_conn_id)
        await hook.resolve_kafka()
        await asyncio.sleep(SETTLE_S)
        with closing(hook.observer()) as observer:
            while True:
                observation = await asyncio.to_thread(observer.observe)
                result = outcome(
                    self.until, self.epoch, observation, assess_detector(observation, self.limits, observation.at_ms)
                )
                if result is not None:
                    yield TriggerEvent(result.as_dict())
                    return
                await asyncio.sleep(self.look_s)


class SupervisionTrigger(BaseTrigger):
    """Supervises a detector: records each verdict, and starts a dead or stalled detector again. The trigger requests
    the start itself, because a task would first wait for the scheduler. It fires when the operator must raise an alarm,
    or when the run ends.

    `known` is the key of the verdict that the operator has handled (`verdict_key`); only another verdict is news.
    `ends_ms` is the end of the run's window. `declared` is the fingerprint of the declared release that this run's
    deployment has considered. If the declaration changes, the run ends, and the next run deploys the new release.
    `settled`: an earlier run ended because of this release already. So a difference between `declared` and this host's
    declaration is one between the hosts: it is reported once, and only a change of this host's declaration, known as
    `own`, ends the run. If Airflow wrongly treats a triggerer as dead, a task has two triggers for a moment. They start
    the detector only once, because the intent log accepts only the first intent.
    """

    def __init__(
        self,
        *,
        kafka_conn_id: str,
        spark_conn_id: str,
        ends_ms: int,
        declared: str,
        known: str = "",
        own: str = "",
        settled: bool = False,
        link: str = "",
        limits: dict[str, int] | None = None,
        look_s: float = 2.0,
    ) -> None:
        super().__init__()
        self.own = own
        self.settled = settled
        self.kafka_conn_id = kafka_conn_id
        self.spark_conn_id = spark_conn_id
        self.ends_ms = ends_ms
        self.declared = declared
        self.known = known
        self.link = link
        self.limits = HealthSettings(**(limits or {}))
        self.look_s = look_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.{type(self).__qualname__}", {
            "kafka_conn_id": self.kafka_conn_id,
            "spark_conn_id": self.spark_conn_id,
            "ends_ms": self.ends_ms,
            "declared": self.declared,
            "known": self.known,
            "own": self.own,
            "settled": self.settled,
            "link": self.link,
            "limits": asdict(self.limits),
            "look_s": self.look_s,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        hook = FraudDetectorHook(self.kafka_conn_id, self.spark_conn_id)
        await hook.resolve_kafka()
        await hook.resolve_intent_keys()
        began_s = checked_s = time.monotonic()
        recorded_s = requested_s = float("-inf")
        event: dict[str, Any] | None = None
        with closing(hook.observer()) as observer:
            while True:
                observation = await asyncio.to_thread(observer.observe)
                verdict = assess_detector(observation, self.limits, observation.at_ms, supervisor_id())
                if time.monotonic() - recorded_s >= _SUPERVISION_INTERVAL_S and observation.fault is None:
                    recorded_s = time.monotonic()
                    await asyncio.to_thread(self._record_supervision, hook, observation, verdict)
                if (
                    observation.skew_ms is None
                    and observation.fault is None
                    and time.monotonic() - began_s < _CLOCK_TIMEOUT_S
                ):
                    # Ages need the broker's time. The append time of the supervision record shows it.
                    await asyncio.sleep(self.look_s)
                    continue
                starts_outlook = outlook(observation.intents, observation.deployment, observation.at_ms)
                action = next_action(observation, verdict, starts_outlook, observation.at_ms)
                if action.release is not None:
                    requested_s = time.monotonic() if event is None else requested_s
                    await asyncio.to_thread(self._carry_out, hook, observation, action, action.release)
                event = event or self._event(observation, verdict, action, crash_loop=starts_outlook.alarm)
                if event is None and time.monotonic() - checked_s >= _DECLARATION_INTERVAL_S:
                    checked_s = time.monotonic()
                    event = await self._new_declaration(hook)
                starting = (
                    verdict.health is not Health.HEALTHY and time.monotonic() - requested_s < _PAUSE_AFTER_START_S
                )
                if event is not None and not starting and time.monotonic() - began_s >= SETTLE_S:
                    yield TriggerEvent({**event, "own": self.own})
                    return
                await asyncio.sleep(self.look_s)

    def _carry_out(
        self, hook: FraudDetectorHook, observation: DetectorObservation, action: SupervisorAction, release: Release
    ) -> None:
        """Append the intent of an action. After a failure, the next observation retries."""
        try:
            record = hook.request_run(observation, release, action.reason, SUPERVISOR)
            self.log.info("%s; epoch %s requests release %s", action, record.epoch, record.intent.fingerprint)
        except FraudError as error:
            self.log.warning("%s; %s", action, error)

    def _event(
        self, observation: DetectorObservation, verdict: Verdict, action: SupervisorAction, *, crash_loop: bool
    ) -> dict[str, Any] | None:
        recovered = verdict.health is Health.HEALTHY and not raised_no_alarm(self.known)
        known = verdict_key(observation, verdict)
        if recovered or (not verdict.health.is_well and known != self.known):
            news = {"why": NEWS, "verdict": verdict.as_dict(), "known": known}
            return {**news, "step": str(action), "crash_loop": crash_loop}
        return {"why": OVER} if now_ms() >= self.ends_ms else None

    async def _new_declaration(self, hook: FraudDetectorHook) -> dict[str, Any] | None:
        try:
            await hook.resolve_kafka()
            await hook.resolve_intent_keys()
            before, self.own = self.own, fingerprint(await hook.async_declared_release())
        except (FraudError, OSError) as error:
            self.log.warning("the declared release is invalid: %s", error)
            return None
        if self.own in (self.declared, before) and (self.settled or self.own == self.declared):
            return None
        if not self.settled or before:
            return {"why": DECLARED}
        return {"why": DIFFERENT, "host": socket.gethostname()}

    def _record_supervision(self, hook: FraudDetectorHook, observation: DetectorObservation, verdict: Verdict) -> None:
        """Record the verdict, unless another supervisor is active. After a failure, a later observation retries."""
        if other_supervisor(observation, observation.at_ms, supervisor_id()) is not None:
            return
        try:
            hook.record_supervision(observation, verdict.health.value, self.link)
        except FraudError as error:
            self.log.warning("the supervision was not recorded: %s", error)


def verdict_key(observation: DetectorObservation, verdict: Verdict) -> str:
    """The health and the intent epoch of a verdict. The same health under another intent has another key."""
    epoch = -1 if observation.effective_intent is None else observation.effective_intent.epoch
    return f"{verdict.health.value}@{epoch}"


def raised_no_alarm(known: str) -> bool:
    """Whether the verdict with the key `known` raised no alarm; an empty key means no verdict yet."""
    return known == "" or Health(known.partition("@")[0]).is_well
