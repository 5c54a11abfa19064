"""Fills the store of a control plane with a month of alerts: alerts with their values, cases, marks, labels, audit."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from sqlalchemy import Connection, Table

from fraud_control.service.audit import FIRST, hash_of
from fraud_control.store.alert_models import AlertPaymentRow, AlertRow, AlertValueRow, MarkRow
from fraud_control.store.case_models import CaseRow
from fraud_control.store.database import Database
from fraud_control.store.label_models import LabelRow
from fraud_control.store.models import AuditEntry, Base
from fraud_rules.batch.whatif.labels import LabelSource

__all__ = ["ALERTS_A_CASE", "COMMON_WORD", "MONTH_MS", "PAYERS", "RULES", "alert_id", "document", "fill"]

COMMON_WORD: Final = "csh"
"""The text that each alert has."""
RULES: Final = 50
PAYERS: Final = 20_000
ALERTS_A_CASE: Final = 20

_AT_ONCE: Final = 20_000
_CACHE_KIB: Final = 3_000_000
MONTH_MS: Final = 29 * 86_400_000
_BENEFICIARIES: Final = 50_000
_MARKED: Final = 5

_Rows = Iterator[tuple[Any, ...]]


def fill(database: Database, alerts: int, end_ms: int) -> None:
    """Add alerts of the month before `end_ms`, one label and one audit row for each, a case for twenty of them, and a
    mark for one in five, to an empty store. The indexes of the tables are made after their rows, which is faster.
    """
    month = _Month(alerts, end_ms)
    made: tuple[tuple[type[Base], int, Callable[[int], _Rows]], ...] = (
        (AlertRow, alerts, month.alert),
        (AlertValueRow, alerts, month.values),
        (AlertPaymentRow, alerts, month.payment),
        (CaseRow, alerts // ALERTS_A_CASE, month.case),
        (MarkRow, alerts // _MARKED, month.mark),
        (LabelRow, alerts, month.label),
        (AuditEntry, alerts, month.audit),
    )
    with database.writing() as session:
        connection = session.connection()
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql(f"PRAGMA cache_size=-{_CACHE_KIB}")
        for model, count, rows in made:
            table = cast(Table, model.__table__)
            indexes = sorted(table.indexes, key=lambda each: str(each.name))
            for index in indexes:
                index.drop(connection)
            for start in range(0, count, _AT_ONCE):
                numbers = range(start, min(count, start + _AT_ONCE))
                _insert(connection, table, [row for number in numbers for row in rows(number)])
            for index in indexes:
                index.create(connection)
        if connection.dialect.name == "postgresql":
            last = "SELECT setval(pg_get_serial_sequence('cases', 'case_id'), max(case_id)) FROM cases"
            connection.exec_driver_sql(last)


def _insert(connection: Connection, table: Table, rows: list[tuple[Any, ...]]) -> None:
    """Insert rows with all columns of the table, by the fastest way of the database."""
    columns = ", ".join(column.name for column in table.columns)
    if connection.dialect.name == "sqlite":
        places = ", ".join("?" * len(table.columns))
        connection.exec_driver_sql(f"INSERT INTO {table.name} ({columns}) VALUES ({places})", rows)  # noqa: S608
        return
    lines = io.StringIO("".join("\t".join(map(_copied, row)) + "\n" for row in rows))
    cursor = cast(Any, connection.connection.cursor())
    cursor.copy_expert(f"COPY {table.name} ({columns}) FROM STDIN", lines)


def _copied(value: object) -> str:
    """A value for COPY. No text here has a character that needs an escape."""
    if isinstance(value, bytes):
        return rf"\\x{value.hex()}"
    return r"\N" if value is None else str(value)


def alert_id(number: int) -> str:
    """The id of the alert with this number. Ids have no order."""
    text = f"{number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def document(number: int, append_ms: int, violated: Mapping[str, Any] | None = None) -> bytes:
    """The alert as its topic has it. `violated` is the document of its rule."""
    rule_id, key = _rule_id(number), _key(number)
    violated = violated or {"ruleId": rule_id, "name": f"Payments of one payer, {rule_id}", "severity": "HIGH"}
    event = {
        "transactionId": number, "eventTime": append_ms, **key, "paymentAmount": _amount(number), "paymentType": "CSH"
    }  # fmt: skip
    alert = {
        "alertId": alert_id(number), "ruleId": rule_id, "ruleVersion": 3, "shadow": False,
        "violatedRule": violated, "key": key, "triggeringValue": "123.45", "triggeringEvent": event,
        "windowStart": append_ms - 1_200_000, "windowEnd": append_ms, "windowCount": 17, "windowComplete": True,
        "suppressed": 0, "eventTime": append_ms, "ingestionTime": append_ms, "detectionTime": append_ms,
    }  # fmt: skip
    return json.dumps(alert).encode()


def _key(number: int) -> dict[str, int]:
    return {"beneficiaryId": 100_000 + number % _BENEFICIARIES, "payeeId": 1_000 + number % PAYERS}


def _rule_id(number: int) -> int:
    return number % RULES + 1


def _amount(number: int) -> float:
    return 5 + number * 7_919 % 1_000_000 / 100


@dataclass(slots=True)
class _Month:
    """Rows in the order of the tables' columns. `previous` is the hash of the last audit row."""

    alerts: int
    end_ms: int
    previous: str = FIRST

    def alert(self, number: int) -> _Rows:
        append_ms, key = self._append_ms(number), json.dumps(_key(number), separators=(",", ":"))
        yield (
            alert_id(number), append_ms, 0, number, _rule_id(number), 1 + number % 4, _amount(number), False, key, None,
            None, number // ALERTS_A_CASE + 1, zlib.compress(document(number, append_ms), 1),
        )  # fmt: skip

    def values(self, number: int) -> _Rows:
        identity, append_ms = alert_id(number), self._append_ms(number)
        for field, value in _key(number).items():
            yield identity, field, str(value), True, append_ms
        yield identity, "paymentType", COMMON_WORD, False, append_ms
        yield identity, "transactionId", str(number), False, append_ms

    def payment(self, number: int) -> _Rows:
        yield (
            alert_id(number), str(number), _rule_id(number), 3, self._append_ms(number), _amount(number), False, True,
        )  # fmt: skip

    def case(self, number: int) -> _Rows:
        first = number * ALERTS_A_CASE
        closed, value = number % 2 == 0, str(1_000 + number)
        yield (
            number + 1, "payeeId", value, None if closed else f"payeeId:{value}", "CLOSED" if closed else "OPEN",
            closed, "NOT_FRAUD" if closed else None, None, None, number % 4, ALERTS_A_CASE, self._append_ms(first),
            self._append_ms(first + ALERTS_A_CASE - 1), 1, None, None,
        )  # fmt: skip

    def mark(self, number: int) -> _Rows:
        marked = number * _MARKED
        verdict = "NOT_FRAUD" if number % 3 else "FRAUD"
        yield alert_id(marked), _rule_id(marked), 3, verdict, "ann", self._append_ms(marked)

    def label(self, number: int) -> _Rows:
        verdict = "NOT_FRAUD" if number % 50 else "FRAUD"
        at_ms = self._append_ms(number)
        yield str(number), verdict, LabelSource.FILE.value, "ann", "", at_ms, at_ms

    def audit(self, number: int) -> _Rows:
        entry = AuditEntry(
            seq=number + 1, at_ms=self._append_ms(number), who=f"user{number % 20}", action="alert.mark",
            subject=f"alert {alert_id(number)}", kind="rule", item_key=str(_rule_id(number)), before="null",
            after='{"verdict":"FRAUD"}', previous_hash=self.previous, hash="",
        )  # fmt: skip
        self.previous = hash_of(entry)
        yield (
            entry.seq, entry.at_ms, entry.who, entry.action, entry.subject, None, entry.before, entry.after,
            entry.previous_hash, self.previous, entry.kind, entry.item_key,
        )  # fmt: skip

    def _append_ms(self, number: int) -> int:
        return self.end_ms - MONTH_MS + number * MONTH_MS // self.alerts
