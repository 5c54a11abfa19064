"""The search of alerts: its filters, its sort order, and their names in the API and in the address of the page."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final

from pydantic import Field
from pydantic.alias_generators import to_camel

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
class ReviewSearch:
    """The filters that alerts and cases have in common; None and empty values select all.

    `text` is the beginning of a value, and `entity` a field and its value. `since_ms` (inclusive) and `until_ms`
    (exclusive) bound append times. `alert_id` selects one alert, or its case.
    """

    rule_id: int | None = None
    text: str = ""
    since_ms: int | None = None
    until_ms: int | None = None
    severities: frozenset[AlertSeverity] = frozenset()
    entity: tuple[str, str] | None = None
    alert_id: str | None = None

    def described(self) -> dict[str, object]:
        """The filters that are set, as plain values, for the audit log."""
        values = [(each, getattr(self, each.name)) for each in fields(self) if each.name != "sort"]
        return {
            to_camel(each.name.removesuffix("_ms")): _plain(value) for each, value in values if value != each.default
        }


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return dict(zip(("field", "value"), value, strict=True))
    return sorted(value) if isinstance(value, frozenset) else value


@dataclass(frozen=True, slots=True)
class AlertSearch(ReviewSearch):
    """The filters of a search of alerts.

    `min_amount` and `max_amount` are inclusive; they and the sort by amount leave out alerts without an amount. `text`
    is the beginning of a value of the key, or of an id or a text of the payment. `entity` is a member of the key.
    `shadow` selects only shadow alerts (true) or only others (false), and `corrections` does the same with corrected
    alerts. `snoozed` includes the alerts of snoozed rules and keys.
    """

    min_amount: float | None = None
    max_amount: float | None = None
    verdict: ReviewVerdict | None = None
    case_id: int | None = None
    shadow: bool | None = None
    corrections: bool | None = None
    snoozed: bool = False
    sort: AlertSort = AlertSort.NEWEST

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
