"""The search of alerts: its filters, its sort order, and their names in the API and in the address of the page."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pydantic import Field

from fraud_control.domain.read_models import EpochMs, ReadModel

PREFIX_CHARS: Final = 3
"""A text with fewer characters matches whole values only."""


class ReviewVerdict(StrEnum):
    """The review of an alert: its mark, or none."""

    UNREVIEWED = "UNREVIEWED"
    FRAUD = "FRAUD"
    NOT_FRAUD = "NOT_FRAUD"


class AlertSeverity(StrEnum):
    """The severity of an alert's rule. `other` stands for an unknown severity, and for none."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    OTHER = "other"


class AlertSort(StrEnum):
    """The order of a list of alerts. `amount` and `severity` begin with the highest, and then with the newest."""

    NEWEST = "newest"
    OLDEST = "oldest"
    AMOUNT = "amount"
    SEVERITY = "severity"


@dataclass(frozen=True, slots=True)
class AlertSearch:
    """The filters of a search; None and empty values select every alert.

    `since_ms` (inclusive) and `until_ms` (exclusive) bound the append time.
    `min_amount` and `max_amount` are inclusive; they and the sort by amount leave out alerts without an amount. `text`
    is the beginning of a value of the key, or of an id or a text of the payment. `entity` is a member of the key.
    `alert_id` selects one alert.
    `shadow`, `corrections` and `snoozed` select as `AlertFilter` does.
    """

    rule_id: int | None = None
    text: str = ""
    since_ms: int | None = None
    until_ms: int | None = None
    severities: frozenset[AlertSeverity] = frozenset()
    min_amount: float | None = None
    max_amount: float | None = None
    verdict: ReviewVerdict | None = None
    entity: tuple[str, str] | None = None
    case_id: int | None = None
    alert_id: str | None = None
    shadow: bool | None = None
    corrections: bool | None = None
    snoozed: bool = False
    sort: AlertSort = AlertSort.NEWEST

    def described(self) -> dict[str, object]:
        """The filters that are set, as plain values, for the audit log."""
        values: dict[str, object] = {
            "ruleId": self.rule_id,
            "text": self.text,
            "since": self.since_ms,
            "until": self.until_ms,
            "severities": sorted(self.severities),
            "minAmount": self.min_amount,
            "maxAmount": self.max_amount,
            "verdict": self.verdict,
            "entity": None if self.entity is None else dict(zip(("field", "value"), self.entity, strict=True)),
            "caseId": self.case_id,
            "alertId": self.alert_id,
            "shadow": self.shadow,
            "corrections": self.corrections,
            "snoozed": self.snoozed or None,
        }
        return {name: value for name, value in values.items() if value not in (None, "", [])}

    @property
    def is_selective(self) -> bool:
        """Whether a filter selects few alerts: those of a value, of a case or of a person's mark."""
        is_marked = self.verdict in (ReviewVerdict.FRAUD, ReviewVerdict.NOT_FRAUD)
        return (
            bool(self.text) or is_marked or any(each is not None for each in (self.entity, self.case_id, self.alert_id))
        )

    @property
    def needs_index(self) -> bool:
        """Whether only the alert index can answer the search: it has more than the filters of the live list."""
        others = self.verdict, self.entity, self.case_id, self.alert_id
        bounds = self.since_ms, self.until_ms, self.min_amount, self.max_amount
        return bool(
            self.text
            or self.severities
            or any(each is not None for each in (*bounds, *others))
            or self.sort is not AlertSort.NEWEST
        )


class SavedSearch(ReadModel):
    """A search that a user saved."""

    name: str
    query: str = Field(description="The query string of the page's address, without the question mark.")
    at_ms: EpochMs = Field(serialization_alias="savedAt")
