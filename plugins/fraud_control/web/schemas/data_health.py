"""Schemas of the page *Data*."""

from __future__ import annotations

from pydantic import Field

from fraud_control.domain.read_models import EpochMs
from fraud_control.web.schemas.base import ResponseModel

__all__ = [
    "DataFaultShown", "DataHealthShown", "FieldNulls", "FieldText", "GroupingFigures", "HourOfData", "QuarantineReason",
    "RuleHealth",
]  # fmt: skip


class HourOfData(ResponseModel):
    """The records of the hour that begins at `time`: `rows` transactions, of which `late` are late, and the unreadable
    `quarantined`. `uncountedBatches` counts batches whose records are missing here, because the detector was killed."""

    time: EpochMs
    rows: int
    late: int
    quarantined: int
    duplicates: int
    conflicting_duplicates: int
    null_keys: int
    uncounted_batches: int


class FieldNulls(ResponseModel):
    """The payments of the last 24 hours without a value of a field, with their share there and in the hours before."""

    name: str
    nulls: int
    share: float | None
    share_before: float | None


class QuarantineReason(ResponseModel):
    """The quarantined records of a reason in the last 24 hours, and in the hours before. `detail` is that of the newest
    one."""

    reason: str
    count: int
    count_before: int
    since: EpochMs
    detail: str


class GroupingFigures(ResponseModel):
    """The late payments of a grouping in the last 24 hours, and in the hours before, and its keys in state."""

    grouping: str
    late: int
    late_before: int
    keys: int | None


class FieldText(ResponseModel):
    """A text of a field that the last 24 hours have, but the hours before have not."""

    name: str
    text: str
    count: int
    since: EpochMs


class DataFaultShown(ResponseModel):
    """A verdict about a field (`name`) or a rule, the first hour in which it held, and the path of its runbook."""

    verdict: str
    reason: str
    since: EpochMs
    name: str | None
    rule_id: int | None
    runbook: str


class RuleHealth(ResponseModel):
    """A rule in the hours from `since` on, at most eight days. `rows` counts all payments, `passed` those of the rule's
    grouping that its filter let through, and `held` those at which its `when` held, or its filter without a `when`.
    `keys` are the keys of its grouping in state. `since` is null if no hour has the rule."""

    since: EpochMs | None
    rows: int
    passed: int
    held: int
    alerts: int
    last_alert: EpochMs | None
    keys: int
    faults: list[DataFaultShown]


class DataHealthShown(ResponseModel):
    """The health of the payments in the last 24 hours, and in the hours before, back to `since`, at most eight days.

    `since` and `until` are null before the first batch.
    """

    recorded: bool = Field(description="False if the topic of the health does not exist.")
    at: EpochMs
    since: EpochMs | None
    until: EpochMs | None
    hours: list[HourOfData]
    fields: list[FieldNulls]
    reasons: list[QuarantineReason]
    groupings: list[GroupingFigures]
    new_texts: list[FieldText]
    faults: list[DataFaultShown]
