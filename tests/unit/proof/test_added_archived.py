"""Proofs of the alerts that a re-evaluation added: the payments of the window come from the archive."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fraud_rules.batch.proof import topics, written
from fraud_rules.batch.proof.archive import added_alert, archived_part
from fraud_rules.batch.proof.budget import ReadBudget
from fraud_rules.batch.proof.builder import PaymentLog, build_proof, first_read_ms
from fraud_rules.codec.rules.codec import parse_rule_document
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.model.limits import UNBOUNDED
from fraud_rules.model.rule import Rule
from fraud_rules.proof.document import Proof
from fraud_rules.proof.verification import check_proof
from fraud_rules.replay.recording import Recording
from tests.support.nightly.archived import Site
from tests.support.nightly.corrected import corrected_alerts
from tests.support.proofs import MADE_AT_MS
from tests.support.streams.generated import documents
from tests.support.streams.runs import STREAMS, described, drawn, stream_seeds
from tests.unit.proof.test_added_alerts import a_late_document
from tests.unit.proof.test_proofs import NULLABLE, differences_of


def archived_proofs(site: Site) -> Iterator[Proof]:
    """The proofs of the alerts of a re-evaluation, from the archive."""
    rules = Recording.of_document(site.document).rules
    alerts = [each.json for each in corrected_alerts(site.document, 7, NULLABLE, site.settings)]
    for alert in alerts:
        document = json.loads(alert)
        rule = parse_rule_document(document["violatedRule"], NULLABLE, UNBOUNDED)
        assert isinstance(rule, Rule)
        events_ms = first_read_ms(rule, document["eventTime"]), document["eventTime"]
        part = archived_part(site.store, site.settings, NULLABLE, rules, events_ms, 2**45, ReadBudget())
        log = PaymentLog(part.recording, NULLABLE, site.settings, part.archived)
        yield build_proof(alert, log, MADE_AT_MS, earlier_alerts=alerts, missing=part.missing, order="event")


@stream_seeds(STREAMS // 20)
def test_alerts_of_re_evaluations_are_proved_from_the_archive(
    stream_seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    site = Site.make(tmp_path_factory.mktemp("archive"), drawn(stream_seed, documents()), NULLABLE)
    site.archive()
    for proof in archived_proofs(site):
        differences = differences_of(proof)
        assert not differences, described([*differences, proof.alert.decode()], site.document)


def test_a_proof_from_the_archive_has_the_payments_of_the_window_only(tmp_path: Path) -> None:
    site = Site.make(tmp_path, a_late_document(), NULLABLE)
    site.archive()
    proof = next(archived_proofs(site))
    assert proof.statement.missing == ["the bytes of 11 payments, whose values are from the archive"]
    assert [each.offset for each in proof.payments] == [*range(10), 11]
    assert check_proof(proof).holds


def test_payments_that_arrived_after_the_re_evaluation_are_not_in_its_proof(tmp_path: Path) -> None:
    site = Site.make(tmp_path, a_late_document(), NULLABLE)
    site.archive()
    rules = Recording.of_document(site.document).rules
    seen_ms = site.document["steps"][-1]["at"] - 1
    part = archived_part(site.store, site.settings, NULLABLE, rules, (0, 2**42), seen_ms, ReadBudget())
    assert [each.offset for each in part.archived] == [*range(11)]


def test_only_batches_that_read_a_payment_of_the_window_count(tmp_path: Path) -> None:
    batches = [{"pin": 1, "offsets": {"transactions": {"0": end}}} for end in range(1, 13)]
    site = Site.make(tmp_path, {**a_late_document(), "batches": batches}, NULLABLE)
    site.archive()
    rules = Recording.of_document(site.document).rules
    at_ms = site.document["steps"][-2]["tx"]["eventTime"]
    part = archived_part(site.store, site.settings, NULLABLE, rules, (at_ms, at_ms), 2**45, ReadBudget(3))
    assert [each.ends for each in part.recording.batches] == [{0: 10}, {0: 11}]


def test_an_added_alert_is_found_in_corrections() -> None:
    alert = {"alertId": "a", "ruleId": 1}
    assert added_alert(json.dumps({"kind": "ADDED", "alert": alert}).encode()) == json.dumps(alert).encode()
    assert added_alert(json.dumps({"kind": "RETRACTED", "alert": alert}).encode()) is None
    assert added_alert(b'{"kind": "ADDED"}') is None
    assert added_alert(b"{") is None


def test_a_correction_is_proved_by_the_id_of_its_alert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site.make(tmp_path, a_late_document(), NULLABLE)
    site.archive()
    alert = next(corrected_alerts(site.document, 7, NULLABLE, site.settings))
    text = alert.json.replace(b'"detectionTime":0', b'"detectionTime":%d' % 2**45)
    corrections = {(site.settings.topics.alert_corrections,): b'{"kind":"ADDED","alert":%b}' % text}
    monkeypatch.setattr(
        topics, "records_of", lambda _, names, *rest: (value for each, value in corrections.items() if each == names)
    )
    monkeypatch.setattr(topics, "recorded_rules", lambda *_: Recording.of_document(site.document).rules)
    monkeypatch.setattr(written, "read_tails", lambda *_: None)
    source = written.ProofSource(KafkaConnection("nowhere:1"), tmp_path, NULLABLE, site.settings)
    proof = topics.prove_from_topics(alert.alert_id, source, MADE_AT_MS)
    assert (proof.alert, proof.statement.order, differences_of(proof)) == (text, "event", [])
