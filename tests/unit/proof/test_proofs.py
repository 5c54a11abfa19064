"""Proofs of the alerts of generated streams, verified by the plain evaluator.

With `FRAUD_STREAMS` at 2,000 or more, these are more than 1,000 alerts of each kind of stream.
"""

from __future__ import annotations

import ast
import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis.strategies import SearchStrategy

from fraud_rules.errors import ConfigError, ProofInvalid
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.proof.document import Bytes, Proof, checksum, read_file, write_file
from fraud_rules.proof.signature import read_public_key, signer_of
from tests.support.conformance import Case, failing_cases, load_schema
from tests.support.places import ROOT
from tests.support.proofs import a_key, check_file, proofs_of
from tests.support.streams.features import ENTITIES, Features, with_features
from tests.support.streams.generated import documents
from tests.support.streams.runs import STREAMS, described, drawn, stream_seeds

NULLABLE = load_schema("nullable")
THIRD_EDITION = Features(
    limits=True, rollout=True, calendars=True, maps=True, previous=True, conditions=True, entities=True, own=True
)
PLAIN = ROOT / "spark_jobs" / "fraud_rules" / "proof" / "plain"


def check_all(stream_seed: int, strategy: SearchStrategy[Any], schema: TransactionSchema) -> None:
    document = drawn(stream_seed, strategy)
    for proof in proofs_of(document, schema):
        differences = differences_of(proof)
        assert not differences, described([*differences, proof.alert.decode()], document)


def differences_of(proof: Proof) -> list[str]:
    try:
        return list(check_file(write_file(proof))[2].differences)
    except ProofInvalid as invalid:
        return [str(invalid)]


@stream_seeds(STREAMS // 10)
def test_alerts_of_two_editions_are_proved(stream_seed: int) -> None:
    check_all(stream_seed, documents(), NULLABLE)


@stream_seeds(STREAMS // 10)
def test_alerts_of_the_third_edition_are_proved(stream_seed: int) -> None:
    check_all(stream_seed, with_features(documents(), THIRD_EDITION), replace(NULLABLE, entities=ENTITIES))


def a_document(payments: int = 12) -> dict[str, Any]:
    rule = {
        "ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["payeeId"], "aggregatorFunctionType": "SUM",
        "aggregateFieldName": "paymentAmount", "limitOperatorType": ">", "limit": 20, "windowMinutes": 20,
    }  # fmt: skip
    start_ms = 1_700_000_000_000
    steps: list[dict[str, Any]] = [{"at": start_ms, "rule": rule}]
    for number in range(1, payments + 1):
        at_ms = start_ms + number * 1_000
        tx = {"transactionId": number, "eventTime": at_ms, "payeeId": 1, "paymentAmount": "2.50", "paymentType": "CSH"}
        steps.append({"at": at_ms, "tx": tx})
    return {"steps": steps}


@cache
def a_proof() -> Proof:
    *_, last = proofs_of(a_document(), NULLABLE)
    return last


def test_a_file_with_one_changed_byte_is_rejected_and_the_message_names_the_place(tmp_path: Path) -> None:
    content = write_file(a_proof(), signer_of(a_key(tmp_path)))
    check_file(content)
    chance = random.Random(STREAMS)
    for _ in range(max(STREAMS // 2, 1)):
        at = chance.randrange(len(content))
        changed = bytearray(content)
        changed[at] ^= 1 << chance.randrange(8)
        with pytest.raises(ProofInvalid) as rejected:
            check_file(bytes(changed))
        assert any(
            name in str(rejected.value)
            for name in (
                ".json",
                ".yaml",
                "the end of the file",
                "the structure of the zip",
                "the zip",
                "parts",
                "sign",
            )
        ), rejected.value


@pytest.mark.parametrize("bit", range(8))
def test_no_bit_of_the_seal_can_change(tmp_path: Path, bit: int) -> None:
    """Hex in capitals would be the same signature, and a byte beyond ASCII no text."""
    content = write_file(a_proof(), signer_of(a_key(tmp_path)))
    for at in range(content.rfind(b'{"sha256":"'), len(content)):
        changed = bytearray(content)
        changed[at] ^= 1 << bit
        with pytest.raises(ProofInvalid):
            check_file(bytes(changed))


def test_only_the_signature_of_the_required_key_is_accepted(tmp_path: Path) -> None:
    own, other = a_key(tmp_path), a_key(tmp_path, "other.pem")
    content = write_file(a_proof(), signer_of(own))
    trusted, foreign = (read_public_key(each.with_suffix(".pub")) for each in (own, other))
    assert check_file(content, trusted)[2].holds
    with pytest.raises(ProofInvalid, match="must be signed with the key"):
        check_file(content, foreign)
    with pytest.raises(ProofInvalid, match="signed with no key"):
        check_file(write_file(a_proof()), trusted)
    with pytest.raises(ConfigError):
        signer_of(own.with_suffix(".pub"))


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"appendMs": 1}, "the detector does not accept it"),
        ({"text": ('"2.50"', '"2.51"')}, "triggeringValue"),
        ({"crc32": 5}, "another CRC-32"),
        ({"offset": 90}, "has not read it"),
        ({"batch": 90}, "has not read it"),
    ],
)
def test_a_sealed_proof_with_another_payment_is_rejected(changed: Mapping[str, Any], named: str) -> None:
    proof = a_proof()
    first = proof.payments[3]
    if "text" in changed:
        text = Bytes(str(first.value.text).replace(*changed["text"]))
        other = msgspec.structs.replace(first, value=text, crc32=checksum(text.value))
    else:
        names = {"appendMs": "append_ms"}
        other = msgspec.structs.replace(first, **{names.get(name, name): value for name, value in changed.items()})
    payments = [*proof.payments[:3], other, *proof.payments[4:]]
    assert named in "; ".join(differences_of(msgspec.structs.replace(proof, payments=payments)))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"triggeringValue":"30"', '"triggeringValue":"31"'),
        ('"windowCount":12', '"windowCount":13'),
        ('"limit":20', '"limit":21'),
        ('"ruleVersion":0', '"ruleVersion":1'),
        ('"windowComplete":false', '"windowComplete":true'),
        ('"payeeId":1', '"payeeId":2'),
    ],
)
def test_a_sealed_proof_with_another_alert_is_rejected(before: str, after: str) -> None:
    proof = a_proof()
    alert = proof.alert.decode()
    assert before in alert
    other = msgspec.structs.replace(proof, alert=alert.replace(before, after).encode())
    assert differences_of(proof) == []
    assert differences_of(other) != []


