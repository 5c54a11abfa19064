"""Bounds on rules and on transaction records, so that the rejection of a hostile or mistaken one is cheap."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final


def constant(value: int) -> Any:
    """Declare a bound that no settings file and no variable sets. Only tests have another one."""
    return field(default=value, metadata={"constant": True})


_CALENDAR: Final = {"pattern": re.compile("DAY|WEEK|MONTH"), "what": "DAY, WEEK or MONTH"}


@dataclass(frozen=True, slots=True)
class RuleLimits:
    """Bounds on one rule record and its filter, and on lists and maps, all inclusive.

    A rule with a long window keeps single rows for `detail_minutes`, which is no bound, but also affects the results.
    Depth counts nested parentheses. Tokens are the words, literals and signs of a filter; their number bounds the time
    to parse it. The digits of a limit are those of the number without an exponent. `max_list_record_bytes` bounds
    records of lists and maps, `max_list_value_chars` a text in them, `max_map_bytes` the entries of all maps.
    """

    max_window_minutes: int = 43_200
    max_long_window_minutes: int = 576_000
    max_steps: int = 10_000
    detail_minutes: int = field(default=1_440, metadata={"low": 0})
    max_calendar_window: str = field(default="MONTH", metadata=_CALENDAR)
    max_cooldown_seconds: int = 31_622_400
    max_conditions: int = 8
    max_record_bytes: int = constant(32_768)
    max_members: int = constant(64)
    max_nesting: int = constant(4)
    max_limit_digits: int = constant(38)
    max_fields: int = constant(16)
    max_text_chars: int = constant(2_000)
    max_filter_chars: int = constant(8_000)
    max_filter_depth: int = constant(32)
    max_filter_tokens: int = constant(400)
    max_list_record_bytes: int = constant(1_048_576)
    max_list_values: int = 1_000_000
    max_lists: int = 100
    max_list_value_chars: int = constant(256)
    max_map_entries: int = 1_000_000
    max_maps: int = 100
    max_map_bytes: int = 268_435_456

    has_old_forms: ClassVar[bool] = False
    """Whether a condition may have forms that only earlier editions of the language allowed: a plus before a number, a
    fraction of a millisecond, and fields that are called `true`, `false` or `like`."""


@dataclass(frozen=True, slots=True)
class LoggedRuleLimits(RuleLimits):
    """Bounds on a record of the rule log. A rule in the log keeps its meaning, so its conditions may have old forms."""

    has_old_forms: ClassVar[bool] = True

    @classmethod
    def of(cls, limits: RuleLimits) -> LoggedRuleLimits:
        """The same bounds for a record of the log."""
        return cls(**{each.name: getattr(limits, each.name) for each in fields(limits)})


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """Bounds on one transaction record.

    An event time is at most `future_tolerance_ms` after the record's append time, and not before `event_time_floor_ms`.
    A record above `max_bytes` is rejected without parsing.
    """

    future_tolerance_ms: int = 300_000
    event_time_floor_ms: int = 946_684_800_000
    max_bytes: int = 1_048_576


MOST_REJECTED: Final = 0.01
"""The default share of a history file's records that may be refused. A wrong column or unit refuses nearly all."""

_LARGEST: Final[Mapping[str, Any]] = {
    each.name: sys.maxsize for each in fields(RuleLimits) if isinstance(each.default, int)
}

UNBOUNDED: Final = LoggedRuleLimits(**_LARGEST)
"""Limits for text that this product wrote itself, from rules that were within their limits."""
