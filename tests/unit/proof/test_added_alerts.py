"""Proofs of the alerts of re-evaluations of generated streams, verified by the plain evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis.strategies import SearchStrategy

from fraud_rules.model.schema import TransactionSchema
from fraud_rules.proof.document import Proof
from fraud_rules.proof.printing import verdict_lines
from fraud_rules.proof.verification import check_proof
from tests.support.proofs import added_proofs_of, proofs_of, retracted_proofs_of
from tests.support.streams.features import ENTITIES, with_features
from tests.support.streams.generated import changing_documents, documents
from tests.support.streams.runs import STREAMS, described, drawn, stream_seeds
from tests.unit.proof.test_proofs import NULLABLE, THIRD_EDITION, a_document, differences_of


def check_document(document: Mapping[str, Any], schema: TransactionSchema) -> None:
    for proof in added_proofs_of(document, schema):
        differences = differences_of(proof)
        assert not differences, described([*differences, proof.alert.decode()], document)


def check_drawn(stream_seed: int, strategy: SearchStrategy[Any], schema: TransactionSchema) -> None:
    check_document(drawn(stream_seed, strategy), schema)


@stream_seeds(STREAMS // 10)
def test_alerts_of_re_evaluations_are_proved(stream_seed: int) -> None:
    check_drawn(stream_seed, documents(), NULLABLE)


@stream_seeds(STREAMS // 20)
def test_alerts_under_changing_rules_are_proved(stream_seed: int) -> None:
    check_drawn(stream_seed, changing_documents(), NULLABLE)


@stream_seeds(STREAMS // 10)
def test_alerts_of_re_evaluations_of_the_third_edition_are_proved(stream_seed: int) -> None:
    check_drawn(stream_seed, with_features(documents(), THIRD_EDITION), replace(NULLABLE, entities=ENTITIES))


@stream_seeds(STREAMS // 10)
def test_a_retraction_is_proved_if_and_only_if_a_re_evaluation_retracts(stream_seed: int) -> None:
    document = drawn(stream_seed, documents())
    for proof, is_retracted in retracted_proofs_of(document, NULLABLE):
        differences = differences_of(proof)
        assert (differences == []) is is_retracted, described([*differences, proof.alert.decode()], document)


def a_late_document() -> dict[str, Any]:
    """The sixth payment arrives last, so the detector alerts on the twelfth, and a re-evaluation on the eleventh."""
    document = a_document()
    rule, *payments = document["steps"]
    late = payments.pop(5)
    rule = {**rule, "rule": {**rule["rule"], "limit": 25}}
    return {**document, "steps": [rule, *payments, {**late, "at": payments[-1]["at"] + 1_000}]}


def an_added_proof() -> Proof:
    return next(added_proofs_of(a_late_document(), NULLABLE))


def test_an_alert_with_a_late_payment_is_proved_in_the_order_of_event_times() -> None:
    proof = an_added_proof()
    verdict = check_proof(proof)
    assert verdict.holds
    assert [each.plain.rows[-1]["transactionId"] for each in (verdict.scene,)] == [11]
    assert [each.offset for each in proof.payments] == [*range(10), 11]
    assert proof.alert not in [each.alert for each in proofs_of(a_late_document(), NULLABLE)]
    lines = list(verdict_lines(proof, verdict, 50))
    assert "a re-evaluation added the alert: the order of payments is that of their event times" in lines
    stated = "suppressed, detectionTime, the cool-downs and marks of earlier corrected alerts, windowComplete"
    assert f"taken as stated: {stated}" in lines


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"triggeringValue":"27.5"', '"triggeringValue":"28"'),
        ('"windowCount":11', '"windowCount":10'),
        ('"limit":25', '"limit":24'),
        ('"ruleVersion":0', '"ruleVersion":1'),
    ],
)
def test_an_added_alert_with_changed_bytes_is_rejected(before: str, after: str) -> None:
    proof = an_added_proof()
    alert = proof.alert.decode()
    assert before in alert
    assert differences_of(msgspec.structs.replace(proof, alert=alert.replace(before, after).encode()))


def test_the_order_is_a_part_of_the_proof() -> None:
    proof = an_added_proof()
    arrived = msgspec.structs.replace(proof.statement, order="arrival")
    assert differences_of(msgspec.structs.replace(proof, statement=arrived))
    assert differences_of(msgspec.structs.replace(proof, payments=proof.payments[:-1]))


def test_the_alert_of_a_late_payment_is_retracted_because_of_an_earlier_one() -> None:
    document = a_late_document()
    rule, *payments = document["steps"]
    cooling = {**document, "steps": [{**rule, "rule": {**rule["rule"], "cooldownSeconds": 600}}, *payments]}
    [(proof, is_retracted)] = retracted_proofs_of(cooling, NULLABLE)
    verdict = check_proof(proof)
    assert (is_retracted, verdict.differences, "retraction" in verdict.checked) == (True, [], True)
    said = "\n".join(verdict_lines(proof, verdict, 1))
    assert "a re-evaluation retracted the alert" in said and "began a cool-down that covers the payment" in said
