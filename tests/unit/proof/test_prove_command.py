"""`fraud prove` through a control plane: an HTTP server that answers with a proof."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fraud_rules.api_client import TOKEN_VARIABLE
from fraud_rules.errors import NotFound, ProofInvalid
from fraud_rules.proof.decision import write_decision_file
from fraud_rules.proof.document import write_file
from fraud_rules.proof.signature import read_public_key, signer_of
from fraud_rules.proof.verification import check_seal
from tests.support.processes.fraud_command import CommandResult, fraud
from tests.support.proofs import a_key, check_file, decision_proofs_of
from tests.support.receivers.answering import Answer, Request, answering
from tests.unit.proof.test_proofs import NULLABLE, a_document, a_proof


def prove(answer: Answer | Callable[[Request], Answer], *options: str) -> CommandResult:
    with answering(answer if callable(answer) else lambda _: answer) as url:
        return fraud("prove", "a", *options, env={"FRAUD_CONTROL_URL": url, TOKEN_VARIABLE: "secret"})


def test_the_control_plane_makes_the_proof(tmp_path: Path) -> None:
    content, file = write_file(a_proof()), tmp_path / "proof.zip"
    made = prove((200, content), "--output", str(file))
    assert (made.exit_code, file.read_bytes() == content) == (0, True), made.err
    assert "12 payments and 1 rule records written" in made.out


def test_a_key_replaces_the_signature_of_the_control_plane(tmp_path: Path) -> None:
    own, other, file = a_key(tmp_path), a_key(tmp_path, "other.pem"), tmp_path / "proof.zip"
    from_server = write_file(a_proof(), signer_of(other))
    assert prove((200, from_server), "--output", str(file), "--key", str(own)).exit_code == 0
    assert check_file(file.read_bytes(), read_public_key(own.with_suffix(".pub")))[2].holds


def test_a_decision_is_proved_by_the_id_of_its_payment(tmp_path: Path) -> None:
    *_, proof = decision_proofs_of(a_document(), NULLABLE)
    own, file = a_key(tmp_path), tmp_path / "proof.zip"

    def answer(request: Request) -> Answer:
        found = request.path == "/fraud/control/api/decisions/proof?transaction=a"
        return (200, write_decision_file(proof)) if found else (404, {"detail": request.path})

    made = prove(answer, "--decision", "--output", str(file), "--key", str(own))
    assert (made.exit_code, "12 payments and 1 rule records written" in made.out) == (0, True), made.err
    check_seal(file.read_bytes(), read_public_key(own.with_suffix(".pub")))


def test_no_file_is_written_without_a_proof(tmp_path: Path) -> None:
    file = tmp_path / "proof.zip"
    assert prove((404, b'{"detail": "nothing"}'), "--output", str(file)).exit_code == NotFound.exit_code
    assert prove((200, b"<html>"), "--output", str(file)).exit_code == ProofInvalid.exit_code
    assert not file.exists()
