"""Names the columns of an external table's row, and reads its decimals. Pure."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, Final

from fraud_rules.errors import Reason, RuleRejected

UNCHANGED: Final = "__debezium_unavailable_value"
"""The text that Debezium writes for a long column that an update did not change."""

_ALIKE: Final = 0.85
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_SCALE: Final = re.compile(r"-?[0-9]{1,3}", re.ASCII)
_MOST_BYTES: Final = 64
_MOST_DIGITS: Final = 999


def members_in(row: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The columns that are members, under the names of the members, without nulls.

    Case and underscores do not count: `RULE_ID` is `ruleId`. Further columns are omitted, because real tables have
    columns of their own, such as `updated_at`. Raises RuleRejected for a column that is nearly a member, because a
    misspelled `filter` must not be omitted.
    """
    known = {plain_name(name): name for name in names}
    found: dict[str, Any] = {}
    faults: list[Reason] = []
    for column, value in row.items():
        name = known.get(plain_name(column))
        if name is None:
            alike = get_close_matches(plain_name(column), known, n=1, cutoff=_ALIKE)
            faults += [Reason(column[:40], f"is not a member; rename the column {known[each]}") for each in alike]
        elif value is not None:
            found[name] = value
    if faults:
        raise RuleRejected(faults)
    return found


def plain_name(column: str) -> str:
    """The name without case and underscores, which databases change."""
    return column.replace("_", "").lower()


def decimal_scales(schema: object) -> dict[str, int]:
    """The scale of each column that is a decimal, by the schema of a Debezium envelope."""
    return {
        str(column.get("field")): int(scale)
        for row in _fields(schema)
        if row.get("field") in ("before", "after")
        for column in _fields(row)
        if column.get("name") == _DECIMAL and isinstance(parameters := column.get("parameters"), dict)
        if isinstance(scale := parameters.get("scale"), str) and _SCALE.fullmatch(scale)
    }


def _fields(schema: object) -> Iterator[dict[str, Any]]:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    yield from (each for each in fields if isinstance(each, dict)) if isinstance(fields, list) else ()


def with_decimals(row: Mapping[str, Any], scales: Mapping[str, int]) -> dict[str, Any]:
    """The row with its decimals as numbers. Kafka Connect sends a decimal as the Base64 of its unscaled value in two's
    complement, and a decimal of variable scale as an object with this text and the scale.

    Raises RuleRejected for a decimal that is no such text.
    """
    return {column: _number(column, value, scales.get(column)) for column, value in row.items()}


def _number(column: str, value: Any, scale: Any) -> Any:
    text = value
    if isinstance(value, dict) and value.keys() == {"scale", "value"}:
        scale, text = value["scale"], value["value"]
    if type(scale) is not int or abs(scale) > _MOST_DIGITS or not isinstance(text, str) or text == UNCHANGED:
        return value
    try:
        unscaled = int.from_bytes(_bytes(text), "big", signed=True)
    except ValueError as error:
        raise RuleRejected([Reason(column[:40], "is not a decimal in Base64, as its schema says")]) from error
    number = Decimal(f"{unscaled}E{-scale}")
    return int(number) if number == number.to_integral_value() else number


def _bytes(text: str) -> bytes:
    found = b64decode(text, validate=True)
    if not 0 < len(found) <= _MOST_BYTES:
        raise ValueError(text[:40])
    return found
