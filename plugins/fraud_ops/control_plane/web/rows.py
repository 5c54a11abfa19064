"""Combines rules of the service with the detector's reports and alerts into schemas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fastapi import Response

from fraud_ops.control_plane.composition import Parts
from fraud_ops.control_plane.domain import views
from fraud_ops.control_plane.web.answer import answer
from fraud_ops.control_plane.web.convert import activation_of, pending_activation
from fraud_ops.control_plane.web.schemas import rules as shapes
from fraud_rules.runtime.clock import now_ms

__all__ = ["activation", "detail", "quality_of", "revisions", "rows"]


def rows(parts: Parts, found: Iterable[views.StoredRule]) -> list[shapes.RuleRow]:
    """Convert rules for a list."""
    marks, at_ms = parts.marks(), now_ms()
    return [_row(parts, row, marks, at_ms) for row in found]


def detail(parts: Parts, found: views.RuleWithForms, status: int = 200) -> Response:
    """Build the response with one rule and its ETag. The status is 202 if the change waits for approval."""
    shape = shapes.RuleDetail(
        **dict(_row(parts, found.row, parts.marks(), now_ms())),
        yaml=found.yaml,
        text=found.text,
        says=found.says,
        author=found.author,
        next_states=list(found.next_states),
    )
    return answer(shape, status, {"ETag": f'"{found.row.revision}"'})


def revisions(parts: Parts, rule_id: int, found: Iterable[views.Revision]) -> list[shapes.Version]:
    """Add activations to revisions."""
    return [shapes.Version(**dict(each), activation=activation(parts, each.log_version, rule_id)) for each in found]


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


def _row(parts: Parts, row: views.StoredRule, marks: Mapping[int, tuple[int, int]], at_ms: int) -> shapes.RuleRow:
    hour = parts.memory.hour(row.rule_id, at_ms)
    return shapes.RuleRow(
        **dict(row),
        activation=activation(parts, row.log_version, row.rule_id),
        pending_approval=row.pending,
        alerts_last_hour=hour,
        quality=quality_of(sum(hour), marks.get(row.rule_id, (0, 0))),
    )
