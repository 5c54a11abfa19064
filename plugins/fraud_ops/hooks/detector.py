"""The detector for operators and triggers: observe it, append intents, write supervision notes."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from functools import cached_property

import msgspec
from airflow.sdk import BaseHook, conf

from fraud_ops.hooks.connections import KAFKA, SPARK, async_connection, connection, kafka_of
from fraud_ops.hooks.release import declared_release
from fraud_ops.hooks.watch import DetectorWatch
from fraud_ops.verdicts.observation import DetectorObservation
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.deploy.attempt import Supervision
from fraud_rules.deploy.deployment_log import append_intent, write_supervision
from fraud_rules.deploy.intent import Intent, IntentKind, IntentRecord, Rebuild
from fraud_rules.deploy.release import Release
from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.runtime.clock import now_ms

__all__ = ["FraudDetectorHook", "supervisor_id"]

_MARK_CHARS = 6
_AT_ONCE_MS = 20


def supervisor_id() -> str:
    """The id of this Airflow: its address, and a short digest of the key that all its components share.

    The digest tells two installations apart that both use the address localhost, so that DUPLICATE is found.
    """
    key = str(conf.get("core", "fernet_key", fallback=""))
    mark = hashlib.sha256(key.encode()).hexdigest()[:_MARK_CHARS]
    return f"{conf.get('api', 'base_url', fallback='airflow')} ({mark})"


class FraudDetectorHook(BaseHook):
    """Every method raises ConfigError for a missing or wrong connection, and BrokerUnavailable."""

    def __init__(self, kafka_conn_id: str = KAFKA, spark_conn_id: str = SPARK) -> None:
        super().__init__()
        self.kafka_conn_id = kafka_conn_id
        self.spark_conn_id = spark_conn_id
        self.project = Project.find()

    @cached_property
    def settings(self) -> DetectorSettings:
        """The declared settings of the detector, with its name and its topics."""
        return DetectorSettings.load(self.project.config / "detector.yaml")

    @cached_property
    def kafka(self) -> KafkaConnection:
        """The connection to the broker."""
        return kafka_of(connection(self.kafka_conn_id))

    def declared(self) -> Release:
        """The declared release."""
        return declared_release(self.project, connection(self.spark_conn_id), connection(self.kafka_conn_id))

    async def async_declared(self) -> Release:
        """Like `declared`, for an event loop."""
        spark, kafka = await async_connection(self.spark_conn_id), await async_connection(self.kafka_conn_id)
        return await asyncio.to_thread(declared_release, self.project, spark, kafka)

    async def resolve(self) -> None:
        """Read the Kafka connection in an event loop. Afterwards, `kafka` returns without waiting."""
        self.__dict__["kafka"] = kafka_of(await async_connection(self.kafka_conn_id))

    def watch(self) -> DetectorWatch:
        """An observer that keeps its connection. Close it after use."""
        return DetectorWatch(self.kafka, self.settings, supervisor=supervisor_id())

    def observe(self) -> DetectorObservation:
        """One observation, without waiting for more records."""
        with DetectorWatch(self.kafka, self.settings, wait_ms=_AT_ONCE_MS, supervisor=supervisor_id()) as watch:
            return watch.observe()

    def observe_to_decide(self) -> DetectorObservation:
        """One observation as the basis of an intent. Raises BrokerUnavailable if the observation failed."""
        seen = self.observe()
        if seen.fault is not None:
            raise BrokerUnavailable(seen.fault)
        return seen

    def run(
        self,
        seen: DetectorObservation,
        release: Release,
        reason: str,
        requested_by: str,
        *,
        resume: bool = False,
        rebuild: Rebuild | None = None,
        accept_loss: bool = False,
    ) -> IntentRecord:
        """Append the intent to run a release, based on `seen`. Raises Superseded if another intent came first."""
        intent = self._intent(seen, IntentKind.RUN, reason, requested_by, release)
        return self._append(msgspec.structs.replace(intent, resume=resume, rebuild=rebuild, accept_loss=accept_loss))

    def drain(self, seen: DetectorObservation, reason: str, requested_by: str) -> IntentRecord:
        """Append the intent to stop the detector after its current batch. Raises Superseded."""
        return self._append(self._intent(seen, IntentKind.DRAIN, reason, requested_by))

    def record_supervision(self, seen: DetectorObservation, verdict: str, link: str) -> None:
        """Write a note that this Airflow supervises the detector."""
        since_ms = seen.verdict_since_ms(verdict)
        note = Supervision(seen.detector, supervisor_id(), now_ms(), verdict, seen.intents.epoch, link, since_ms)
        write_supervision(self.kafka, self.settings.topics.detector_attempts, note)

    def _intent(
        self,
        seen: DetectorObservation,
        kind: IntentKind,
        reason: str,
        requested_by: str,
        release: Release | None = None,
    ) -> Intent:
        return Intent(
            detector=seen.detector,
            kind=kind,
            attempt_id=uuid.uuid4().hex[:12],
            after=seen.intents.epoch,
            reason=reason,
            requested_by=requested_by,
            supervisor=supervisor_id(),
            requested_ms=now_ms(),
            release=release,
        )

    def _append(self, intent: Intent) -> IntentRecord:
        return append_intent(self.kafka, self.settings.topics.detector_intents, intent)
