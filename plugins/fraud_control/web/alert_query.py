"""The query parameters of a search of alerts or cases. The page's address has the same names."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from fraud_control.domain.alert_search import AlertSearch, AlertSeverity, AlertSort, ReviewVerdict
from fraud_control.feed.place import Position
from fraud_control.web.problems import WebError
from fraud_control.web.schemas.base import MAX_ID
from fraud_control.web.stream import parse_position

_TIME: Final = r"^([0-9]{1,15}|[0-9]{1,5}[mhd])$"
_UNITS_MS: Final = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}

Time = Annotated[
    str | None, Field(pattern=_TIME, description="Epoch ms, or an age such as 30m, 24h or 7d.", examples=["24h"])
]
Amount = Annotated[float | None, Field(ge=-1e18, le=1e18, allow_inf_nan=False)]


class ReviewQuery(BaseModel):
    """The filters that alerts and cases have in common. `since` is inclusive, `until` exclusive."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)

    rule_id: Annotated[int | None, Field(ge=1, le=MAX_ID)] = None
    text: Annotated[
        str,
        Field(
            max_length=200,
            description="The beginning of the value of a case, or of a value of an alert: of the key, or of an id or a "
            "text of the payment. For alerts, fewer than 3 characters match a whole value.",
        ),
    ] = ""
    since: Time = None
    until: Time = None
    severity: Annotated[frozenset[AlertSeverity], Field(max_length=5)] = frozenset()
    entity: Annotated[
        str | None, Field(max_length=400, description="The entity of a case, or a member of the key: FIELD:VALUE.")
    ] = None
    alert_id: Annotated[str | None, Field(pattern=r"^[0-9a-fA-F-]{36}$", description="One alert, or its case.")] = None

    def common(self, now_ms: int) -> dict[str, Any]:
        """The members of `ReviewSearch`. Ages count from `now_ms`. Raises WebError."""
        return {
            "rule_id": self.rule_id,
            "text": self.text.strip(),
            "since_ms": time_ms(self.since, now_ms),
            "until_ms": time_ms(self.until, now_ms),
            "severities": self.severity,
            "entity": entity_of(self.entity),
            "alert_id": None if self.alert_id is None else self.alert_id.lower(),
        }


class AlertQuery(ReviewQuery):
    """The filters of a search of alerts. Amounts are inclusive."""

    min_amount: Amount = None
    max_amount: Amount = None
    verdict: ReviewVerdict | None = None
    case_id: Annotated[int | None, Field(ge=1, le=2**31 - 1)] = None
    shadow: bool | None = None
    corrections: bool | None = None
    snoozed: bool = False
    sort: AlertSort = AlertSort.NEWEST

    def search(self, now_ms: int) -> AlertSearch:
        """Build the search. Ages count from `now_ms`. Raises WebError."""
        return AlertSearch(
            **self.common(now_ms),
            min_amount=self.min_amount,
            max_amount=self.max_amount,
            verdict=self.verdict,
            case_id=self.case_id,
            shadow=self.shadow,
            corrections=self.corrections,
            snoozed=self.snoozed,
            sort=self.sort,
        )


def time_ms(text: str | None, now_ms: int) -> int | None:
    """Parse a time: epoch ms, or an age that counts from `now_ms`."""
    if text is None or re.fullmatch(r"[0-9]+", text):
        return None if text is None else int(text)
    return max(0, now_ms - int(text[:-1]) * _UNITS_MS[text[-1]])


def entity_of(text: str | None) -> tuple[str, str] | None:
    """Parse FIELD:VALUE. Raises WebError."""
    if text is None:
        return None
    field, colon, value = text.partition(":")
    if not field or not colon or not value:
        raise WebError(422, "entity must be FIELD:VALUE, for example payeeId:42")
    return field, value


def position_of(text: str | None) -> Position | None:
    """Parse the position of an alert. Raises WebError."""
    place = None if text is None else parse_position(text)
    if text is not None and place is None:
        raise WebError(422, f"{text!a} is not the position of an alert")
    return place
