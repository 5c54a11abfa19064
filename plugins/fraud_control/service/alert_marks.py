"""Alert marks and snoozes in the store."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from fraud_control.domain.canonical import canonical, document_of
from fraud_control.domain.errors import Invalid, NotFound, RequestRefused
from fraud_control.domain.item import ItemName
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.masking import Masking
from fraud_control.domain.read_models import Document, Mark, MarkVerdict, Snooze
from fraud_control.domain.roles import Actor, Permission, require
from fraud_control.service.audit import AuditRecord
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.ids import batches, storable_id
from fraud_control.service.items.heads import rule_head
from fraud_control.service.notifications.announcements import notify_snooze
from fraud_control.store.alert_models import MarkRow, SnoozeRow
from fraud_rules.errors import Reason
from fraud_rules.model.day import DAY_MS

_ALERT_ID: Final = re.compile(r"[0-9A-Za-z-]{1,64}", re.ASCII)
_MAX_KEY_BYTES: Final = 4_096
_MAX_IDS: Final = 10_000
_MAX_VERSION: Final = 2**63 - 1


def mark(work: UnitOfWork, who: Actor, alert_id: str, rule_id: int, rule_version: int, verdict: MarkVerdict) -> Mark:
    """Mark an alert as fraud or not fraud; the newest mark counts. Raises RequestRefused, Invalid."""
    require(who, Permission.MARK)
    _check_alert_id(alert_id)
    if not (0 <= rule_id <= _MAX_VERSION and 0 <= rule_version <= _MAX_VERSION):
        raise Invalid([Reason("ruleId", "rule and version must be non-negative numbers below 2^63")])
    known = work.session.get(MarkRow, alert_id)
    before = None if known is None else {"verdict": known.verdict, "who": known.who}
    if known is None:
        known = MarkRow(alert_id=alert_id, rule_id=rule_id, rule_version=rule_version)
        work.session.add(known)
    known.rule_id, known.rule_version = rule_id, rule_version
    known.verdict, known.who, known.at_ms = verdict, who.user, work.now_ms
    record = AuditRecord(
        who.user, "alert.mark", f"alert {alert_id}", before, {"verdict": verdict}, ItemName.of_rule(rule_id)
    )
    work.append_audit(record)
    return Mark.model_validate(known)


def unmark(work: UnitOfWork, who: Actor, alert_id: str) -> None:
    """Remove an alert mark. Raises NotFound, RequestRefused, Invalid."""
    require(who, Permission.MARK)
    _check_alert_id(alert_id)
    known = work.session.get(MarkRow, alert_id)
    if known is None:
        raise NotFound(f"alert {alert_id} has no mark")
    before = {"verdict": known.verdict, "who": known.who}
    work.session.delete(known)
    record = AuditRecord(who.user, "alert.unmark", f"alert {alert_id}", before, None, ItemName.of_rule(known.rule_id))
    work.append_audit(record)


def marks(session: Session, alert_ids: Iterable[str]) -> Mapping[str, Mark]:
    """Read the marks of alerts. Raises Invalid for more than 10,000."""
    wanted = list(alert_ids)
    if len(wanted) > _MAX_IDS:
        raise Invalid([Reason("alertIds", f"has {len(wanted)} ids; at most {_MAX_IDS} are allowed")])
    found: dict[str, Mark] = {}
    for ids in batches(wanted):
        rows = session.scalars(select(MarkRow).where(MarkRow.alert_id.in_(ids)))
        found |= {row.alert_id: Mark.model_validate(row) for row in rows}
    return found


def snooze(work: UnitOfWork, who: Actor, rule_id: int, key: Document | None, until_ms: int, reason: str) -> Snooze:
    """Save a snooze, or change the snooze that the rule and key have. Raises NotFound, RequestRefused, Invalid.

    A snooze of an ACTIVE rule takes effect at once, and is announced to the receivers of requests for approval.
    """
    require(who, Permission.SNOOZE)
    head, text = rule_head(work.session, rule_id), _key_text(key)
    if head.state == StateName.DELETE.value:
        raise RequestRefused(f"rule {rule_id} is deleted")
    checked_ms = _checked_until(work, until_ms)
    same_key = SnoozeRow.key.is_(None) if text is None else SnoozeRow.key == text
    running = select(SnoozeRow).where(SnoozeRow.rule_id == rule_id, SnoozeRow.until_ms > work.now_ms, same_key)
    row = work.session.scalar(running.order_by(SnoozeRow.id.desc()).limit(1))
    before = None if row is None else _snooze_facts(row)
    if row is None:
        row = SnoozeRow(rule_id=rule_id, key=text, at_ms=work.now_ms)
        work.session.add(row)
    row.until_ms, row.who, row.reason = checked_ms, who.user, reason
    work.session.flush()
    if before != _snooze_facts(row):
        record = AuditRecord(who.user, "snooze", str(head), before, _snooze_facts(row), head.item)
        work.append_audit(record)
        if head.state == StateName.ACTIVE.value:
            notify_snooze(work.session, head, row, Masking(work.reader.schema).document, work.now_ms)
    return Snooze.model_validate(row)


def unsnooze(work: UnitOfWork, who: Actor, snooze_id: int) -> None:
    """End a snooze. Raises NotFound, RequestRefused."""
    require(who, Permission.SNOOZE)
    row = work.session.get(SnoozeRow, storable_id(snooze_id))
    if row is None or row.until_ms <= work.now_ms:
        raise NotFound(f"snooze {snooze_id} does not exist or has ended")
    before = _snooze_facts(row)
    row.until_ms = work.now_ms
    item = ItemName.of_rule(row.rule_id)
    record = AuditRecord(who.user, "unsnooze", str(item), before, _snooze_facts(row), item)
    work.append_audit(record)


def snoozes(session: Session, now_ms: int) -> tuple[Snooze, ...]:
    """List the snoozes that have not expired."""
    rows = session.scalars(select(SnoozeRow).where(SnoozeRow.until_ms > now_ms).order_by(SnoozeRow.id).limit(_MAX_IDS))
    return tuple(map(Snooze.model_validate, rows))


def _check_alert_id(alert_id: str) -> None:
    if not _ALERT_ID.fullmatch(alert_id):
        raise Invalid([Reason("alertId", "is not an alert id")])


def _checked_until(work: UnitOfWork, until_ms: int) -> int:
    latest = work.now_ms + work.settings.bounds.snooze_days * DAY_MS
    if not work.now_ms < until_ms <= latest:
        raise Invalid(
            [Reason("until", f"must be in the future, at most {work.settings.bounds.snooze_days} days ahead")]
        )
    return until_ms


def _key_text(key: Document | None) -> str | None:
    if key is None:
        return None
    try:
        text = canonical(dict(key))
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid([Reason("key", "holds a value that JSON cannot express")]) from error
    if not key or len(text) > _MAX_KEY_BYTES:
        raise Invalid(
            [Reason("key", f"must have members, in at most {_MAX_KEY_BYTES} bytes; omit it to snooze all keys")]
        )
    return text.decode()


def _snooze_facts(row: SnoozeRow) -> dict[str, object]:
    key = None if row.key is None else document_of(row.key)
    return {"id": row.id, "key": key, "untilMs": row.until_ms, "reason": row.reason}
