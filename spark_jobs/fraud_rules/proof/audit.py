"""The rows of the audit log in a proof: who wrote, approved and released the rule, and the check of their chain."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec

from fraud_rules.proof.document import Proof, ProvedAuditRow, ProvedRule
from fraud_rules.runtime.clock import utc_text

AUDIT_HEADER: Final = "control-audit"
"""The header of a record of the rule log that names the row of its change: its number, a colon and its hash."""

_NO_ROWS: Final = "the rows of the audit log about the rule, which only the control plane has"
_NO_ROW_OF_RECORD: Final = "the rows of the audit log about the rule: none is of its record in the rule log"
_decode = msgspec.json.Decoder(float_hook=Decimal).decode


def with_audit(proof: Proof, rows: Sequence[ProvedAuditRow]) -> Proof:
    """Add the rows of the audit log about the rule up to the row of the rule's record. `rows` ascend by number. Without
    the row of the record, `missing` of the statement says so."""
    count = next((i for i, row in enumerate(rows, 1) if _is_of_record(row, _record(proof))), 0)
    if count:
        return msgspec.structs.replace(proof, audit=rows[:count])
    missing = [*proof.statement.missing, _NO_ROW_OF_RECORD if rows else _NO_ROWS]
    return msgspec.structs.replace(proof, statement=msgspec.structs.replace(proof.statement, missing=missing))


def audit_lines(proof: Proof) -> Iterator[str]:
    """Who wrote, approved and released the rule. Nothing for a proof without rows of the audit log."""
    written, approved = _written_and_approved(proof.audit)
    if written is not None:
        asked = _object(written.after.encode()).get("requestedBy")
        yield f"written by {asked or _who(written)}: {_place(written)}"
    if approved is not None:
        after = _object(approved.after.encode())
        said = f"approval {after['approval']}, requested by {after.get('requestedBy')}: {after.get('requestComment')}"
        yield f"approved by {_who(approved)}: {_place(approved)}, {said}"
    for row in proof.audit[-1:]:
        yield f"released by {_who(row)}: {_place(row)}"


def _who(row: ProvedAuditRow) -> str:
    return row.who if row.program is None else f"{row.who} with the program {row.program}"


def _place(row: ProvedAuditRow) -> str:
    return f"row {row.seq} of the audit log, {row.action}, {utc_text(row.at_ms)}"


def _written_and_approved(
    rows: Sequence[ProvedAuditRow],
) -> tuple[ProvedAuditRow | None, ProvedAuditRow | None]:
    """The row that wrote the content of the rule's record, and the one that approved this content or its release."""
    written = approved = None
    for row in rows:
        if row.action.startswith("approval."):  # a request has its document, too
            continue
        if _content(row.before) != _content(row.after):
            written, approved = row, None
        if "approval" in _object(row.after.encode()):
            approved = row
    return written, approved


def audit_faults(proof: Proof, rule: Mapping[str, Any]) -> Iterator[str]:
    """The rows whose hash is not that of their texts, or that do not continue the row before; and a last row that is
    not the one of the rule's record, or has another text than this rule, which is that of the record."""
    known: dict[int, str] = {}
    for row in proof.audit:
        if _hash_of(row) != row.hash:
            yield f"audit, row {row.seq}: its hash is not that of its texts"
        if known.get(row.seq - 1, row.previous_hash) != row.previous_hash:
            yield f"audit, row {row.seq}: it does not continue row {row.seq - 1}"
        if row.rule_id != proof.statement.rule_id:
            yield f"audit, row {row.seq}: it is not about rule {proof.statement.rule_id}"
        known[row.seq] = row.hash
    record, version = _record(proof), proof.statement.rule_version
    for last in proof.audit[-1:]:
        if not _is_of_record(last, record):
            yield f"audit, row {last.seq}: it is not the row of the record {version} of the rule"
        elif _document(last.after) != rule:
            yield f"audit, row {last.seq}: it has another text of the rule than the record {version}"


def _hash_of(row: ProvedAuditRow) -> str:
    members: dict[str, Any] = {
        "seq": row.seq, "atMs": row.at_ms, "who": row.who, "action": row.action, "subject": row.subject,
        "ruleId": row.rule_id, "before": row.before, "after": row.after, "previousHash": row.previous_hash,
    }  # fmt: skip
    more = {"program": row.program, "listName": row.list_name, "mapName": row.map_name}
    members |= {name: value for name, value in more.items() if value is not None}
    text = json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _record(proof: Proof) -> ProvedRule | None:
    return next((each for each in proof.rules if each.offset == proof.statement.rule_version), None)


def _is_of_record(row: ProvedAuditRow, record: ProvedRule | None) -> bool:
    """Whether the record names the row, or the row, about a record of another writer, names the record."""
    if record is None:
        return False
    named = dict(record.headers).get(AUDIT_HEADER)
    names_row = named is not None and named.value == f"{row.seq}:{row.hash}".encode()
    return names_row or _object(row.after.encode()).get("logVersion") == record.offset


def _object(text: bytes) -> Mapping[str, Any]:
    """A JSON object; empty for anything else."""
    try:
        found = _decode(text)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _document(text: str) -> Mapping[str, Any] | None:
    return _object(text.encode()).get("document")


def _content(text: str) -> Mapping[str, Any] | None:
    """The rule's document in a row, without its state."""
    document = _document(text)
    return None if document is None else {name: each for name, each in document.items() if name != "ruleState"}
