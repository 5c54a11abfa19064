"""Schemas of decisions."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from fraud_control.domain.read_models import EpochMs
from fraud_control.feed.decisions import CorrectedScore, DecidedAlert, OutcomeName
from fraud_control.web.schemas.base import Paged, ResponseModel
from fraud_control.web.schemas.derived import Derived


class PaymentDecision(ResponseModel):
    """The decision about one transaction. The id is text, because it may exceed the numbers of a browser."""

    transaction_id: str
    score: int
    outcome: OutcomeName
    alerts: list[Annotated[DecidedAlert, Derived()]]
    event_time: EpochMs
    append_time: EpochMs
    corrected: Annotated[CorrectedScore, Derived()] | None


Decisions: TypeAlias = Paged[PaymentDecision, int]
