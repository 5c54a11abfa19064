"""Puts the alerts that arrive into cases, in the transaction that adds them to the alert index.

An alert belongs to one case: that of the member of its key whose field comes first in the schema. It joins the case of
this entity that is not closed, or opens one. A closed case never gets alerts. Alerts without a key, shadow alerts, and
alerts of a rule or key that was snoozed at their arrival belong to no case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from fraud_control.domain.case_models import URGENCIES, CaseStatus
from fraud_control.domain.read_models import Snooze
from fraud_control.feed.events import FeedAlert
from fraud_control.service.alert_marks import snoozes
from fraud_control.service.ids import batches
from fraud_control.store.alert_models import FIELD_CHARS, VALUE_CHARS
from fraud_control.store.case_models import CaseRow
from fraud_rules.runtime.safe_text import scalar_text

_LEAST_URGENT: Final = len(URGENCIES) - 1


@dataclass(frozen=True, slots=True)
class CaseEntity:
    """A field and one value of it, as text that the database can hold."""

    field: str
    value: str

    @property
    def name(self) -> str:
        """The form FIELD:VALUE."""
        return f"{self.field}:{self.value}"


@dataclass(slots=True)
class _Joining:
    """The alerts of one entity that arrive together."""

    alerts: int
    urgency: int
    first_ms: int
    last_ms: int


def _entity_of(key: Mapping[str, object], fields: Sequence[str]) -> CaseEntity:
    """The entity of an alert's key. `fields` is the order of preference."""
    field, value = next(((name, key[name]) for name in fields if name in key), next(iter(key.items())))
    return CaseEntity(field.replace("\0", "")[:FIELD_CHARS], scalar_text(value).replace("\0", "")[:VALUE_CHARS])


def assign_cases(
    session: Session, alerts: Sequence[FeedAlert], severity_ranks: Sequence[int], fields: Sequence[str]
) -> list[int | None]:
    """Put new alerts into cases, and return the case of each; None for an alert without a case. `fields` is the order
    in which the fields of a key are preferred as the entity of a case.
    """
    entities = _entities(session, alerts, fields)
    joining: dict[CaseEntity, _Joining] = {}
    for alert, rank, entity in zip(alerts, severity_ranks, entities, strict=True):
        if entity is not None:
            urgency, at_ms = _LEAST_URGENT - rank, alert.append_ms
            known = joining.setdefault(entity, _Joining(0, urgency, at_ms, at_ms))
            known.alerts += 1
            known.urgency = min(known.urgency, urgency)
            known.first_ms, known.last_ms = min(known.first_ms, at_ms), max(known.last_ms, at_ms)
    cases = _open_cases(session, list(joining))
    for entity, arrived in joining.items():
        case = cases.get(entity.name)
        if case is None:
            cases[entity.name] = open_case(
                session, entity, arrived.alerts, arrived.urgency, arrived.first_ms, arrived.last_ms
            )
        else:
            case.alerts += arrived.alerts
            case.urgency = min(case.urgency, arrived.urgency)
            case.first_alert_ms = min(case.first_alert_ms, arrived.first_ms)
            case.last_alert_ms = max(case.last_alert_ms, arrived.last_ms)
    session.flush()
    return [None if entity is None else cases[entity.name].case_id for entity in entities]


def open_case(session: Session, entity: CaseEntity, alerts: int, urgency: int, first_ms: int, last_ms: int) -> CaseRow:
    """Add a case with status OPEN. The next flush allocates its id."""
    case = CaseRow(
        entity_field=entity.field,
        entity_value=entity.value,
        open_entity=entity.name,
        status=CaseStatus.OPEN.value,
        closed=False,
        urgency=urgency,
        alerts=alerts,
        first_alert_ms=first_ms,
        last_alert_ms=last_ms,
        revision=1,
    )
    session.add(case)
    return case


def _entities(session: Session, alerts: Sequence[FeedAlert], fields: Sequence[str]) -> list[CaseEntity | None]:
    wanted = [not each.facts.shadow and bool(each.facts.key) for each in alerts]
    if not any(wanted):
        return [None] * len(alerts)
    known = snoozes(session, min(each.append_ms for each in alerts))
    return [
        _entity_of(each.facts.key, fields) if live and not _is_snoozed(each, known) else None
        for each, live in zip(alerts, wanted, strict=True)
    ]


def _is_snoozed(alert: FeedAlert, known: Iterable[Snooze]) -> bool:
    key: Mapping[str, object] = dict(alert.facts.key)
    return any(
        each.rule_id == alert.facts.rule_id
        and each.at_ms <= alert.append_ms < each.until_ms
        and (each.key is None or each.key == key)
        for each in known
    )


def _open_cases(session: Session, entities: Sequence[CaseEntity]) -> dict[str, CaseRow]:
    names = [each.name for each in entities]
    found: dict[str, CaseRow] = {}
    for some in batches(names):
        rows = session.scalars(select(CaseRow).where(CaseRow.open_entity.in_(some)))
        found |= {row.open_entity: row for row in rows if row.open_entity is not None}
    return found
