"""Converts reports and progress of the detector into schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median_low
from typing import Any

from fraud_control.domain.item import ItemName
from fraud_control.feed.events import FeedBatch
from fraud_control.service.rules.predictions import prediction_of
from fraud_control.web.problems import reasons_shown
from fraud_control.web.schemas import rules
from fraud_control.web.schemas.detector import ProgressPoint
from fraud_ops.paths import report_path
from fraud_rules.logs.rule_status import RuleOperation


def activation_of(operation: RuleOperation) -> rules.Activation:
    """Convert the detector's report about a record."""
    return rules.Activation(
        log_version=operation.rule_version,
        rule_id=operation.rule_id,
        list_name=operation.list_name,
        map_name=operation.map_name,
        status="REJECTED" if operation.rejected else "LIVE",
        reasons=reasons_shown(operation.reasons),
        batch_id=operation.batch_id,
        time=operation.time,
        warm_up=None if operation.warm_up is None else rules.WarmUp.model_validate(operation.warm_up),
    )


def pending_activation(version: int, item: ItemName) -> rules.Activation:
    """Build the activation of a record that the detector has not reported yet."""
    return rules.Activation(
        log_version=version,
        rule_id=item.rule_id,
        list_name=item.list_name,
        map_name=item.map_name,
        status="PENDING",
        reasons=[],
        batch_id=None,
        time=None,
        warm_up=None,
    )


def saved_what_if_of(name: str, result: Mapping[str, Any]) -> rules.SavedWhatIf:
    """Convert the result of a saved what-if. `name` is that of its report."""
    prediction = prediction_of(name, result)
    return rules.SavedWhatIf(
        at=result["evaluatedMs"],
        report=report_path("whatif", name),
        days=result["days"],
        transactions=result["transactions"],
        fires=result["fires"],
        alerts_per_day=result.get("alertsPerDay"),
        coverage=result.get("coverage"),
        expected=None if prediction is None else (prediction.low, prediction.high),
        suppressed=result["suppressed"],
        keys=result["keys"],
        labels=result.get("labels"),
    )


def point_of(batches: Sequence[FeedBatch], before_ms: int | None = None) -> ProgressPoint:
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
