"""The scores of a day's transactions from the alerts that are in effect after a run's corrections. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fraud_rules.batch.reevaluation.published import AlertView
from fraud_rules.model.decision import DecisionThresholds, score_of


def scores_of(alerts: Iterable[AlertView]) -> dict[int | str, int]:
    """The score of each transaction with alerts, by id. `alerts` are the live alerts in effect; each rule counts once.

    The alerts of all deliveries of an id count together, because alerts of two deliveries can have the same alert id.
    """
    weights: dict[int | str, dict[int, int]] = {}
    for alert in alerts:
        weights.setdefault(alert.transaction_id, {})[alert.rule_id] = alert.weight
    return {transaction_id: score_of(by_rule) for transaction_id, by_rule in weights.items()}


@dataclass(frozen=True, slots=True)
class DayScores:
    """The scores of the transactions with alerts, and the thresholds of the outcomes."""

    scores: Mapping[int | str, int]
    thresholds: DecisionThresholds

    def score_of(self, alert: AlertView) -> int:
        """The score of the alert's transaction, 0 without an alert in effect."""
        return self.scores.get(alert.transaction_id, 0)