def test_a_proof_without_a_payment_of_the_window_is_rejected() -> None:
    proof = a_proof()
    other = msgspec.structs.replace(proof, payments=[*proof.payments[:3], *proof.payments[4:]])
    assert "windowCount" in "; ".join(differences_of(other))


@pytest.mark.parametrize(("version", "is_warm"), [(0, True), (1, False)])
def test_only_a_warm_up_of_its_own_grouping_keeps_an_alert_from_being_recomputed(
    version: int, *, is_warm: bool
) -> None:
    document = a_document()
    first, *rest = document["steps"]
    other = {**first, "rule": {**first["rule"], "ruleId": 2, "groupingKeyNames": ["paymentType"]}}
    batch = {"pin": 2, "offsets": {"transactions": {"0": 12}}, "warmUps": [{"version": version}]}
    warmed = {**document, "steps": [first, other, *rest], "batches": [batch]}
    proof = next(each for each in proofs_of(warmed, NULLABLE) if each.statement.rule_id == 1)
    assert proof.statement.is_warm == is_warm
    assert differences_of(proof) == []


def test_the_plain_evaluator_has_at_most_400_lines_of_code() -> None:
    assert sum(lines_of_code(path.read_text()) for path in PLAIN.glob("*.py")) <= 400


def lines_of_code(text: str) -> int:
    """The lines without blank lines, comments and docstrings."""
    bodies = [body for node in ast.walk(ast.parse(text)) if isinstance(body := getattr(node, "body", None), list)]
    strings = [each.value for body in bodies for each in body if isinstance(each, ast.Expr)]
    strings = [each for each in strings if isinstance(each, ast.Constant)]
    documented = {line for each in strings for line in range(each.lineno, (each.end_lineno or 0) + 1)}
    lines = enumerate(text.splitlines(), 1)
    return sum(bool(line.strip()) and not line.strip().startswith("#") and i not in documented for i, line in lines)


def test_the_check_of_a_proof_loads_no_kafka_spark_or_numba() -> None:
    heavy = ("numba", "confluent_kafka", "kafka", "pyspark", "pandas", "fraud_rules.engine", "fraud_rules.kafka")
    loads = "import sys, fraud_rules.proof.verification, fraud_rules.proof.printing"
    code = f"{loads}; print([name for name in {heavy!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_alerts_of_the_cases_are_proved() -> None:
    def faults_of(case: Case) -> list[str]:
        if any("warmUps" in batch for batch in case.document.get("batches", [])):
            return []
        return [each for proof in proofs_of(case.document, load_schema(case.schema)) for each in differences_of(proof)]

    assert failing_cases(faults_of) == {}


def test_a_file_holds_what_was_written() -> None:
    proof = a_proof()
    assert write_file(read_file(write_file(proof))) == write_file(proof)
