"""The daily digest: the alerts of 24 hours by rule, the unreviewed ones, and the open requests for approval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from fraud_ops.control_plane.domain.alert_search import AlertSeverity
from fraud_ops.control_plane.domain.canonical import document_of
from fraud_ops.control_plane.domain.notification_models import SubscribedEvent, Terms
from fraud_ops.control_plane.service.alerts.index import severity_rank
from fraud_ops.control_plane.service.notifications.messages import digest_content
from fraud_ops.control_plane.service.notifications.outbox import add_delivery
from fraud_ops.control_plane.service.notifications.terms import terms_of
from fraud_ops.control_plane.store.alert_models import AlertRow
from fraud_ops.control_plane.store.models import ApprovalRow, MarkRow, RuleHead
from fraud_ops.control_plane.store.notification_models import SubscriptionRow

__all__ = ["add_digests", "due_digests"]

_DAY_MS: Final = 86_400_000
_AT_ONCE: Final = 400
_LEVELS: Final = {severity_rank(each): each for each in AlertSeverity if each is not AlertSeverity.OTHER}


def due_digests(session: Session, now_ms: int) -> Sequence[SubscriptionRow]:
    """The subscriptions whose digest is due."""
    return session.scalars(select(SubscriptionRow).where(SubscriptionRow.digest_ms <= now_ms)).all()


def add_digests(session: Session, now_ms: int) -> None:
    """Add the deliveries of the digests that are due, and save the times of the next ones. After an outage, each
    subscription gets one digest. The caller holds the writer's transaction.
    """
    for row in due_digests(session, now_ms):
        terms = terms_of(row)
        content = digest_content(_figures(session, terms, now_ms))
        add_delivery(session, row.id, terms.receiver, content, now_ms, now_ms)
        row.digest_ms = terms.next_digest_ms(now_ms)


def _figures(session: Session, terms: Terms, now_ms: int) -> dict[str, Any]:
    """The figures of the last 24 hours for the rules that the terms select."""
    counts = _counts(session, now_ms)
    rules = _rules(session, sorted({rule_id for rule_id, _, _, _ in counts}))
    selected: dict[tuple[int, str], list[int]] = {}
    for rule_id, rank, count, unreviewed in counts:
        severity = _LEVELS.get(rank, AlertSeverity.OTHER).value
        owner = rules.get(rule_id, ("", ""))[1]
        if terms.selects(SubscribedEvent.DIGEST, rule_id, severity, owner):
            figures = selected.setdefault((rule_id, severity), [0, 0])
            figures[0] += count
            figures[1] += unreviewed
    listed = [
        {"ruleId": rule_id, "name": rules.get(rule_id, ("", ""))[0], "severity": severity, "count": figures[0]}
        for (rule_id, severity), figures in selected.items()
    ]
    open_approvals = select(func.count()).select_from(ApprovalRow).where(ApprovalRow.decision.is_(None))
    return {
        "since": now_ms - _DAY_MS,
        "until": now_ms,
        "alerts": sum(figures[0] for figures in selected.values()),
        "unreviewed": sum(figures[1] for figures in selected.values()),
        "openApprovals": session.scalar(open_approvals) or 0,
        "rules": sorted(listed, key=lambda each: -int(str(each["count"])))[:_AT_ONCE],
    }


def _counts(session: Session, now_ms: int) -> Sequence[tuple[int, int, int, int]]:
    """Rule, severity rank, live alerts, and those without a mark, of the last 24 hours."""
    unreviewed = func.count().filter(MarkRow.alert_id.is_(None))
    query = (
        select(AlertRow.rule_id, AlertRow.severity_rank, func.count(), unreviewed)
        .outerjoin(MarkRow, MarkRow.alert_id == AlertRow.alert_id)
        .where(AlertRow.append_ms >= now_ms - _DAY_MS, AlertRow.append_ms < now_ms, AlertRow.shadow.is_(False))
        .where(or_(AlertRow.correction.is_(None), AlertRow.correction != "RETRACTED"))
        .group_by(AlertRow.rule_id, AlertRow.severity_rank)
    )
    return [(each[0], each[1], each[2], each[3]) for each in session.execute(query)]


def _rules(session: Session, rule_ids: Sequence[int]) -> dict[int, tuple[str, str]]:
    """Name and owner of rules."""
    found: dict[int, tuple[str, str]] = {}
    for start in range(0, len(rule_ids), _AT_ONCE):
        wanted = RuleHead.rule_id.in_(rule_ids[start : start + _AT_ONCE])
        for rule_id, text in session.execute(select(RuleHead.rule_id, RuleHead.document).where(wanted)):
            document = document_of(text)
            found[rule_id] = str(document.get("name") or ""), str(document.get("owner") or "")
    return found
