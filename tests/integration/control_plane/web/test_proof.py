"""The proof of an alert from the control plane: with the audit rows about the rule, and signed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fraud_control.settings import ControlPlaneSettings
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.proof.decision import check_decision, read_decision_file
from fraud_rules.proof.printing import verdict_lines
from fraud_rules.proof.signature import read_public_key
from fraud_rules.proof.verification import check_seal
from tests.support.control_plane.web.server import Server
from tests.support.proofs import a_key, check_file, write_run
from tests.support.waiting import until


@pytest.fixture
def settings(settings: ControlPlaneSettings, tmp_path: Path) -> ControlPlaneSettings:
    """A control plane that signs proofs."""
    return replace(settings, proof_key=str(a_key(tmp_path)))


def test_a_downloaded_proof_says_who_wrote_and_released_the_rule(server: Server, tmp_path: Path) -> None:
    rule = server.move(server.rule(limit=3), "SHADOW").json()
    assert server.move(rule, "ACTIVE").status_code == 200
    topics = server.topics
    with TopicReader(topics.kafka, topics.names.rules) as reader:
        until(lambda: reader.ends()[1] > 2, "the rule in its log")
    [*_, last] = write_run(topics, 12, server.plane.detector.detector)
    until(lambda: server.ask("GET", f"/alerts/{last}/evidence", "viewer").status_code == 200, "the alert in memory")
    answer = server.ask("GET", f"/alerts/{last}/proof", "analyst")
    assert answer.status_code == 200, answer.text
    assert f'filename="{last}.proof.zip"' in answer.headers["Content-Disposition"]
    proof, seal, verdict = check_file(answer.content, read_public_key(tmp_path / "key.pub"))
    assert (verdict.differences, proof.statement.missing, bool(seal.signature)) == ([], [], True)
    said = "\n".join(verdict_lines(proof, verdict, 9))
    assert "written by analyst" in said and "released by approver" in said
    until(lambda: server.ask("GET", "/decisions?transaction=11", "viewer").json()["items"], "the decision in memory")
    answer = server.ask("GET", "/decisions/proof?transaction=11", "analyst")
    assert answer.status_code == 200, answer.text
    check_seal(answer.content, read_public_key(tmp_path / "key.pub"))
    decision = read_decision_file(answer.content)
    assert decision is not None and decision.alerts[0].audit == proof.audit
    assert check_decision(decision).differences == []
