"""The daily digest: the alerts of 24 hours by rule, the unreviewed ones, and the open requests for approval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from fraud_control.domain.alert_search import AlertSeverity
from fraud_control.domain.canonical import document_of
from fraud_control.domain.item import RULE
from fraud_control.domain.notification_models import SubscribedEvent, Terms
from fraud_control.service.alerts.index import severity_rank
from fraud_control.service.ids import batches
from fraud_control.service.notifications.messages import Content, digest_content
from fraud_control.service.notifications.outbox import add_delivery
from fraud_control.service.notifications.terms import terms_of
from fraud_control.store.alert_models import IN_EFFECT, AlertRow, MarkRow
from fraud_control.store.models import ApprovalRow, ItemHead
from fraud_control.store.notification_models import SubscriptionRow
from fraud_rules.model.day import DAY_MS

_MOST_RULES: Final = 400
_LEVELS: Final = {severity_rank(each): each for each in AlertSeverity if each is not AlertSeverity.OTHER}


@dataclass(frozen=True, slots=True)
class Digest:
    """The digest of a subscription."""

    subscription_id: int
    content: Content


def due_digests(session: Session, now_ms: int) -> Sequence[SubscriptionRow]:
    """The subscriptions whose digest is due."""
    return session.scalars(select(SubscriptionRow).where(SubscriptionRow.digest_ms <= now_ms)).all()


def read_digests(session: Session, now_ms: int) -> Sequence[Digest]:
    """Read the digests that are due, before the writer's transaction: the count of a day's alerts takes seconds. The
    alerts are counted once for all subscriptions.
    """
    due = due_digests(session, now_ms)
    counts = _counts(session, now_ms) if due else ()
    rules = _rules(session, sorted({rule_id for rule_id, _, _, _ in counts}))
    return [Digest(row.id, digest_content(_figures(session, terms_of(row), counts, rules, now_ms))) for row in due]


def add_digests(session: Session, digests: Sequence[Digest], now_ms: int) -> None:
    """Add the deliveries of digests that are still due, and save the times of the next ones. After an outage, each
    subscription gets one digest. The caller holds the writer's transaction.
    """
    for digest in digests:
        row = session.get(SubscriptionRow, digest.subscription_id)
        if row is not None and row.digest_ms is not None and row.digest_ms <= now_ms:
            terms = terms_of(row)
            add_delivery(session, row.id, terms.receiver, digest.content, now_ms, now_ms)
            row.digest_ms = terms.next_digest_ms(now_ms)


def _figures(
    session: Session,
    terms: Terms,
    counts: Sequence[tuple[int, int, int, int]],
    rules: Mapping[int, tuple[str, str]],
    now_ms: int,
) -> dict[str, Any]:
    """The figures of the last 24 hours for the rules that the terms select."""
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
        "since": now_ms - DAY_MS,
        "until": now_ms,
        "alerts": sum(figures[0] for figures in selected.values()),
        "unreviewed": sum(figures[1] for figures in selected.values()),
        "openApprovals": session.scalar(open_approvals) or 0,
        "rules": sorted(listed, key=lambda each: -int(str(each["count"])))[:_MOST_RULES],
    }


def _counts(session: Session, now_ms: int) -> Sequence[tuple[int, int, int, int]]:
    """Rule, severity rank, live alerts, and those without a mark, of the last 24 hours."""
    unreviewed = func.count().filter(MarkRow.alert_id.is_(None))
    query = (
        select(AlertRow.rule_id, AlertRow.severity_rank, func.count(), unreviewed)
        .outerjoin(MarkRow, MarkRow.alert_id == AlertRow.alert_id)
        .where(AlertRow.append_ms >= now_ms - DAY_MS, AlertRow.append_ms < now_ms, AlertRow.shadow.is_(False))
        .where(IN_EFFECT)
        .group_by(AlertRow.rule_id, AlertRow.severity_rank)
    )
    return [(each[0], each[1], each[2], each[3]) for each in session.execute(query)]


def _rules(session: Session, rule_ids: Sequence[int]) -> dict[int, tuple[str, str]]:
    """Name and owner of rules."""
    found: dict[int, tuple[str, str]] = {}
    for some in batches(rule_ids):
        wanted = ItemHead.kind == RULE, ItemHead.number.in_(some)
        for key, text in session.execute(select(ItemHead.item_key, ItemHead.document).where(*wanted)):
            document = document_of(text)
            found[int(key)] = str(document.get("name") or ""), str(document.get("owner") or "")
    return found
