"""Fills the store of a control plane with a month of alerts: alerts with their values, cases, marks, labels, audit."""

from __future__ import annotations

import json
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from sqlalchemy import Table, insert
from sqlalchemy.orm import Session

from fraud_ops.control_plane.service.audit import FIRST, hash_of
from fraud_ops.control_plane.store.alert_models import AlertRow, AlertValueRow
from fraud_ops.control_plane.store.case_models import CaseRow
from fraud_ops.control_plane.store.database import Database
from fraud_ops.control_plane.store.label_models import LabelRow
from fraud_ops.control_plane.store.models import AuditEntry, Base, MarkRow

__all__ = ["COMMON_WORD", "fill"]

COMMON_WORD: Final = "csh"
"""The text that each alert has."""

_AT_ONCE: Final = 20_000
_MONTH_MS: Final = 29 * 86_400_000
_RULES: Final = 50
_PAYERS: Final = 20_000
_BENEFICIARIES: Final = 50_000
_ALERTS_A_CASE: Final = 20
_MARKED: Final = 5

_Rows = Iterator[Mapping[str, Any]]


def fill(database: Database, alerts: int, end_ms: int) -> None:
    """Add alerts of the month before `end_ms`, one label and one audit row for each, a case for twenty of them, and a
    mark for one in five. Without a fault, one transaction for each block of rows.
    """
    made: tuple[tuple[type[Base], int, Callable[[range], _Rows]], ...] = (
        (AlertRow, alerts, lambda numbers: (_alert(n, alerts, end_ms) for n in numbers)),
        (AlertValueRow, alerts, lambda numbers: (each for n in numbers for each in _values(n, alerts, end_ms))),
        (CaseRow, alerts // _ALERTS_A_CASE, lambda numbers: (_case(n, alerts, end_ms) for n in numbers)),
        (MarkRow, alerts // _MARKED, lambda numbers: (_mark(n * _MARKED, end_ms) for n in numbers)),
        (LabelRow, alerts, lambda numbers: (_label(n, end_ms) for n in numbers)),
    )
    for model, count, rows in made:
        for start in range(0, count, _AT_ONCE):
            with database.writing() as session:
                _insert(session, model, rows(range(start, min(count, start + _AT_ONCE))))
    previous = FIRST
    for start in range(0, alerts, _AT_ONCE):
        with database.writing() as session:
            entries = list(_audit(range(start, min(alerts, start + _AT_ONCE)), previous, end_ms))
            _insert(session, AuditEntry, iter(entries))
            previous = entries[-1]["hash"]


def _insert(session: Session, model: type[Base], rows: _Rows) -> None:
    table = model.__table__
    assert isinstance(table, Table)
    session.connection().execute(insert(table), list(rows))


def _id(number: int) -> str:
    return str(uuid.UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128))


def _append_ms(number: int, alerts: int, end_ms: int) -> int:
    return end_ms - _MONTH_MS + number * _MONTH_MS // alerts


def _key(number: int) -> dict[str, int]:
    return {"beneficiaryId": 100_000 + number % _BENEFICIARIES, "payeeId": 1_000 + number % _PAYERS}


def _rule_id(number: int) -> int:
    return number % _RULES + 1


def _amount(number: int) -> float:
    return 5 + number * 7_919 % 1_000_000 / 100


def _alert(number: int, alerts: int, end_ms: int) -> dict[str, Any]:
    append_ms, rule_id, key = _append_ms(number, alerts, end_ms), _rule_id(number), _key(number)
    event = {
        "transactionId": number, "eventTime": append_ms, **key, "paymentAmount": _amount(number), "paymentType": "CSH"
    }  # fmt: skip
    document = {
        "alertId": _id(number), "ruleId": rule_id, "ruleVersion": 3, "shadow": False,
        "violatedRule": {"ruleId": rule_id, "name": f"Payments of one payer, {rule_id}", "severity": "HIGH"},
        "key": key, "triggeringValue": "123.45", "triggeringEvent": event, "windowStart": append_ms - 1_200_000,
        "windowEnd": append_ms, "windowCount": 17, "windowComplete": True, "suppressed": 0, "eventTime": append_ms,
        "ingestionTime": append_ms, "detectionTime": append_ms,
    }  # fmt: skip
    return {
        "alert_id": _id(number), "append_ms": append_ms, "source": 0, "record_offset": number, "rule_id": rule_id,
        "severity_rank": 1 + number % 4, "amount": _amount(number), "shadow": False,
        "key": json.dumps(key, separators=(",", ":")), "correction": None, "corrected_ms": None,
        "case_id": number // _ALERTS_A_CASE + 1, "json": zlib.compress(json.dumps(document).encode(), 1),
    }  # fmt: skip


def _values(number: int, alerts: int, end_ms: int) -> _Rows:
    append_ms = _append_ms(number, alerts, end_ms)
    found = {"transactionId": number, "paymentType": COMMON_WORD, **_key(number)}
    for field, value in found.items():
        yield {
            "alert_id": _id(number), "field": field, "value": str(value), "in_key": field in _key(number),
            "append_ms": append_ms,
        }  # fmt: skip


def _case(number: int, alerts: int, end_ms: int) -> dict[str, Any]:
    first = number * _ALERTS_A_CASE
    closed = number % 2 == 0
    value = str(1_000 + number)
    return {
        "case_id": number + 1, "entity_field": "payeeId", "entity_value": value,
        "open_entity": None if closed else f"payeeId:{value}", "status": "CLOSED" if closed else "OPEN",
        "closed": closed, "outcome": "NOT_FRAUD" if closed else None, "assignee": None, "urgency": number % 4,
        "alerts": _ALERTS_A_CASE, "first_alert_ms": _append_ms(first, alerts, end_ms),
        "last_alert_ms": _append_ms(first + _ALERTS_A_CASE - 1, alerts, end_ms), "revision": 1, "updated_ms": None,
        "updated_by": None,
    }  # fmt: skip


def _mark(number: int, end_ms: int) -> dict[str, Any]:
    return {
        "alert_id": _id(number), "rule_id": _rule_id(number), "rule_version": 3,
        "verdict": "NOT_FRAUD" if number % 3 else "FRAUD", "who": "ann", "at_ms": end_ms,
    }  # fmt: skip


def _label(number: int, end_ms: int) -> dict[str, Any]:
    verdict = "NOT_FRAUD" if number % 50 else "FRAUD"
    return {"transaction_id": str(number), "verdict": verdict, "source": "FILE", "author": "ann", "at_ms": end_ms}


def _audit(numbers: range, previous: str, end_ms: int) -> Iterator[dict[str, Any]]:
    for number in numbers:
        entry = AuditEntry(
            seq=number + 1, at_ms=end_ms, who=f"user{number % 20}", action="alert.mark", subject=f"alert {_id(number)}",
            rule_id=_rule_id(number), list_name=None, before="null", after='{"verdict":"FRAUD"}',
            previous_hash=previous, hash="",
        )  # fmt: skip
        entry.hash = previous = hash_of(entry)
        yield {column.name: getattr(entry, column.name) for column in AuditEntry.__table__.columns}
