"""Alerts of a recorded stream as the detector writes them, and their proofs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fraud_rules.batch.proof.builder import PaymentLog, build_proof
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.decision import alerts_in_order
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.proof.document import Proof
from fraud_rules.replay.recording import Recording
from fraud_rules.replay.replay import Replay, batch_inputs, settings_of_recording

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
