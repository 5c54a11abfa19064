"""The page of the day: the figures of the feed, with the marks and changes of the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

from pydantic import Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from fraud_control.domain.canonical import document_of
from fraud_control.domain.item import RULE
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import EpochMs, ReadModel, RecentChange
from fraud_control.feed.day_figures import DayFigures, HourSummary, KeyCounts
from fraud_control.feed.decisions import OutcomeName
from fraud_control.service.cases.queries import count_open
from fraud_control.settings import ResolveHours
from fraud_control.store.alert_models import MarkRow
from fraud_control.store.database import Database
from fraud_control.store.models import ItemHead, RevisionRow

_CHANGES: Final = 8
_MOST_MARKS: Final = 100_000


class DayRule(ReadModel):
    """The live and shadow alerts of a rule."""

    rule_id: int
    name: str
    severity: str
    live: int
    shadow: int


class Today(ReadModel):
    """The figures of the last 24 hours, from `since` on. Rules and keys are those with the most alerts."""

    at_ms: EpochMs = Field(serialization_alias="at")
    since_ms: EpochMs = Field(serialization_alias="since")
    complete: bool = Field(description="False while the server reads older alerts, or if it cannot read all of them.")
    hours: list[HourSummary]
    alerts: int = Field(description="The live alerts.")
    shadow_alerts: int
    unreviewed: int = Field(description="The live alerts without a mark.")
    open_cases: int = Field(description="The cases that are not closed.")
    unassigned_cases: int = Field(description="The open cases without an assignee.")
    overdue_cases: int = Field(description="The open cases that should be closed by now, by their severity.")
    decisions: dict[OutcomeName, int]
    rules: list[DayRule]
    keys: list[KeyCounts]
    changes: list[RecentChange]


def today_of(figures: DayFigures, database: Database, hours: ResolveHours, now_ms: int, *, complete: bool) -> Today:
    """Combine the figures. `complete` is false if they lack older alerts of this time. Raises Unavailable."""
    summary = figures.summary(now_ms)
    with database.reading() as session:
        marked = _marked_since(session, summary.since_ms)
        rules = _rules(session, summary.rules)
        changes = _recent_changes(session)
        cases = count_open(session, hours, now_ms)
    live = sum(sum(hour.live.values()) for hour in summary.hours)
    return Today(
        at_ms=now_ms,
        since_ms=summary.since_ms,
        complete=complete,
        hours=list(summary.hours),
        alerts=live,
        shadow_alerts=sum(hour.shadow for hour in summary.hours),
        unreviewed=max(0, live - figures.count_of(marked, now_ms)),
        open_cases=cases.cases,
        unassigned_cases=cases.unassigned,
        overdue_cases=cases.overdue,
        decisions={name: summary.decisions.get(name, 0) for name in get_args(OutcomeName)},
        rules=rules,
        keys=list(summary.keys),
        changes=changes,
    )


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


def _rules(session: Session, counts: Sequence[tuple[int, int, int]]) -> list[DayRule]:
    """The rules of these ids, with their live and their shadow alerts."""
    wanted = ItemHead.kind == RULE, ItemHead.number.in_([rule_id for rule_id, _, _ in counts])
    found = session.execute(select(ItemHead.item_key, ItemHead.document).where(*wanted))
    texts = {int(key): (_text(document, "name"), _text(document, "severity")) for key, document in found}
    return [
        DayRule(rule_id=rule_id, name=name, severity=severity, live=live, shadow=shadow)
        for rule_id, live, shadow in counts
        for name, severity in [texts.get(rule_id, ("", ""))]
    ]


def _text(document: str, member: str) -> str:
    value = document_of(document).get(member)
    return value if isinstance(value, str) else ""
