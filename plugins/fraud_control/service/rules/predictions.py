"""Predictions of requests for approval: the what-if of a requested rule predicts the alerts of a day."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec
from sqlalchemy import select
from sqlalchemy.orm import Session

from fraud_control.domain.item import RULE
from fraud_control.domain.prediction import Prediction, predicted
from fraud_control.service.reading.approval_figures import EVALUATED, requested_rule
from fraud_control.store.models import ApprovalRow
from fraud_rules.model.day import DAY_MS

APPROVED: Final = "approved"

_MOST_AT_ONCE: Final = 20


class _Coverage(msgspec.Struct, rename="camel"):
    whole: list[str]
    covered_ms: int = 0


class _Past(msgspec.Struct):
    """The members of a what-if's result that predict: its days, the alerts by hour, those of other limits, and the days
    that are covered."""

    days: list[str]
    hours: list[int]
    coverage: _Coverage
    limits: list[tuple[int | Decimal, int]] = []


def prediction_of(report: str, result: Mapping[str, Any]) -> Prediction | None:
    """The prediction of a saved what-if, given as its JSON; None if it has fewer than three whole days."""
    try:
        past = msgspec.convert(result, _Past)
    except msgspec.ValidationError:
        return None  # a report of an earlier release, or of another program
    by_day = [(day, sum(past.hours[24 * i : 24 * i + 24])) for i, day in enumerate(past.days)]
    covered_ms = max(past.coverage.covered_ms, DAY_MS)
    limits = [(format(Decimal(limit), "f"), fires * DAY_MS / covered_ms) for limit, fires in past.limits]
    return predicted(report, [count for day, count in by_day if day in past.coverage.whole], limits)


def unpredicted(session: Session, now_ms: int) -> list[tuple[int, dict[str, Any]]]:
    """The newest requests that have no prediction, with the requested rule without its state: those that are open, or
    were approved in the last day. The detector evaluates the rule after their approval."""
    query = (
        select(ApprovalRow)
        .where(
            ApprovalRow.kind == RULE,
            ApprovalRow.prediction.is_(None),
            ApprovalRow.decision.is_(None)
            | ((ApprovalRow.decision == APPROVED) & (ApprovalRow.decided_at_ms > now_ms - DAY_MS)),
        )
        .order_by(ApprovalRow.id.desc())
        .limit(_MOST_AT_ONCE)
    )
    return [(row.id, requested_rule(row)) for row in session.scalars(query) if row.target in EVALUATED]


def save_prediction(session: Session, approval_id: int, prediction: Prediction) -> None:
    """Save the prediction of a request. The caller holds the writer's transaction."""
    row = session.get(ApprovalRow, approval_id)
    if row is not None:
        row.prediction = msgspec.json.encode(prediction).decode()


def read_prediction(row: ApprovalRow | None) -> Prediction | None:
    """The saved prediction of a request."""
    return None if row is None or row.prediction is None else msgspec.json.decode(row.prediction, type=Prediction)
