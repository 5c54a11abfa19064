"""What a decision about a case needs beside its alerts: the money, the newest payments, the lists, and the cases of the
other ids in the payments.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import msgspec
from sqlalchemy import select, tuple_

from fraud_control.domain.case_models import Case
from fraud_control.service.alerts.index import amount_field, amount_of
from fraud_control.service.cases.queries import MOST_OTHERS, case_of, cases_of
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.collections.queries import containing
from fraud_control.store.alert_models import IN_EFFECT, AlertRow
from fraud_control.store.case_models import CaseRow
from fraud_rules.kafka.decoding import UNDECODABLE
from fraud_rules.model.schema import ID_FIELD, FieldType, TransactionSchema

_MOST_ALERTS: Final = 1_000
_MOST_IDS: Final = 400
_ID_TYPES: Final = (FieldType.LONG, FieldType.STRING)

Payment = Mapping[str, Any]


class _Document(msgspec.Struct, rename="camel"):
    triggering_event: dict[str, Any] = {}


_read = msgspec.json.Decoder(_Document, float_hook=Decimal).decode


@dataclass(frozen=True, slots=True)
class CaseOverview:
    """The payments that raised the alerts of a case which are in effect, each once, newest first. `amount` is their
    exact sum; None without an amount. `complete` is false if the case has older alerts. `field` and `value` are those
    of the entity, `lists` the names of the lists that contain it. `related` are cases of the other ids in the payments,
    open ones first.
    """

    field: str
    value: int | str
    payments: Sequence[Payment]
    amount_field: str | None
    amount: Decimal | None
    complete: bool
    lists: Sequence[str]
    related: Sequence[Case]


def case_overview(work: UnitOfWork, case_id: int) -> CaseOverview:
    """Read the newest 1,000 alerts of a case. Raises NotFound."""
    row, schema = case_of(work.session, case_id), work.reader.schema
    newest = select(AlertRow.json).where(AlertRow.case_id == case_id, IN_EFFECT).order_by(AlertRow.append_ms.desc())
    found = work.session.scalars(newest.limit(_MOST_ALERTS + 1)).all()
    payments = _payments(found[:_MOST_ALERTS])
    name = amount_field(schema)
    amounts = [amount for each in payments if (amount := amount_of(each.get(name or ""))) is not None]
    value = _value(schema, row)
    return CaseOverview(
        field=row.entity_field,
        value=value,
        payments=payments,
        amount_field=name,
        amount=sum(amounts, Decimal()) if amounts else None,
        complete=len(found) <= _MOST_ALERTS,
        lists=containing(work, value),
        related=_related(work, schema, row, payments),
    )


def _payments(alerts: Sequence[bytes]) -> list[Payment]:
    """The payments of alerts, each once. An alert that another program wrote in another form has none."""
    found: dict[str, Payment] = {}
    for each in alerts:
        try:
            payment = _read(zlib.decompress(each)).triggering_event
        except UNDECODABLE:
            continue
        if ID_FIELD in payment:
            found.setdefault(str(payment[ID_FIELD]), payment)
    return list(found.values())


def _value(schema: TransactionSchema, row: CaseRow) -> int | str:
    """The value of the entity in the type of its field, in which lists have it."""
    declared = schema.of_rows((row.entity_field,)).field(row.entity_field)
    if declared is not None and declared.type is FieldType.LONG and row.entity_value.lstrip("-").isdecimal():
        return int(row.entity_value)
    return row.entity_value


def _related(work: UnitOfWork, schema: TransactionSchema, row: CaseRow, payments: Sequence[Payment]) -> Sequence[Case]:
    """The cases of the other ids in the payments. A role of an entity also stands for the entity."""
    fields = [each.name for each in schema.fields if each.type in _ID_TYPES and each.name != ID_FIELD]
    named = [(name, name) for name in fields]
    named += [(entity.name, name) for entity in schema.entities for name in entity.fields]
    values = dict.fromkeys(
        (str(payment[field]), name) for payment in payments for name, field in named if payment.get(field) is not None
    )
    values.pop((row.entity_value, row.entity_field), None)
    ids = list(values)[:_MOST_IDS]
    if not ids:
        return []
    # SQLite has no index for pairs in a list, so the values come first.
    of_value = CaseRow.entity_value.in_({value for value, _ in ids})
    of_ids = tuple_(CaseRow.entity_value, CaseRow.entity_field).in_(ids)
    order = CaseRow.closed, CaseRow.case_id.desc()
    found = select(CaseRow).where(of_value, of_ids).order_by(*order).limit(MOST_OTHERS)
    return cases_of(work, work.session.scalars(found).all())
