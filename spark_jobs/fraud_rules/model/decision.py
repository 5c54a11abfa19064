"""Decisions: the one answer to a transaction, from the weights of the rules that fired for it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MAX_WEIGHT: Final = 1_000
DEFAULT_WEIGHT: Final = 25
"""The weight of a rule without `weight` and without one of the known severities."""

SEVERITY_WEIGHTS: Final[Mapping[str, int]] = {"low": 10, "medium": 25, "high": 50, "critical": 100}
"""The weight of a rule without `weight`, by severity in lower case."""


class DecisionOutcome(StrEnum):
    """The outcome of a decision. A payment with `DECLINE` or `REVIEW` is held; `NOTE` holds nothing."""

    DECLINE = "DECLINE"
    REVIEW = "REVIEW"
    NOTE = "NOTE"


@dataclass(frozen=True, slots=True)
class DecisionThresholds:
    """The lowest scores of `DECLINE` and of `REVIEW`. `review` is at most `decline`."""

    decline: int
    review: int

    def outcome(self, score: int) -> DecisionOutcome:
        """The outcome of a score."""
        if score >= self.decline:
            return DecisionOutcome.DECLINE
        return DecisionOutcome.REVIEW if score >= self.review else DecisionOutcome.NOTE


def weight_of(weight: int | None, severity: object) -> int:
    """The weight of a rule: its member `weight`, else the default of its severity, which ignores case."""
    if weight is not None:
        return weight
    return SEVERITY_WEIGHTS.get(severity.lower(), DEFAULT_WEIGHT) if isinstance(severity, str) else DEFAULT_WEIGHT


def score_of(weights: Mapping[int, int]) -> int:
    """The score of a transaction from the weights of the rules that fired for it, by rule id: each rule counts once."""
    return sum(weights.values())
