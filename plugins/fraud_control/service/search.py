"""The search over everything: rules, cases, alerts, and the ids that have a page.

Each query reads a few rows of an index of the database. Only the search for rules reads the texts of all rules.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from pydantic import Field
from sqlalchemy import Select, select, union_all
from sqlalchemy.orm import Session

from fraud_control.domain.alert_search import PREFIX_CHARS
from fraud_control.domain.canonical import document_of
from fraud_control.domain.case_models import Case
from fraud_control.domain.item import RULE
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import EpochMs, JsonDocument, ReadModel, RuleUse
from fraud_control.service.cases.queries import cases_of
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.ids import beyond_prefix
from fraud_control.service.items.heads import in_use
from fraud_control.store.alert_models import AlertRow, AlertValueRow
from fraud_control.store.case_models import CaseRow
from fraud_control.store.models import ItemHead
from fraud_rules.model.schema import ID_FIELD, FieldType, TransactionSchema

_MOST: Final = 5
_MOST_IDS: Final = 8
_ALERT_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_CASE_ID: Final = re.compile(r"(?:case )?([0-9]{1,9})", re.ASCII)
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_INT64: Final = 2**63


class FoundAlert(ReadModel):
    """An alert with the text as its id, or as a value of its key or payment."""

    alert_id: str
    rule_id: int
    key: JsonDocument
    append_ms: EpochMs = Field(serialization_alias="time")
    shadow: bool


class FoundId(ReadModel):
    """A field that can hold the text as an id. Its payments are at `/entity`, also without alerts."""

    field: str
    has_alerts: bool


class SearchFindings(ReadModel):
    """At most five rules, cases and alerts, and at most eight ids."""

    rules: list[RuleUse]
    cases: list[Case]
    alerts: list[FoundAlert] = Field(description="Newest first.")
    ids: list[FoundId] = Field(description="Those with alerts first.")


def search(work: UnitOfWork, text: str) -> SearchFindings:
    """Search for a text: an id, the beginning of the id of a case, or a part of the text of a rule."""
    text, schema = text.strip(), work.reader.schema
    if not text:
        return SearchFindings(rules=[], cases=[], alerts=[], ids=[])
    fields, alerts = _alerts(work.session, schema, text.lower())
    return SearchFindings(
        rules=_rules(work.session, text.lower()),
        cases=cases_of(work, _cases(work.session, text)),
        alerts=[FoundAlert.model_validate(each) for each in alerts],
        ids=_ids(schema, text, fields),
    )


def _rules(session: Session, text: str) -> list[RuleUse]:
    """The rules whose text contains the text; first the one with this id."""
    wanted = in_use(RULE), ItemHead.search.contains(text, autoescape=True)
    found = select(ItemHead.item_key, ItemHead.document, ItemHead.state).where(*wanted)
    rows = session.execute(found.order_by(ItemHead.item_key != text, ItemHead.number).limit(_MOST))
    return [
        RuleUse(rule_id=int(key), name=str(document_of(document).get("name") or ""), state=StateName(state))
        for key, document, state in rows
    ]


def _cases(session: Session, text: str) -> list[CaseRow]:
    """The case with this id, the newest cases of the entity with this value, then those whose value begins with it."""
    numbered = _CASE_ID.fullmatch(text.lower())
    known = None if numbered is None else session.get(CaseRow, int(numbered[1]))
    found = [] if known is None else [known]
    same = select(CaseRow).where(CaseRow.entity_value == text).order_by(CaseRow.case_id.desc())
    found += session.scalars(same.limit(_MOST))
    if len(text) >= PREFIX_CHARS:
        longer = select(CaseRow).where(CaseRow.entity_value > text, CaseRow.entity_value < beyond_prefix(text))
        order = CaseRow.entity_value, CaseRow.entity_field, CaseRow.case_id
        found += session.scalars(longer.order_by(*order).limit(_MOST))
    return list({row.case_id: row for row in found}.values())[:_MOST]


def _alerts(session: Session, schema: TransactionSchema, text: str) -> tuple[set[str], Sequence[AlertRow]]:
    """The fields that hold the text in alerts, and the newest alerts with it; or the alert with this id."""
    if _ALERT_ID.fullmatch(text):
        return set(), session.scalars(select(AlertRow).where(AlertRow.alert_id == text)).all()
    newest = [_newest(field, text) for field in _searched(schema)]
    found = session.execute(union_all(*newest)).all() if newest else []
    latest = sorted(found, key=lambda each: each.append_ms, reverse=True)
    ids = list(dict.fromkeys(each.alert_id for each in latest))[:_MOST]
    rows = session.scalars(select(AlertRow).where(AlertRow.alert_id.in_(ids)).order_by(AlertRow.append_ms.desc()))
    return {each.field for each in found}, rows.all()


def _newest(field: str, text: str) -> Select[tuple[str, str, int]]:
    """The newest alerts with a value of a field. SQLite limits no part of a union but a query within a query."""
    columns = select(AlertValueRow.field, AlertValueRow.alert_id, AlertValueRow.append_ms)
    wanted = columns.where(AlertValueRow.value == text, AlertValueRow.field == field)
    part = wanted.order_by(AlertValueRow.append_ms.desc()).limit(_MOST).subquery()
    return select(part.c.field, part.c.alert_id, part.c.append_ms)


def _searched(schema: TransactionSchema) -> Iterator[str]:
    """The fields whose values the alert index has."""
    yield from (each.name for each in schema.entities)
    yield from (each.name for each in schema.fields if each.type in (FieldType.LONG, FieldType.STRING))


def _ids(schema: TransactionSchema, text: str, with_alerts: Collection[str]) -> list[FoundId]:
    found = [FoundId(field=name, has_alerts=name in with_alerts) for name in _id_fields(schema, text)]
    return sorted(found, key=lambda each: not each.has_alerts)[:_MOST_IDS]


def _id_fields(schema: TransactionSchema, text: str) -> Iterator[str]:
    """The entities and the fields with ids, other than the payment's own, whose type the text fits."""
    whole = _INTEGER.fullmatch(text) is not None and -_INT64 <= int(text) < _INT64
    one_word = len(text.split()) == 1
    for entity in schema.entities:
        declared = schema.of_rows((entity.name,)).field(entity.name)
        if declared is not None and (whole if declared.type is FieldType.LONG else one_word):
            yield entity.name
    for field in schema.fields:
        is_text = field.type is FieldType.STRING and field.name.endswith("Id")
        if field.name != ID_FIELD and ((whole and field.type is FieldType.LONG) or (one_word and is_text)):
            yield field.name
