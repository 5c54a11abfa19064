"""Combines rules of the service with the detector's reports and alerts into schemas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fastapi import Response

from fraud_ops.control_plane.composition import Parts
from fraud_ops.control_plane.domain import views
from fraud_ops.control_plane.web.answer import answer
from fraud_ops.control_plane.web.convert import activation_of, approval_shown, pending_activation
from fraud_ops.control_plane.web.schemas import rules as shapes
from fraud_rules.runtime.clock import now_ms

__all__ = ["activation", "detail", "quality_of", "rows", "versions"]


def rows(parts: Parts, found: Iterable[views.RuleRow]) -> list[shapes.RuleRow]:
    """Convert rules for a list."""
    marks, at_ms = parts.marks(), now_ms()
    return [_row(parts, row, marks, at_ms) for row in found]


def detail(parts: Parts, found: views.RuleDetail, status: int = 200) -> Response:
    """Build the response with one rule and its ETag. The status is 202 if the change waits for approval."""
    shape = shapes.RuleDetail(
        **dict(_row(parts, found.row, parts.marks(), now_ms())),
        yaml=found.yaml,
        text=found.text,
        says=found.says,
        author=found.author,
        next_states=[shapes.StateName(state) for state in found.next_states],
    )
    return answer(shape, status, {"ETag": f'"{found.row.revision}"'})


def versions(parts: Parts, rule_id: int, found: Iterable[views.VersionView]) -> list[shapes.Version]:
    """Convert revisions."""
    return [
        shapes.Version(
            revision=each.revision,
            state=shapes.StateName(each.state),
            document=dict(each.document),
            author=each.author,
            at=each.at_ms,
            comment=each.comment,
            source=each.source,
            log_version=each.log_version,
            activation=activation(parts, each.log_version, rule_id),
        )
        for each in found
    ]


def activation(parts: Parts, log_version: int | None, rule_id: int) -> shapes.Activation | None:
    """Find the detector's report about a record; None for a change that is not in the rule log."""
    if log_version is None:
        return None
    operation = parts.memory.operation(log_version, rule_id)
    return pending_activation(log_version, rule_id) if operation is None else activation_of(operation)


def quality_of(alerts: int, marks: tuple[int, int]) -> shapes.Quality:
    """Compute the quality of a rule from its alert marks (fraud, not fraud)."""
    fraud, not_fraud = marks
    marked = fraud + not_fraud
    precision = round(fraud / marked, 4) if marked else None
    return shapes.Quality(alerts=alerts, fraud=fraud, not_fraud=not_fraud, precision=precision)


def _row(parts: Parts, row: views.RuleRow, marks: Mapping[int, tuple[int, int]], at_ms: int) -> shapes.RuleRow:
    hour = parts.memory.hour(row.rule_id, at_ms)
    return shapes.RuleRow(
        rule_id=row.rule_id,
        name=row.name,
        description=row.description,
        severity=row.severity,
        owner=row.owner,
        state=shapes.StateName(row.state),
        revision=row.revision,
        updated_at=row.updated_at_ms,
        updated_by=row.updated_by,
        source=row.source,
        document=dict(row.document),
        published=row.published,
        activation=activation(parts, row.log_version, row.rule_id),
        pending_approval=None if row.pending is None else approval_shown(row.pending),
        alerts_last_hour=hour,
        quality=quality_of(sum(hour), marks.get(row.rule_id, (0, 0))),
    )
