"""The rows of the audit log in a proof, with the hashes that the control plane computes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fraud_control.domain.canonical import canonical
from fraud_control.domain.item import RULE
from fraud_control.service.audit import FIRST, hash_of
from fraud_control.service.reading.proofs import proved_row
from fraud_control.store.models import AuditEntry
from fraud_rules.proof.audit import AUDIT_HEADER, with_audit
from fraud_rules.proof.document import Bytes, Proof, ProvedAuditRow
from fraud_rules.proof.printing import verdict_lines
from fraud_rules.proof.verification import check_proof
from tests.unit.proof.test_proofs import a_proof, differences_of


def audit_rows(proof: Proof, **after: Any) -> list[ProvedAuditRow]:
    """Ann writes the proof's rule and asks for its release; Bén approves it. `after` changes the last row."""
    document = msgspec.json.decode(proof.rules[0].value.value or b"")
    draft = {name: each for name, each in document.items() if name != "ruleState"}
    old = {"revision": 1, "state": "DRAFT", "document": {**draft, "limit": 10}}
    new = {"revision": 2, "state": "DRAFT", "document": draft}
    live = {"revision": 3, "state": "ACTIVE", "document": document, "approval": 4, "requestedBy": "ann"}
    request = {"document": draft, "comment": "frauds"}
    found: list[ProvedAuditRow] = []
    for who, action, before, then in (
        ("ann", "rule.create", None, old),
        ("ann", "rule.edit", old, new),
        ("ann", "approval.request", None, request),
        ("bén", "rule.state", new, {**live, "requestComment": "frauds", **after}),
        ("eve", "rule.state", live, new),
    ):
        seq = 2 * len(found) + 5
        previous = FIRST if not found else str(seq) * 32
        texts = canonical(before).decode(), canonical(then).decode()
        entry = AuditEntry(
            seq=seq, at_ms=seq, who=who, action=action, subject="rule 1", kind=RULE, item_key="1", program=None,
            before=texts[0], after=texts[1], previous_hash=previous, hash="",
        )  # fmt: skip
        entry.hash = hash_of(entry)
        found.append(proved_row(entry))
    return found


def sent_with(proof: Proof, row: ProvedAuditRow) -> Proof:
    """The proof whose rule's record names a row of the audit log."""
    first, *rest = proof.rules
    headers = [(AUDIT_HEADER, Bytes.of(f"{row.seq}:{row.hash}".encode()))]
    return msgspec.structs.replace(proof, rules=[msgspec.structs.replace(first, headers=headers), *rest])


def audited() -> Proof:
    proof = a_proof()
    rows = audit_rows(proof)
    return with_audit(sent_with(proof, rows[3]), rows)


def test_a_proof_has_the_rows_up_to_the_one_that_the_record_names() -> None:
    proof = audited()
    assert [row.seq for row in proof.audit] == [5, 7, 9, 11]
    assert differences_of(proof) == []
    said = list(verdict_lines(proof, check_proof(proof), 1))
    assert [line.strip().partition(",")[0] for line in said if "audit log" in line] == [
        "written by ann: row 7 of the audit log",
        "approved by bén: row 11 of the audit log",
        "released by bén: row 11 of the audit log",
    ]
    assert any(line.endswith("approval 4, requested by ann: frauds") for line in said)
    assert not proof.statement.missing


def test_a_record_of_another_program_is_named_by_its_row() -> None:
    proof = a_proof()
    rows = audit_rows(proof, logVersion=0)
    assert [row.seq for row in with_audit(proof, rows).audit] == [5, 7, 9, 11]
    assert differences_of(with_audit(proof, rows)) == []


def test_a_proof_says_that_it_lacks_the_rows() -> None:
    proof = a_proof()
    (without,) = with_audit(proof, ()).statement.missing
    (foreign,) = with_audit(proof, audit_rows(proof)).statement.missing
    assert "only the control plane has" in without
    assert "none is of its record" in foreign


@pytest.mark.parametrize(
    ("position", "changed", "named"),
    [
        (1, {"who": "eve"}, "audit, row 7: its hash is not that of its texts"),
        (2, {"seq": 8}, "audit, row 8: it does not continue row 7"),
        (0, {"rule_id": 2}, "audit, row 5: it is not about rule 1"),
        (3, {"after": "{}"}, "audit, row 11: it has another text of the rule than the record 0"),
        (3, {"seq": 12}, "audit, row 12: it is not the row of the record 0 of the rule"),
    ],
)
def test_a_changed_row_is_named(position: int, changed: dict[str, Any], named: str) -> None:
    proof = audited()
    rows = list(proof.audit)
    rows[position] = msgspec.structs.replace(rows[position], **changed)
    assert named in "; ".join(differences_of(msgspec.structs.replace(proof, audit=rows)))


def test_the_record_of_another_text_is_rejected() -> None:
    proof = a_proof()
    rows = audit_rows(proof, document={"ruleId": 1})
    assert differences_of(with_audit(sent_with(proof, rows[3]), rows)) == [
        "audit, row 11: it has another text of the rule than the record 0"
    ]
