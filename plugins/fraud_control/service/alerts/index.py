"""The alert index: one row per alert in the store, so that searches do not read topics."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec
from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from fraud_control.domain.canonical import canonical
from fraud_control.feed.events import FeedAlert, FeedCorrection, stored_alert
from fraud_control.feed.place import FeedSource
from fraud_control.service.cases.endings import expire_cases, update_corrected_cases
from fraud_control.service.cases.intake import assign_cases
from fraud_control.service.ids import batches
from fraud_control.service.labels.payments import add_payments, prune_payments
from fraud_control.store.alert_models import (
    FIELD_CHARS,
    ID_CHARS,
    RETRACTED,
    VALUE_CHARS,
    AlertPaymentRow,
    AlertRow,
    AlertValueRow,
)
from fraud_rules.kafka.decoding import UNDECODABLE
from fraud_rules.model.decision import SEVERITY_WEIGHTS
from fraud_rules.model.schema import FieldType, TransactionSchema

_IDENTITY: Final = re.compile(rf"[0-9A-Za-z-]{{1,{ID_CHARS}}}", re.ASCII)
_RANKS: Final = {name: rank for rank, name in enumerate(SEVERITY_WEIGHTS, 1)}
_PRUNED_AT_ONCE: Final = 1_000
_SEARCHED: Final = (FieldType.LONG, FieldType.STRING)


class _Document(msgspec.Struct, rename="camel"):
    violated_rule: dict[str, Any] = {}
    triggering_event: dict[str, Any] = {}


_read = msgspec.json.Decoder(_Document, float_hook=Decimal).decode


@dataclass(frozen=True, slots=True)
class IndexedAlert:
    """An alert of the index. `correction` is its kind and time in epoch ms."""

    alert: FeedAlert
    correction: tuple[str, int] | None


def amount_field(schema: TransactionSchema) -> str | None:
    """The field that searches call the amount: the first decimal of the schema."""
    return next((each.name for each in schema.fields if each.type is FieldType.DECIMAL), None)


def amount_of(value: object) -> Decimal | None:
    """The value of the amount; None for one that is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        return None
    try:
        amount = Decimal(value)
    except InvalidOperation:
        return None
    return amount if amount.is_finite() else None


def severity_rank(severity: object) -> int:
    """The rank of a rule's severity, which ignores case; 0 for an unknown one."""
    return _RANKS.get(severity.lower(), 0) if isinstance(severity, str) else 0


