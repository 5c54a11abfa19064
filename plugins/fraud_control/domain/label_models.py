"""Read models of labels, and of the quality of rules by labels."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fraud_control.domain.read_models import EpochMs, ReadModel


class LabelCounts(ReadModel):
    """The labels of one source: marks are counted by alert, the others by transaction. `origin` is the source that the
    lines of files and the records of the topic name, empty without one. `newest` is the time of the newest label, null
    without any.
    """

    source: Literal["mark", "file", "topic"]
    origin: str
    fraud: int
    not_fraud: int
    newest_ms: EpochMs | None = Field(serialization_alias="newest")


class LabelUpload(ReadModel):
    """The result of an upload. `skipped` counts the lines without a usable label, by reason."""

    fraud: int
    not_fraud: int
    skipped: dict[str, int]


class LabelledPayments(ReadModel):
    """Payments with alerts. `fraud` and `not_fraud` count those with a label or a mark, and `unlabelled` is the share
    of the others. `precision` is the share of frauds among the labelled ones, `recall` the share of all labelled frauds
    that are among them. `amount` sums all amounts, `fraud_amount` those of frauds; null if the payments have none.
    """

    payments: int
    fraud: int
    not_fraud: int
    unlabelled: float
    precision: float | None
    recall: float | None
    amount: str | None
    fraud_amount: str | None


class RuleQuality(LabelledPayments):
    """The payments for which a rule alerted, live or as a shadow. `alerts_per_day` is the rate of its live alerts in
    the last week; `false_alerts_per_day` is (notFraud + 1) / (fraud + notFraud + 2) of it.
    """

    rule_id: int
    alerts_per_day: float
    false_alerts_per_day: float


class CombinationQuality(LabelledPayments):
    """The payments for which exactly these rules alerted live."""

    rule_ids: list[int]


class LabelQuality(ReadModel):
    """The quality of the rules with alerts since a time, and of the combinations with the most payments. `frauds`
    counts the labelled frauds: those with an alert since then, and those without any alert that got the label since.
    """

    since_ms: EpochMs = Field(serialization_alias="since")
    frauds: int
    rules: list[RuleQuality]
    combinations: list[CombinationQuality]
