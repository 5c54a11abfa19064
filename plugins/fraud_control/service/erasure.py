"""Erases what the store knows about a person: the values of masked fields that equal an id.

Lists and maps keep the id, because an entry can be the reason to refuse a person's payments, and its removal needs the
approval of a second person. The erasure names them, so that a user can remove the entries first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from pydantic import Field
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from fraud_control.domain.canonical import decoded
from fraud_control.domain.errors import Invalid, NotFound
from fraud_control.domain.item import LIST, MAP
from fraud_control.domain.masking import Masking
from fraud_control.domain.read_models import ReadModel
from fraud_control.domain.roles import Actor, Permission, require
from fraud_control.service.audit import AuditRecord
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.collections.queries import containing
from fraud_control.service.ids import batches
from fraud_control.service.retention import remove_cases
from fraud_control.store.alert_models import (
    VALUE_CHARS,
    AlertPaymentRow,
    AlertRow,
    AlertValueRow,
    MarkRow,
    SavedSearchRow,
    SnoozeRow,
)
from fraud_control.store.case_models import CaseRow
from fraud_control.store.models import AuditEntry
from fraud_control.store.notification_models import DeliveryRow
from fraud_control.store.privacy_models import PseudonymRow
from fraud_rules.errors import Reason
from fraud_rules.proof.certificate import Certificate, digest_of
from fraud_rules.proof.document import Seal

_CERTIFICATE: Final = "person.certificate"


class Erasure(ReadModel):
    """What was erased. `person` is the pseudonym of the id in the audit log, which leads to no person afterwards."""

    person: str
    fields: list[str] = Field(description="The fields and entities whose values were compared with the id.")
    erased: dict[str, int] = Field(description="The erased rows of each table.")
    lists: list[str] = Field(description="The lists that have the id, and keep it.")
    maps: list[str] = Field(description="The maps that have the id as a key, and keep it.")


def erase(work: UnitOfWork, who: Actor, value: str) -> Erasure:
    """Erase a person, with one row in the audit log. A repetition erases what came since. Raises RequestRefused,
    Invalid.
    """
    require(who, Permission.ERASE)
    fields = sorted(work.pseudonyms.fields)
    if not fields:
        raise Invalid([Reason("value", "no field of config/schema.yaml has `display: masked`")])
    person = work.pseudonyms.of(value)
    erased = {
        **_erase_alerts(work.session, fields, value),
        "cases": _erase_cases(work, fields, value),
        "snoozes": _erase_snoozes(work, value),
        "saved_searches": _erase_searches(work.session, value),
        "deliveries": _erase_deliveries(work, value),
    }
    result = Erasure(
        person=person, fields=fields, erased=erased, lists=_keeping(work, value, LIST), maps=_keeping(work, value, MAP)
    )
    after = result.model_dump(by_alias=True, exclude={"person"})
    work.append_audit(AuditRecord(who.user, "person.erase", f"person {person}", None, after))
    work.session.execute(delete(PseudonymRow).where(PseudonymRow.value == value[:VALUE_CHARS]))
    return result


def keep_certificate(work: UnitOfWork, who: Actor, document: Mapping[str, Any]) -> None:
    """Keep a certificate of `fraud erase` with its seal in the audit log. Raises RequestRefused, Invalid."""
    require(who, Permission.ERASE)
    try:
        person = msgspec.convert(document["certificate"], Certificate).person
        fits = digest_of(document["certificate"]) == msgspec.convert(document["seal"], Seal).sha256
    except (KeyError, msgspec.ValidationError) as error:
        raise Invalid([Reason("certificate", f"is no certificate of `fraud erase`: {error}")]) from None
    if not fits:
        raise Invalid([Reason("seal", "is not that of the certificate")])
    work.append_audit(AuditRecord(who.user, _CERTIFICATE, f"person {person}", None, document))


def certificate_of(session: Session, seq: int) -> bytes:
    """The certificate in a row of the audit log. Raises NotFound."""
    row = session.scalar(select(AuditEntry).where(AuditEntry.seq == seq, AuditEntry.action == _CERTIFICATE))
    if row is None:
        raise NotFound(f"row {seq} of the audit log has no certificate")
    return msgspec.json.format(row.after.encode(), indent=2)


def _erase_alerts(session: Session, fields: list[str], value: str) -> dict[str, int]:
    """Erase the alerts with the id in the key or the payment, with their marks."""
    named = select(AlertValueRow.alert_id).where(AlertValueRow.value == value.lower(), AlertValueRow.field.in_(fields))
    ids = session.scalars(named.distinct()).all()
    marks = 0
    for chunk in batches(ids):
        gone = session.execute(delete(MarkRow).where(MarkRow.alert_id.in_(chunk)))
        marks += gone.rowcount  # type: ignore[attr-defined]
        for table in (AlertValueRow, AlertPaymentRow, AlertRow):
            session.execute(delete(table).where(table.alert_id.in_(chunk)))
    return {"alerts": len(ids), "marks": marks}


def _erase_cases(work: UnitOfWork, fields: list[str], value: str) -> int:
    """Erase the cases about the id, with their comments."""
    named = select(CaseRow.case_id).where(CaseRow.entity_value == value, CaseRow.entity_field.in_(fields))
    return remove_cases(work, list(work.session.scalars(named)))


def _erase_snoozes(work: UnitOfWork, value: str) -> int:
    rows = work.session.scalars(select(SnoozeRow).where(SnoozeRow.key.contains(value, autoescape=True)))
    return _delete(work.session, [row for row in rows if _names(work, decoded(row.key or "null"), value)])


def _erase_searches(session: Session, value: str) -> int:
    """Erase the saved searches for the id."""
    rows = session.scalars(select(SavedSearchRow).where(SavedSearchRow.query.contains(value, autoescape=True)))
    return _delete(session, [row for row in rows if value in set(_searched(row.query))])


def _erase_deliveries(work: UnitOfWork, value: str) -> int:
    """Erase the notifications of releases that did not mask the id."""
    rows = work.session.scalars(select(DeliveryRow).where(DeliveryRow.data.contains(value, autoescape=True)))
    return _delete(work.session, [row for row in rows if _names(work, decoded(row.data), value)])


def _delete(session: Session, rows: list[Any]) -> int:
    for row in rows:
        session.delete(row)
    return len(rows)


def _searched(query: str) -> Iterator[str]:
    """The values in a query string; an entity is FIELD:VALUE."""
    for _, value in parse_qsl(query):
        yield value
        yield value.partition(":")[2]


def _names(work: UnitOfWork, document: Any, value: str) -> bool:
    """Whether a masked field of a document has this value."""
    found: set[str] = set()

    def note(text: str) -> str:
        found.add(text)
        return text

    Masking(work.reader.schema, note).document(document)
    return value in found


def _keeping(work: UnitOfWork, value: str, kind: str) -> list[str]:
    """The lists with the id, or the maps with it as a key, as a text and as a number."""
    values: list[int | str] = [value]
    if value.lstrip("-").isdigit() and value.isascii() and len(value) < 19:
        values.append(int(value))
    return sorted(name for each in values for name in containing(work, each, kind))
