"""Schemas of the search over everything."""

from __future__ import annotations

from pydantic import Field

from fraud_control.service.search import SearchFindings
from fraud_control.web.schemas.decisions import PaymentDecision


class SearchFound(SearchFindings):
    """The first few findings of each kind."""

    decisions: list[PaymentDecision] = Field(description="The decisions in memory about the payment with this id.")
