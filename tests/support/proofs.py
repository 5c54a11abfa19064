"""Alerts of a recorded stream as the detector writes them, and their proofs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from fraud_rules.batch.proof.builder import PaymentLog, build_proof
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.decision import alerts_in_order, decisions
from fraud_rules.errors import NotProvable
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.logs.recorder import record_run
from fraud_rules.model.output import AlertRecord
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.proof.decision import DecisionProof, DecisionStatement, alert_id_of
from fraud_rules.proof.document import Proof, Seal, read_file
from fraud_rules.proof.verification import ProofVerdict, check_proof, check_seal
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
    return [each.json for batch in alerts_by_batch(recording, schema, settings) for each in batch]


def alerts_by_batch(
    recording: Recording, schema: TransactionSchema, settings: DetectorSettings
) -> Iterator[list[AlertRecord]]:
    """The alerts of each batch, in the order of arrival."""
    run = Replay(schema, settings)
    for batch in batch_inputs(recording, schema, settings):
        yield alerts_in_order(run.evaluate(batch.records, batch.timeline, MADE_AT_MS).outputs)


def proofs_of(document: Mapping[str, Any], schema: TransactionSchema) -> Iterator[Proof]:
    """The proofs of all alerts of a document of `fraud streams replay`, without warm-ups."""
    recording = Recording.of_document(document)
    settings = settings_of_recording(recording, DetectorSettings())
    log = PaymentLog(recording, schema, settings)
    alerts = [each for batch in alerts_by_batch(recording, schema, settings) for each in batch]
    for position, alert in enumerate(alerts):
        proof = build_proof(alert.json, log, MADE_AT_MS, earlier_alerts=[each.json for each in alerts[:position]])
        restrictions = [] if alert.restriction is None else [msgspec.Raw(alert.restriction)]
        statement = msgspec.structs.replace(proof.statement, restrictions=restrictions)
        yield msgspec.structs.replace(proof, statement=statement)


def decision_proofs_of(document: Mapping[str, Any], schema: TransactionSchema) -> Iterator[DecisionProof]:
    """The proofs of all decisions of a document."""
    recording = Recording.of_document(document)
    settings = settings_of_recording(recording, DetectorSettings())
    thresholds = settings.decisions.thresholds
    statement = DecisionStatement(1, "0", MADE_AT_MS, thresholds.decline, thresholds.review)
    proofs = {alert_id_of(each): each for each in proofs_of(document, schema)}
    for batch in alerts_by_batch(recording, schema, settings):
        for made in decisions(batch, thresholds, MADE_AT_MS):
            alerts = [proofs[each["alertId"]] for each in json.loads(made.json)["alerts"]]
            yield DecisionProof(statement, made.json, alerts)


def added_proofs_of(document: Mapping[str, Any], schema: TransactionSchema) -> Iterator[Proof]:
    """The proofs of all alerts of a re-evaluation of a document, also of those that the detector wrote."""
    recording = Recording.of_document(document)
    settings = settings_of_recording(recording, DetectorSettings())
    log = PaymentLog(recording, schema, settings)
    alerts = [each.json for each in corrected_alerts(document, 7, schema, settings)]
    for alert in alerts:
        yield build_proof(alert, log, MADE_AT_MS, earlier_alerts=alerts, order="event")


def retracted_proofs_of(document: Mapping[str, Any], schema: TransactionSchema) -> Iterator[tuple[Proof, bool]]:
    """The proofs that the alerts of the detector are retracted, and whether a re-evaluation retracts them."""
    recording = Recording.of_document(document)
    settings = settings_of_recording(recording, DetectorSettings())
    log = PaymentLog(recording, schema, settings)
    alerts = {each.alert_id: each.json for each in corrected_alerts(document, 7, schema, settings)}
    for alert in written_alerts(recording, schema, settings):
        with suppress(NotProvable):  # by event time, the payment can be a second delivery
            proof = build_proof(alert, log, MADE_AT_MS, earlier_alerts=alerts.values(), order="event")
            statement = msgspec.structs.replace(proof.statement, is_retracted=True)
            yield msgspec.structs.replace(proof, statement=statement), alert_id_of(proof) not in alerts


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
    for evaluated in alerts_by_batch(recording, load_schema("default"), settings):
        for alert in evaluated:
            found.append(alert.alert_id)
            produce(topics.bootstrap, names.alerts, [alert.json], key=alert.alert_id.encode())
            if alert.restriction is not None:
                produce(topics.bootstrap, names.restrictions, [alert.restriction], key=alert.alert_id.encode())
        for key, text, _ in decisions(evaluated, settings.decisions.thresholds, now_ms()):
            produce(topics.bootstrap, names.decisions, [text], key=key)
    return found


def check_file(content: bytes, trusted: str | None = None) -> tuple[Proof, Seal, ProofVerdict]:
    """Check a file: its seal, as `check_seal`, and the proof. Raises ProofInvalid, which names the part that is
    damaged."""
    seal = check_seal(content, trusted)
    proof = read_file(content)
    return proof, seal, check_proof(proof)


def a_key(folder: Path, name: str = "key.pem") -> Path:
    """A new private key, and beside it the public one."""
    key, path = Ed25519PrivateKey.generate(), folder / name
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    path.with_suffix(".pub").write_bytes(public)
    return path