class AlertIndex:
    """Fills the index. The caller holds the writer's transaction."""

    def __init__(self, schema: TransactionSchema) -> None:
        self._amount = amount_field(schema)
        # A case about all payments with `true` would be of no use if the key has another field.
        fields = sorted(schema.fields, key=lambda each: each.type is FieldType.BOOLEAN)
        self._fields = [*(each.name for each in schema.entities), *(each.name for each in fields)]
        self._searched = [each.name for each in schema.fields if each.type in _SEARCHED]

    def add(self, session: Session, alerts: Sequence[FeedAlert]) -> Sequence[FeedAlert]:
        """Add alerts, and return the new ones. An alert that the index has keeps its place: a rebuilt detector may
        publish an alert again.
        """
        known = _known(session, [each.facts.alert_id for each in alerts])
        added: list[FeedAlert] = []
        rows: list[dict[str, object]] = []
        ranks: list[int] = []
        values: list[dict[str, object]] = []
        for alert in alerts:
            identity = alert.facts.alert_id
            if identity in known or not _IDENTITY.fullmatch(identity):
                continue
            known.add(identity)
            document = _document(alert)
            added.append(alert)
            ranks.append(severity_rank(document.violated_rule.get("severity")))
            rows.append(self._row(alert, document, ranks[-1]))
            values += self._values(alert, document)
        if rows:
            cases = assign_cases(session, added, ranks, self._fields)
            session.execute(insert(AlertRow), [row | {"case_id": case} for row, case in zip(rows, cases, strict=True)])
            add_payments(session, [_payment(alert, row) for alert, row in zip(added, rows, strict=True)])
        if values:
            session.execute(insert(AlertValueRow), values)
        return added

    def correct(self, session: Session, corrections: Sequence[FeedCorrection], now_ms: int) -> None:
        """Add the alerts of corrections, save the corrections of other alerts, and update their cases."""
        for each in corrections:
            if each.alert is not None:
                self.add(session, [each.alert])
            session.execute(
                update(AlertRow)
                .where(AlertRow.alert_id == each.alert_id)
                .values(correction=each.kind[:16], corrected_ms=each.time_ms)
            )
            session.execute(
                update(AlertPaymentRow)
                .where(AlertPaymentRow.alert_id == each.alert_id)
                .values(in_effect=each.kind != RETRACTED)
            )
        ids = [each.alert_id for each in corrections]
        for some in batches(ids):
            update_corrected_cases(session, some, now_ms)

    def prune(self, session: Session, before_ms: int, now_ms: int) -> int:
        """Delete alerts that are older than `before_ms` and payments that no label needs, and close untouched cases, up
        to a limit of each; return their number.
        """
        old = session.scalars(
            select(AlertRow.alert_id)
            .where(AlertRow.append_ms < before_ms)
            .order_by(AlertRow.append_ms)
            .limit(_PRUNED_AT_ONCE)
        ).all()
        for ids in batches(old):
            for table in (AlertValueRow, AlertRow):
                session.execute(delete(table).where(table.alert_id.in_(ids)))
        payments = prune_payments(session, now_ms, _PRUNED_AT_ONCE)
        return len(old) + payments + expire_cases(session, before_ms, now_ms)

    def _row(self, alert: FeedAlert, document: _Document, rank: int) -> dict[str, object]:
        return {
            "alert_id": alert.facts.alert_id,
            "append_ms": alert.append_ms,
            "source": int(alert.source),
            "offset": alert.offset,
            "rule_id": alert.facts.rule_id,
            "severity_rank": rank,
            "amount": _number(document.triggering_event.get(self._amount or "")),
            "shadow": alert.facts.shadow,
            "key": canonical(alert.facts.key).decode(),
            "correction": None if alert.added_ms is None else "ADDED",
            "corrected_ms": alert.added_ms,
            "json": zlib.compress(alert.json, 1),
        }

    def _values(self, alert: FeedAlert, document: _Document) -> list[dict[str, object]]:
        payment = {name: document.triggering_event.get(name) for name in self._searched}
        found = {_name(name): (name, value) for name, value in (payment | alert.facts.key).items() if value is not None}
        return [
            {
                "alert_id": alert.facts.alert_id,
                "field": field,
                "value": _text(value),
                "in_key": name in alert.facts.key,
                "append_ms": alert.append_ms,
            }
            for field, (name, value) in found.items()
        ]


def _payment(alert: FeedAlert, row: dict[str, object]) -> dict[str, object]:
    facts = alert.facts
    return {
        **{name: row[name] for name in ("alert_id", "rule_id", "append_ms", "amount", "shadow")},
        "transaction_id": str(facts.triggering_event.transaction_id).replace("\0", "")[:VALUE_CHARS],
        "rule_version": facts.rule_version,
        "in_effect": True,
    }


def indexed_alert(row: AlertRow) -> IndexedAlert:
    """Read the alert of a row."""
    source = FeedSource(row.source)
    added_ms = row.corrected_ms if source is FeedSource.CORRECTIONS else None
    alert = stored_alert(source, row.offset, row.append_ms, zlib.decompress(row.json), added_ms)
    corrected = row.correction is not None and row.corrected_ms is not None
    return IndexedAlert(alert, (str(row.correction), int(row.corrected_ms or 0)) if corrected else None)


def _known(session: Session, ids: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for some in batches(ids):
        found.update(session.scalars(select(AlertRow.alert_id).where(AlertRow.alert_id.in_(some))))
    return found


def _document(alert: FeedAlert) -> _Document:
    """The rule and the payment of an alert; empty if another program wrote them in another form."""
    try:
        return _read(alert.json)
    except UNDECODABLE:
        return _Document()


def _name(field: str) -> str:
    return field.replace("\0", "")[:FIELD_CHARS]


def _text(value: object) -> str:
    return str(value).lower().replace("\0", "")[:VALUE_CHARS]


def _number(value: object) -> float | None:
    """The amount as a double; None for one that is too large."""
    amount = amount_of(value)
    number = math.nan if amount is None else float(amount)
    return number if math.isfinite(number) else None
