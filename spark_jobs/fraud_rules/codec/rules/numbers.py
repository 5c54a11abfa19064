"""Reads the numbers of a rule, which a record contains as JSON numbers or as text.

Jackson, the JSON library of the Flink demo, reads both alike, and the demo's web application writes both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

MAX_RULE_ID: Final = 2**63 - 1

WHOLE_NUMBERS: Final = (
    "ruleId",
    "windowMinutes",
    "windowSeconds",
    "cooldownSeconds",
    "minCount",
    "weight",
    "rolloutPercent",
    "require",
)
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,64}(\.[0-9]{1,64})?([eE][+-]?[0-9]{1,3})?", re.ASCII)


def with_whole_numbers(members: Mapping[str, object]) -> dict[str, object]:
    """Convert the texts of whole-number members to integers, also in nested objects, from which members without a value
    are removed. Every other value stays unchanged."""
    return {name: _whole(value) if name in WHOLE_NUMBERS else _nested(value) for name, value in members.items()}


def _nested(value: object) -> object:
    if isinstance(value, list):
        return [_nested(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: _whole(each) if name in WHOLE_NUMBERS else each for name, each in value.items() if each is not None}


def readable_id(members: Mapping[str, object]) -> int | None:
    """The rule id in a record, even in a rejected one; None if the record has no possible id."""
    value = _whole(members.get("ruleId"))
    return value if isinstance(value, int) and type(value) is int and 1 <= value <= MAX_RULE_ID else None


def decimal_of(value: object) -> Decimal | None:
    """Convert a number, or the text of a number, exactly; None for any other value."""
    if isinstance(value, Decimal):
        return value if value.is_finite() else None
    if type(value) is int:
        return Decimal(value)
    return Decimal(value) if isinstance(value, str) and _DECIMAL.fullmatch(value) else None


def digits_of(number: Decimal) -> int:
    """The number of digits in the number's text without an exponent."""
    exponent = int(number.as_tuple().exponent)
    before = max(number.adjusted() + 1, 1)
    return before + max(-exponent, 0)


def _whole(value: object) -> object:
    return int(value) if isinstance(value, str) and _WHOLE.fullmatch(value) else value
