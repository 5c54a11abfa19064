"""The rows of the audit log in a proof, with the hashes that the control plane computes."""

from __future__ import annotations

from typing import Any

import msgspec

from fraud_control.domain.item import RULE
from fraud_control.service.audit import FIRST, hash_of
from fraud_control.store.models import AuditEntry
from fraud_rules.proof.document import Proof, ProvedAuditRow
from tests.unit.proof.test_proofs import a_proof, differences_of


def rows() -> list[ProvedAuditRow]:
    found: list[ProvedAuditRow] = []
    for seq, (who, action) in enumerate((("ann", "rule.edit"), ("bén", "rule.approve")), 1):
        entry = AuditEntry(
            seq=seq, at_ms=seq, who=who, action=action, subject="rule 1", kind=RULE, item_key="1", program=None,
            before="null", after='{"limit":2.50,"name":"a \\"b\\""}', previous_hash=found[-1].hash if found else FIRST,
            hash="",
        )  # fmt: skip
        found.append(
            ProvedAuditRow(
                seq=seq,
                at_ms=seq,
                who=who,
                action=action,
                subject="rule 1",
                rule_id=1,
                before=entry.before,
                after=entry.after,
                previous_hash=entry.previous_hash,
                hash=hash_of(entry),
            )
        )
    return found


def with_rows(changed: dict[str, Any] | None = None) -> Proof:
    first, second = rows()
    return msgspec.structs.replace(a_proof(), audit=[first, msgspec.structs.replace(second, **(changed or {}))])


def test_the_rows_of_the_control_plane_are_accepted() -> None:
    assert differences_of(with_rows()) == []


def test_a_changed_row_and_a_broken_chain_are_named() -> None:
    assert "audit, row 2: its hash" in differences_of(with_rows({"who": "eve"}))[0]
    first, second = rows()
    other = msgspec.structs.replace(first, hash="1" * 64)
    broken = msgspec.structs.replace(a_proof(), audit=[other, second])
    assert "audit, row 2: it does not continue row 1" in differences_of(broken)[0]
