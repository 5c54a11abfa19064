"""Schemas of decisions."""

from __future__ import annotations

from fraud_control.domain.read_models import EpochMs
from fraud_control.feed.decisions import OutcomeName
from fraud_control.web.schemas.base import ResponseModel

__all__ = ["CorrectedDecision", "DecisionAlert", "Decisions", "PaymentDecision"]


class DecisionAlert(ResponseModel):
    """An alert that counts in a decision."""

    rule_id: int
    rule_version: int
    alert_id: str
    weight: int


class CorrectedDecision(ResponseModel):
    """The score and outcome of a transaction with all corrections of a re-evaluation."""

    score: int
    outcome: OutcomeName


class PaymentDecision(ResponseModel):
    """The decision about one transaction. The id is text, because it may exceed the numbers of a browser."""

    transaction_id: str
    score: int
    outcome: OutcomeName
    alerts: list[DecisionAlert]
    event_time: EpochMs
    append_time: EpochMs
    corrected: CorrectedDecision | None


class Decisions(ResponseModel):
    """A page of decisions, newest first. `next` is the `before` of the next page."""

    items: list[PaymentDecision]
    next: int | None
