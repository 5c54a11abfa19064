"""The one-line text form of a rule: `1,(active),(payeeId&beneficiaryId),,(paymentAmount),(SUM),(>),(50),(20)`.

It has nine fields: id, state, grouping, unique, aggregated field, aggregate function, operator, limit, window in
minutes. Brackets are optional, names in a list are joined by `&`, and states and aggregate functions ignore case.
"""

from __future__ import annotations

import re
from decimal import Decimal

from fraud_rules.errors import Reason, RuleRejected
from fraud_rules.runtime.safe_text import quote

_FIELDS = 9
_INTEGER = re.compile(r"[+-]?[0-9]{1,38}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?[0-9]{1,38}\.[0-9]{1,38}", re.ASCII)


def read_text_form(line: str) -> dict[str, object]:
    """Convert the line to unchecked members of the JSON form. Raises `RuleRejected` unless it has nine fields."""
    tokens = line.split(",")
    if len(tokens) != _FIELDS:
        shape = f"is neither a JSON object nor a line of {_FIELDS} fields: {quote(line)}"
        raise RuleRejected([Reason("record", shape)])
    rule_id, state, grouping, unique, field, function, operator, limit, window = map(_unbracketed, tokens)
    return {
        "ruleId": _number(rule_id),
        "ruleState": state.upper(),
        "groupingKeyNames": _names(grouping),
        "unique": _names(unique),
        "aggregateFieldName": field,
        "aggregatorFunctionType": function.upper(),
        "limitOperatorType": operator.upper(),
        "limit": _number(limit),
        "windowMinutes": _number(window),
    }


def _unbracketed(token: str) -> str:
    token = token.strip()
    return token[1:-1].strip() if token.startswith("(") and token.endswith(")") else token


def _names(token: str) -> list[str]:
    return [name.strip() for name in token.split("&")] if token else []


def _number(token: str) -> int | Decimal | str:
    """Convert a plain number as JSON would. Any other text stays unchanged, so that the later checks reject it."""
    if _INTEGER.fullmatch(token):
        return int(token)
    return Decimal(token) if _DECIMAL.fullmatch(token) else token
