"""Schemas of the report about an entity. The members are those of `fraud_rules.batch.entity.report`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from fraud_control.domain.read_models import EpochMs
from fraud_control.web.schemas.base import ResponseModel
from fraud_control.web.schemas.decisions import PaymentDecision

__all__ = ["CounterpartyShown", "Entity", "EntityAggregateShown", "EntityPeriodShown", "OtherRuleShown"]


class EntityPeriodShown(ResponseModel):
    """The payments of one hour or one day (UTC). `amount` is exact."""

    at: EpochMs
    count: int
    amount: str | None


class CounterpartyShown(ResponseModel):
    """A value of another key field in the payments."""

    field: str
    value: int | str
    count: int
    amount: str | None
    last: EpochMs


class EntityAggregateShown(ResponseModel):
    """A rule's aggregate at the last payment of a key that the rule evaluated. Values are exact decimals as text."""

    rule_id: int
    rule_version: int
    state: str
    name: str
    says: str = Field(description="The rule in words.")
    key: dict[str, Any]
    value: str
    unit: str = Field(description="The unit of value, bound and baseline. Empty for counts.")
    window_count: int
    window_ms: int = Field(description="The length of the window; the greatest one of a calendar window.")
    window_calendar: str = Field(description="The calendar window in words. Empty for a window with a length.")
    window_over_ms: EpochMs = Field(description="The time from which windows no longer contain the payment.")
    window_complete: bool
    event_time: EpochMs
    transaction_id: int | str
    operator: str
    limit: str
    limit_is: Literal["VALUE", "FACTOR", "DEVIATIONS"] = Field(
        description="Whether the limit is a value, a factor of the baseline, "
        "or a number of standard deviations from it."
    )
    baseline: str | None
    bound: str | None = Field(
        description="The number with which the rule compares the value. Null if the key has too few payments before."
    )
    share: float | None = Field(description="The value as a share of the bound, for rules that fire above it.")
    outcome: Literal["alert", "suppressed", "signal", "none"]
    warm_up: bool


class OtherRuleShown(ResponseModel):
    """A rule whose key lacks the field, so that its aggregate needs the payments of others."""

    rule_id: int
    name: str
    fields: list[str]


class Entity(ResponseModel):
    """The payments of one value of a field, the rules' aggregates of them, the decisions, and the lists with it."""

    field: str
    value: int | str
    since: EpochMs
    reached: EpochMs = Field(description="Payments that were appended before this time are missing.")
    notes: list[str] = Field(description="The reasons why payments are missing.")
    count: int
    amount_field: str | None
    period_ms: int
    periods: list[EntityPeriodShown]
    payments: list[dict[str, Any]] = Field(description="The newest 200, newest first.")
    counterparties: list[CounterpartyShown]
    aggregates: list[EntityAggregateShown]
    other_rules: list[OtherRuleShown]
    decisions: list[PaymentDecision] = Field(description="The decisions in memory about the listed payments.")
    lists: list[str]
