"""The page of the day: the figures of the feed, with the marks and changes of the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from fraud_control.domain.canonical import document_of
from fraud_control.domain.item import RULE
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import RecentChange
from fraud_control.feed.day_figures import DayFigures, DaySummary
from fraud_control.service.cases.queries import OpenCases, count_open
from fraud_control.settings import ResolveHours
from fraud_control.store.alert_models import MarkRow
from fraud_control.store.database import Database
from fraud_control.store.models import ItemHead, RevisionRow

__all__ = ["Today", "today_of"]

_CHANGES: Final = 8
_MOST_MARKS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Today:
    """The last 24 hours. `reviewed` counts the live alerts that users have marked. `names` are the names and severities
    of the listed rules. `complete` is false if the figures lack older alerts of this time.
    """

    at_ms: int
    figures: DaySummary
    reviewed: int
    names: Mapping[int, tuple[str, str]]
    changes: Sequence[RecentChange]
    complete: bool
    cases: OpenCases


def today_of(figures: DayFigures, database: Database, hours: ResolveHours, now_ms: int, *, complete: bool) -> Today:
    """Combine the figures. Raises Unavailable."""
    summary = figures.summary(now_ms)
    with database.reading() as session:
        marked = _marked_since(session, summary.since_ms)
        names = _rule_names(session, [rule_id for rule_id, _, _ in summary.rules])
        changes = _recent_changes(session)
        cases = count_open(session, hours, now_ms)
    reviewed = figures.count_of(marked, now_ms)
    return Today(now_ms, summary, reviewed, names, changes, complete, cases)


def _marked_since(session: Session, since_ms: int) -> Sequence[str]:
    """The ids of the alerts that were marked since a time. An alert is never marked before it exists."""
    newest = select(MarkRow.alert_id).where(MarkRow.at_ms >= since_ms).order_by(MarkRow.at_ms.desc())
    return session.scalars(newest.limit(_MOST_MARKS)).all()


def _recent_changes(session: Session) -> list[RecentChange]:
    """The newest revisions of all rules, newest first. They belong to the rules that changed last."""
    changed = select(ItemHead.item_key).where(ItemHead.kind == RULE).order_by(ItemHead.updated_at_ms.desc())
    keys = session.scalars(changed.limit(_CHANGES)).all()
    revisions = select(RevisionRow).where(RevisionRow.kind == RULE, RevisionRow.item_key.in_(keys))
    newest = revisions.order_by(RevisionRow.at_ms.desc(), RevisionRow.revision.desc()).limit(_CHANGES)
    return [
        RecentChange(
            rule_id=int(row.item_key),
            name=_text(row.document, "name"),
            revision=row.revision,
            state=StateName(row.state),
            author=row.author,
            at_ms=row.at_ms,
            comment=row.comment,
        )
        for row in session.scalars(newest)
    ]


def _rule_names(session: Session, rule_ids: Sequence[int]) -> Mapping[int, tuple[str, str]]:
    wanted = ItemHead.kind == RULE, ItemHead.number.in_(rule_ids)
    found = session.execute(select(ItemHead.item_key, ItemHead.document).where(*wanted))
    return {int(key): (_text(document, "name"), _text(document, "severity")) for key, document in found}


def _text(document: str, member: str) -> str:
    value = document_of(document).get(member)
    return value if isinstance(value, str) else ""
