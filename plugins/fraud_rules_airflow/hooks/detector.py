"""The hook through which operators and triggers observe the detector, append intents and record supervision."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from functools import cached_property

import msgspec
from airflow.sdk import BaseHook, conf

from fraud_ops.observer import DetectorObserver
from fraud_ops.verdicts.observation import DetectorObservation
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.deploy.attempt import Supervision
from fraud_rules.deploy.deployment_log import append_intent, write_supervision
from fraud_rules.deploy.intent import Intent, IntentKind, IntentRecord, Rebuild
from fraud_rules.deploy.intent_keys import IntentKeys
from fraud_rules.deploy.release import Release, fingerprint
from fraud_rules.errors import BrokerUnavailable, IntentForged
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.runtime.clock import now_ms
from fraud_rules_airflow.hooks.connections import (
    INTENT_KEY,
    KAFKA,
    SPARK,
    async_connection,
    connection,
    intent_keys_of,
    kafka_of,
)
from fraud_rules_airflow.hooks.release import declared_release

_DIGEST_CHARS = 6


def supervisor_id() -> str:
    """The id of this Airflow: its address, and a short digest of the key that all its components share.

    Two installations may use the same address, such as localhost. Then their ids differ by the digest.
    """
    key = str(conf.get("core", "fernet_key", fallback=""))
    digest = hashlib.sha256(key.encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{conf.get('api', 'base_url', fallback='airflow')} ({digest})"


class FraudDetectorHook(BaseHook):
    """Observes the declared detector and appends its intents.

    Every method raises ConfigError for a missing or wrong connection, and BrokerUnavailable.
    """

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

    @cached_property
    def intent_keys(self) -> IntentKeys:
        """The keys that sign intents."""
        return intent_keys_of(connection(INTENT_KEY))

    def declared_release(self) -> Release:
        """The release that the settings, the code of this Airflow and the Spark connection declare."""
        return declared_release(self.project, connection(self.spark_conn_id), connection(self.kafka_conn_id))

    async def async_declared_release(self) -> Release:
        """Like `declared_release`, for an event loop."""
        spark, kafka = await async_connection(self.spark_conn_id), await async_connection(self.kafka_conn_id)
        return await asyncio.to_thread(declared_release, self.project, spark, kafka)

    async def resolve_kafka(self) -> None:
        """Read the Kafka connection again, without blocking the event loop. Later reads of `kafka` do not wait."""
        self.__dict__["kafka"] = kafka_of(await async_connection(self.kafka_conn_id))

    async def resolve_intent_keys(self) -> None:
        """Read the keys for intents again, without blocking the event loop. Later reads of `intent_keys` do not
        wait."""
        self.__dict__["intent_keys"] = intent_keys_of(await async_connection(INTENT_KEY))

    def observer(self) -> DetectorObserver:
        """An observer that keeps its connection to the broker. The caller closes it."""
        return DetectorObserver(self.kafka, self.settings, supervisor=supervisor_id())

    def observe(self) -> DetectorObservation:
        """Observe the detector once."""
        with DetectorObserver(self.kafka, self.settings, supervisor=supervisor_id()) as observer:
            return observer.observe()

    def observe_to_decide(self) -> DetectorObservation:
        """Observe the detector once, as the basis of an intent. Raises BrokerUnavailable if the observation failed."""
        observation = self.observe()
        if observation.fault is not None:
            raise BrokerUnavailable(observation.fault)
        return observation

    def request_run(
        self,
        observation: DetectorObservation,
        release: Release,
        reason: str,
        requested_by: str,
        *,
        declared: bool = False,
        resume: bool = False,
        rebuild: Rebuild | None = None,
        accept_loss: bool = False,
    ) -> IntentRecord:
        """Append the intent to run a release, based on `observation`. Raises Superseded if another intent came first.

        A release that is not `declared` comes from the log. Raises IntentForged if no signed intent there has it: a
        signature of this Airflow must not confirm a forged release.
        """
        if not declared:
            self._require_signed(observation, release)
        intent = self._intent(observation, IntentKind.RUN, reason, requested_by, release)
        return self._append(msgspec.structs.replace(intent, resume=resume, rebuild=rebuild, accept_loss=accept_loss))

    def request_drain(self, observation: DetectorObservation, reason: str, requested_by: str) -> IntentRecord:
        """Append the intent to stop the detector after its current batch. Raises Superseded."""
        return self._append(self._intent(observation, IntentKind.DRAIN, reason, requested_by))

    def record_supervision(self, observation: DetectorObservation, verdict: str, link: str) -> None:
        """Record that this Airflow has checked the detector, and its verdict."""
        since_ms = observation.verdict_since_ms(verdict)
        record = Supervision(
            observation.detector, supervisor_id(), now_ms(), verdict, observation.intents.epoch, link, since_ms
        )
        write_supervision(self.kafka, self.settings.topics.detector_attempts, record)

    def _intent(
        self,
        observation: DetectorObservation,
        kind: IntentKind,
        reason: str,
        requested_by: str,
        release: Release | None = None,
    ) -> Intent:
        return Intent(
            detector=observation.detector,
            kind=kind,
            attempt_id=uuid.uuid4().hex[:12],
            after=observation.intents.epoch,
            reason=reason,
            requested_by=requested_by,
            supervisor=supervisor_id(),
            requested_ms=now_ms(),
            release=release,
        )

    def _require_signed(self, observation: DetectorObservation, release: Release) -> None:
        wanted = fingerprint(release)
        records = [record for record in observation.intents.valid if record.intent.fingerprint == wanted]
        if not any(self.intent_keys.accepts(record) for record in records):
            raise IntentForged(
                f"no intent with release {wanted} has a signature of an accepted key: request a start, which runs the "
                "declared release"
            )

    def _append(self, intent: Intent) -> IntentRecord:
        return append_intent(self.kafka, self.settings.topics.detector_intents, intent, self.intent_keys)
