"""Proofs of decisions and of restrictions."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from fraud_rules.errors import ProofInvalid
from fraud_rules.proof.decision import DecisionProof, check_decision, read_decision_file, write_decision_file
from fraud_rules.proof.document import Proof
from fraud_rules.proof.printing import decision_lines, verdict_lines
from fraud_rules.proof.verification import check_proof, check_seal
from tests.support.proofs import decision_proofs_of, proofs_of
from tests.support.streams.generated import documents
from tests.support.streams.runs import STREAMS, drawn, stream_seeds
from tests.unit.proof.test_proofs import NULLABLE, a_document


def a_restricting_document() -> dict[str, Any]:
    """Three rules: one restricts, one has a severity, and the shadow rule counts in no decision."""
    document = a_document()
    first, *rest = document["steps"]
    more: list[dict[str, Any]] = [
        {"ruleId": 2, "weight": "45", "action": "RESTRICT"}, {"ruleId": 3, "ruleState": "SHADOW"}
    ]  # fmt: skip
    rules = [{**first, "rule": {**first["rule"], "severity": "HIGH", **each}} for each in ({}, *more)]
    return {**document, "steps": [*rules, *rest]}


@pytest.fixture(scope="module")
def proof() -> DecisionProof:
    """The proof of the last decision."""
    *_, last = decision_proofs_of(a_restricting_document(), NULLABLE)
    return last


def differences_of(proof: DecisionProof) -> list[str]:
    content = write_decision_file(proof)
    check_seal(content)
    found = read_decision_file(content)
    assert found is not None
    return list(check_decision(found).differences)


@stream_seeds(STREAMS // 50)
def test_decisions_of_streams_are_proved(stream_seed: int) -> None:
    for each in decision_proofs_of(drawn(stream_seed, documents()), NULLABLE):
        assert differences_of(each) == []


def test_the_score_is_a_sum_that_a_person_can_follow(proof: DecisionProof) -> None:
    verdict = check_decision(proof)
    assert (verdict.differences, len(proof.alerts)) == ([], 2)
    said = "\n".join(decision_lines(proof, verdict, 5))
    assert "decision about payment 12: score 95, REVIEW" in said
    assert "rule 1: weight 50\n  rule 2: weight 45\n  50 + 45 = 95" in said


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ('"score":95', '"score":96', "decision, score"),
        ('"outcome":"REVIEW"', '"outcome":"NOTE"', "decision, outcome"),
        ('"weight":45', '"weight":44', "decision, alerts"),
        ('"paymentAmount":2.5', '"paymentAmount":2.6', "decision, transaction"),
    ],
)
def test_a_decision_that_does_not_follow_from_its_alerts_is_rejected(
    proof: DecisionProof, before: str, after: str, named: str
) -> None:
    text = proof.decision.decode()
    assert before in text
    other = msgspec.structs.replace(proof, decision=text.replace(before, after).encode())
    assert named in "; ".join(differences_of(other))


def test_the_file_has_the_proofs_of_the_alerts_that_the_decision_names(proof: DecisionProof) -> None:
    shadow = next(each for each in proofs_of(a_restricting_document(), NULLABLE) if each.statement.rule_id == 3)
    decision = json.loads(proof.decision)
    for alerts in (proof.alerts[:1], [*proof.alerts, shadow], []):
        with pytest.raises(ProofInvalid, match="other alerts"):
            differences_of(msgspec.structs.replace(proof, alerts=alerts))
    named = {**decision["alerts"][0], "ruleId": 3, "alertId": json.loads(shadow.alert)["alertId"]}
    decided = json.dumps({**decision, "alerts": [*decision["alerts"], named]}).encode()
    other = msgspec.structs.replace(proof, alerts=[*proof.alerts, shadow], decision=decided)
    found = "; ".join(differences_of(other))
    assert "of different payments" in found and "decision, alerts: the records give" in found


def with_restrictions(proof: Proof, *records: dict[str, Any]) -> Proof:
    found = [msgspec.Raw(json.dumps(each).encode()) for each in records]
    return msgspec.structs.replace(proof, statement=msgspec.structs.replace(proof.statement, restrictions=found))


def test_a_restriction_is_proved_with_its_alert(proof: DecisionProof) -> None:
    plain, restricting = proof.alerts
    record = json.loads(bytes(restricting.statement.restrictions[0]))
    lifted = with_restrictions(restricting, record, {**record, "lifted": record["since"], "liftedBy": "RETRACTED"})
    verdict = check_proof(lifted)
    assert (verdict.differences, "restriction" in verdict.checked) == ([], True)
    assert any("lifted" in each for each in verdict_lines(lifted, verdict, 1))
    other = check_proof(with_restrictions(restricting, {**record, "since": 1})).differences
    assert [each.partition(":")[0] for each in other] == ["restriction, since"]
    assert "rule 1 does not restrict" in "; ".join(check_proof(with_restrictions(plain, record)).differences)
