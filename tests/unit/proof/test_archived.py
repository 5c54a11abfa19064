"""Proofs of alerts whose payments have expired in their topic: the archive has them and their batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fraud_rules.batch.proof.archive import ALERT_TABLES, archived_alerts, archived_records, with_archive
from fraud_rules.batch.proof.budget import ReadBudget
from fraud_rules.batch.proof.builder import PaymentLog, build_proof
from fraud_rules.errors import NotProvable
from fraud_rules.logs.recorder import RunPart
from fraud_rules.proof.document import Proof
from fraud_rules.replay.recording import Recording
from tests.support.nightly.archived import Site
from tests.support.proofs import MADE_AT_MS, written_alerts
from tests.support.streams.generated import documents
from tests.support.streams.runs import STREAMS, described, drawn, stream_seeds
from tests.unit.proof.test_proofs import NULLABLE, a_document, differences_of

ALL_MS = 0, 2**45


def archived(folder: Path, document: dict[str, Any]) -> Site:
    site = Site.make(folder, document, NULLABLE)
    site.archive()
    return site


def expired(document: dict[str, Any], kept: int) -> RunPart:
    """The part of a run whose topic has removed the offsets below `kept`, and their batches."""
    recording = Recording.of_document(document)
    left = [each for each in recording.transactions if each.offset >= kept]
    batches = [each for each in recording.batches if all(end > kept for end in each.ends.values())]
    partitions = {each.partition: kept for each in recording.transactions}
    return RunPart(replace(recording, transactions=left, batches=batches), 0, ["its beginning"], partitions)


def proofs_of(site: Site, kept: int) -> Iterator[Proof]:
    part = with_archive(expired(dict(site.document), kept), site.store, site.settings, NULLABLE, ALL_MS, ReadBudget())
    log = PaymentLog(part.recording, NULLABLE, site.settings, part.archived)
    alerts = written_alerts(Recording.of_document(site.document), NULLABLE, site.settings)
    for position, alert in enumerate(alerts):
        yield build_proof(alert, log, MADE_AT_MS, earlier_alerts=alerts[:position], missing=part.missing, from_ms=0)


@stream_seeds(STREAMS // 20)
def test_alerts_are_proved_from_the_archive(stream_seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    document = drawn(stream_seed, documents())
    if any("warmUps" in batch for batch in document.get("batches", [])):
        return
    site = archived(tmp_path_factory.mktemp("archive"), document)
    for kept in (3, 1_000):
        for proof in proofs_of(site, kept):
            differences = differences_of(proof)
            assert not differences, described([*differences, proof.alert.decode()], document)


def test_a_proof_names_what_only_the_archive_has(tmp_path: Path) -> None:
    *_, last = proofs_of(archived(tmp_path, a_document()), 5)
    assert [each.archived for each in last.payments] == [True] * 5 + [False] * 7
    assert last.statement.missing == ["the bytes of 5 payments, whose values are from the archive"]
    assert differences_of(last) == []


def test_a_proof_names_the_offsets_that_nothing_has(tmp_path: Path) -> None:
    document = a_document()
    site = Site.make(tmp_path, {**document, "steps": document["steps"][:4]}, NULLABLE)
    site.archive()
    part = with_archive(expired(document, 5), site.store, site.settings, NULLABLE, ALL_MS, ReadBudget())
    assert part.missing[0] == "transactions-0 from 3 to 5"


def test_the_records_of_a_proof_are_bounded(tmp_path: Path) -> None:
    site = archived(tmp_path, a_document())
    with pytest.raises(NotProvable, match="at most 5 may be: use --max-records"):
        with_archive(expired(a_document(), 9), site.store, site.settings, NULLABLE, ALL_MS, ReadBudget(5))


def test_an_alert_is_found_in_the_archive(tmp_path: Path) -> None:
    site = archived(tmp_path, a_document())
    at_ms = a_document()["steps"][1]["at"]
    (alert_id, other) = site.add_alerts([(at_ms, 7), (at_ms, 8)])
    [found] = archived_records(site.store, ALERT_TABLES, alert_id)
    assert b"alert-7" in found
    assert not list(archived_records(site.store, ALERT_TABLES, "nothing"))
    [other_alert] = archived_records(site.store, ALERT_TABLES, other)
    assert sorted(archived_alerts(site.store, at_ms, at_ms)) == sorted([found, other_alert])
