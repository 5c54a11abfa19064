"""Schemas of the search over everything."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from fraud_control.domain.case_models import Case
from fraud_control.domain.read_models import EpochMs, RuleUse
from fraud_control.web.schemas.base import ResponseModel
from fraud_control.web.schemas.decisions import PaymentDecision

__all__ = ["FoundAlertShown", "FoundIdShown", "SearchFound"]


class FoundAlertShown(ResponseModel):
    """An alert with the text as its id, or as a value of its key or payment."""

    alert_id: str
    rule_id: int
    key: dict[str, Any]
    time: EpochMs
    shadow: bool


class FoundIdShown(ResponseModel):
    """A field that can hold the text as an id. Its payments are at `/entity`, also without alerts."""

    field: str
    has_alerts: bool


class SearchFound(ResponseModel):
    """The first few findings of each kind."""

    rules: list[RuleUse]
    cases: list[Case]
    alerts: list[FoundAlertShown] = Field(description="Newest first.")
    ids: list[FoundIdShown] = Field(description="Those with alerts first.")
    decisions: list[PaymentDecision] = Field(description="The decisions in memory about the payment with this id.")
