"""Converts results of the service and events of the feed into schemas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median_low

from fraud_ops.control_plane.domain import views
from fraud_ops.control_plane.feed.events import ProgressPassed
from fraud_ops.control_plane.web.problems import reasons_shown
from fraud_ops.control_plane.web.schemas import admin, alerts, rules
from fraud_ops.control_plane.web.schemas.base import ProblemReason
from fraud_ops.control_plane.web.schemas.detector import ProgressPoint
from fraud_rules.logs.rule_status import RuleOperation

__all__ = [
    "activation_of",
    "approval_shown",
    "audit_shown",
    "binding_shown",
    "changes_shown",
    "import_shown",
    "mark_shown",
    "pending_activation",
    "point_of",
    "snooze_shown",
    "validation_shown",
]


def activation_of(operation: RuleOperation) -> rules.Activation:
    """Convert the detector's report about a record."""
    return rules.Activation(
        log_version=operation.rule_version,
        rule_id=operation.rule_id,
        status="REJECTED" if operation.rejected else "LIVE",
        reasons=[ProblemReason(field=reason.field, message=reason.message) for reason in operation.reasons],
        batch_id=operation.batch_id,
        time=operation.time,
    )


def pending_activation(version: int, rule_id: int | None) -> rules.Activation:
    """Build the activation of a record that the detector has not reported yet."""
    return rules.Activation(
        log_version=version, rule_id=rule_id, status="PENDING", reasons=[], batch_id=None, time=None
    )


def approval_shown(approval: views.ApprovalView) -> rules.Approval:
    """Convert a request for approval."""
    return rules.Approval(
        id=approval.id,
        rule_id=approval.rule_id,
        revision=approval.revision,
        action=approval.action,
        target=None if approval.target is None else rules.StateName(approval.target),
        author=approval.author,
        requested_by=approval.requested_by,
        requested_at=approval.requested_at_ms,
        comment=approval.comment,
        decision=None if approval.decision is None else rules.DecisionName(approval.decision.upper()),
        decided_by=approval.decided_by,
        decided_at=approval.decided_at_ms,
        decision_comment=approval.decision_comment,
        document=dict(approval.document),
    )


def validation_shown(judged: views.Judgement) -> rules.Validation:
    """Convert a validation."""
    return rules.Validation(
        valid=judged.valid,
        reasons=reasons_shown(judged.reasons),
        document=None if judged.document is None else dict(judged.document),
        yaml=judged.yaml,
        text=judged.text,
        says=judged.says,
        changes=changes_shown(judged.changes),
    )


def changes_shown(differences: Iterable[views.Difference]) -> list[rules.Change]:
    """Convert the members that differ."""
    return [rules.Change(field=each.field, before=each.before, after=each.after) for each in differences]


def import_shown(imported: views.Import) -> rules.ImportResult:
    """Convert the result of an import."""
    items = [
        rules.ImportItem(
            where=item.where, rule_id=item.rule_id, effect=item.effect.value, reasons=reasons_shown(item.reasons)
        )
        for item in imported.items
    ]
    return rules.ImportResult(items=items, applied=imported.applied)


def mark_shown(mark: views.MarkView) -> alerts.Mark:
    """Convert an alert mark."""
    return alerts.Mark(verdict=mark.verdict.value, who=mark.who, at=mark.at_ms)


def snooze_shown(snooze: views.SnoozeView) -> alerts.Snooze:
    """Convert a snooze."""
    return alerts.Snooze(
        id=snooze.id,
        rule_id=snooze.rule_id,
        key=None if snooze.key is None else dict(snooze.key),
        until=snooze.until_ms,
        who=snooze.who,
        reason=snooze.reason,
        at=snooze.at_ms,
    )


def binding_shown(binding: views.BindingView) -> admin.Binding:
    """Convert a role binding."""
    return admin.Binding(user=binding.user, role=binding.role, by=binding.by, at=binding.at_ms)


def audit_shown(row: views.AuditRow) -> admin.AuditRow:
    """Convert a row of the audit log."""
    return admin.AuditRow(
        seq=row.seq,
        at=row.at_ms,
        who=row.who,
        action=row.action,
        subject=row.subject,
        before=row.before,
        after=row.after,
        previous_hash=row.previous_hash,
        hash=row.hash,
    )


def point_of(batches: Sequence[ProgressPassed], before_ms: int | None = None) -> ProgressPoint:
    """Combine consecutive batches into one point. `before_ms` is the time of the batch before them, for the rate."""
    newest = batches[-1]
    timed = [batch.progress.previous for batch in batches if batch.progress.previous is not None]
    p50 = [each.p50_ms for each in timed if each.p50_ms is not None]
    p99 = [each.p99_ms for each in timed if each.p99_ms is not None]
    rows = sum(batch.progress.rows for batch in batches)
    begun_ms = batches[0].append_ms - (timed[0].batch_ms if timed else 1_000) if before_ms is None else before_ms
    lags = [batch.progress.lag for batch in batches if batch.progress.lag is not None]
    return ProgressPoint(
        time=newest.append_ms,
        rows_per_s=round(rows * 1_000 / max(1, newest.append_ms - begun_ms), 1),
        lag=max(lags, default=None),
        p50=median_low(p50) if p50 else None,
        p99=max(p99, default=None),
        batch_ms=median_low([each.batch_ms for each in timed]) if timed else None,
    )
