"""Alerts of a recorded stream as the detector writes them, and their proofs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from fraud_rules.batch.proof.builder import PaymentLog, build_proof
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.decision import alerts_in_order
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.logs.recorder import record_run
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.proof.document import Proof
from fraud_rules.replay.recording import Recording
from fraud_rules.replay.replay import Replay, batch_inputs, settings_of_recording
from fraud_rules.runtime.clock import now_ms
from tests.support.conformance import load_schema
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce
from tests.support.nightly.corrected import corrected_alerts
from tests.support.records.payments import sample_payment
from tests.support.records.progress import progress_record

MADE_AT_MS = 1_800_000_000_000


def written_alerts(recording: Recording, schema: TransactionSchema, settings: DetectorSettings) -> list[bytes]:
    """The JSON of all alerts, in the order of arrival."""
    run = Replay(schema, settings)
    found: list[bytes] = []
    for batch in batch_inputs(recording, schema, settings):
        result = run.evaluate(batch.records, batch.timeline, MADE_AT_MS)
        found += [alert.json for alert in alerts_in_order(result.outputs)]
    return found


def proofs_of(document: Mapping[str, Any], schema: TransactionSchema) -> Iterator[Proof]:
    """The proofs of all alerts of a document of `fraud streams replay`, without warm-ups."""
    recording = Recording.of_document(document)
    settings = settings_of_recording(recording, DetectorSettings())
    log = PaymentLog(recording, schema, settings)
    alerts = written_alerts(recording, schema, settings)
    for position, alert in enumerate(alerts):
        yield build_proof(alert, log, MADE_AT_MS, earlier_alerts=alerts[:position])


def added_proofs_of(document: Mapping[str, Any], schema: TransactionSchema) -> Iterator[Proof]:
    """The proofs of all alerts of a re-evaluation of a document, also of those that the detector wrote."""
    recording = Recording.of_document(document)
    settings = settings_of_recording(recording, DetectorSettings())
    log = PaymentLog(recording, schema, settings)
    alerts = [each.json for each in corrected_alerts(document, 7, schema, settings)]
    for alert in alerts:
        yield build_proof(alert, log, MADE_AT_MS, earlier_alerts=alerts, order="event")


def write_run(topics: OwnTopics, payments: int, detector: str = "detector") -> list[str]:
    """Write the records that a detector would have written for the rule log and payments, two in a batch. Return the
    ids of the alerts."""
    names = topics.names
    with TopicReader(topics.kafka, names.rules) as reader:
        rules_end = reader.ends()[1]
    for first in range(0, payments, 2):
        sample = [sample_payment(first + i, now_ms(), payeeId=1 + i % 2, beneficiaryId=2) for i in range(2)]
        produce(topics.bootstrap, names.transactions, [json.dumps(each).encode() for each in sample])
        ends = {names.transactions: {"0": first + 2}}
        batch = progress_record(first // 2, ends, rulesEnd=rules_end, rows=2)
        produce(topics.bootstrap, names.detector_progress, [batch], key=detector.encode())
    settings = DetectorSettings(topics=names, detector=detector)
    recording = record_run(topics.kafka, settings, load_schema("default"))
    found = []
    for alert in written_alerts(recording, load_schema("default"), settings):
        found.append(json.loads(alert)["alertId"])
        produce(topics.bootstrap, names.alerts, [alert], key=found[-1].encode())
    return found


def a_key(folder: Path, name: str = "key.pem") -> Path:
    """A new private key, and beside it the public one."""
    key, path = Ed25519PrivateKey.generate(), folder / name
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    path.with_suffix(".pub").write_bytes(public)
    return path
