"""What a rule makes of one payment: the rows of its windows, its aggregates, and whether it holds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from math import isqrt
from typing import Any, NamedTuple, TypeAlias

from fraud_rules.proof.plain.expressions import COMPARE, PlainField, Row, compile_expression, rounded
from fraud_rules.proof.plain.moments import calendar_start_ms

Members: TypeAlias = Mapping[str, Any]
ARRIVAL = "arrival()"
"""The name under which a row has its place in the order of arrival."""
_SIGNS = {"EQUAL": "=", "NOT_EQUAL": "!=", "GREATER_EQUAL": ">=", "LESS_EQUAL": "<=", "GREATER": ">", "LESS": "<"}
_WEIGHTS = {"low": 10, "medium": 25, "high": 50, "critical": 100}
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)


@dataclass(frozen=True)
class Scene:
    """The values of a payment, the last row, among the rows that its windows can count, in order of arrival.

    COUNT_WITH_RESET counts after the arrival `mark`. `lookups` has the lists and maps as the payment sees them, under
    their names in expressions. `named` has the outcomes of other rules by id, in the form of a condition of an alert.
    """

    rows: Sequence[Row]
    key: Sequence[Any]
    fields: Mapping[str, PlainField]
    mark: int = -1
    lookups: Row = field(default_factory=dict)
    named: Mapping[int, Members] = field(default_factory=dict)

    @property
    def at_ms(self) -> int:
        """The event time of the payment."""
        return int(self.rows[-1]["eventTime"])


class Measure(NamedTuple):
    """An aggregate beside its limit. `holds` is None without a value, `first_ms` the oldest time that it reads;
    `members` are those of its alert."""

    holds: bool | None
    value: Fraction | None
    rows: Sequence[Row]
    first_ms: int | None
    members: Members
    limit: Fraction | None = None


def judge(rule: Members, scene: Scene) -> tuple[str, Measure | None, dict[str, Any]]:
    """Evaluate a rule (its record): the member that fails (empty if it holds), its own aggregate, and its alert."""
    e = scene.rows[-1]
    parts = [text_of(each).encode() for each in (rule["ruleId"], *scene.key)]
    number = sha256(b"".join(b"%d:%b" % (len(part), part) for part in parts)).digest()[:8]
    if int.from_bytes(number, "big") % 100 >= rule.get("rolloutPercent", 100):
        return "rolloutPercent", None, {}
    has_own = "aggregatorFunctionType" in rule
    others = [x for x in _rows(rule, scene, _start_ms(rule, scene.at_ms)) if x is not e] if has_own else []
    before = max(others, key=lambda x: (x["eventTime"], x[ARRIVAL]), default=None)
    row = {**e, **scene.lookups, "previous()": before}
    selects = "when" if "when" in rule else "filter"
    if (rule.get(selects) or "").strip() and compile_expression(rule[selects], scene.fields)(row) is not True:
        return selects, None, {}
    own = _measure(rule, scene, row) if has_own else Measure(True, None, (), scene.at_ms, {})
    row["own()"] = own.value
    inherited = {name: rule[name] for name in ("aggregateFieldName", "filter") if name in rule}
    found = [_condition({**inherited, **each}, scene, row) for each in rule.get("conditions") or ()]
    holding, needs = sum(each.holds is True for each in found), rule.get("require", "all")
    fits = not holding if needs == "none" else holding >= int({needs: needs, "all": len(found), "any": 1}[needs])
    alert = {
        "triggeringValue": str(holding) if not has_own else None if own.value is None else text_of(own.value),
        "windowStart": _start_ms(rule, scene.at_ms) if has_own else scene.at_ms,
        "windowCount": len(own.rows),
        **own.members,
        **({"conditions": [each.members for each in found]} if found else {}),
        "previous": before,
        "firstMs": min((each.first_ms for each in (own, *found) if each.first_ms is not None), default=None),
    }
    return "value" if own.holds is None else "limit" if not own.holds else "" if fits else "conditions", own, alert


def decide(rules: Mapping[int, Members], decline: int, review: int) -> tuple[dict[int, int], int, str]:
    """The decision from the rules that alerted, by id: their weights, the score and the outcome."""
    weights = {n: int(x.get("weight", _WEIGHTS.get(str(x.get("severity")).lower(), 25))) for n, x in rules.items()}
    return weights, (n := sum(weights.values())), "DECLINE" if n >= decline else "REVIEW" if n >= review else "NOTE"


def text_of(value: Any) -> str:
    """A value of a key, or a number, as text: decimals without trailing zeros."""
    if isinstance(value, bool | str):
        return str(value) if isinstance(value, str) else str(value).lower()
    number = Fraction(value)
    digits = next(each for each in range(1_000) if (number * 10**each).denominator == 1)
    return f"{Decimal(f'{number * 10**digits}E-{digits}'):f}"


def _start_ms(members: Members, at_ms: int) -> int | None:
    if "windowCalendar" in members:
        return calendar_start_ms(members["windowCalendar"], members.get("zone", "UTC"), at_ms)
    step_ms = int(members.get("resolutionSeconds", 0)) * 1_000 or 1
    return (at_ms - _length_ms(members)) // step_ms * step_ms


def _length_ms(members: Members) -> int:
    unit_ms, name = (60_000, "windowMinutes") if "windowMinutes" in members else (1_000, "windowSeconds")
    return int(members[name]) * unit_ms


def _rows(members: Members, scene: Scene, first_ms: int | None, end_ms: int | None = None) -> list[Row]:
    """The rows of a time that pass the filter: up to the payment's, or before an end. None without a start."""
    text = (members.get("filter") or "").strip()
    passes = compile_expression(text, scene.fields) if text else lambda _: True
    last_ms = scene.at_ms if end_ms is None else end_ms - 1
    rows = [x for x in scene.rows if first_ms is not None and first_ms <= x["eventTime"] <= last_ms]
    return [x for x in rows if passes(x) is True]


def _function(members: Members, scene: Scene) -> tuple[str, str | None]:
    """The function, and its field: None for counts, and for a field of ones."""
    function, name = members["aggregatorFunctionType"], str(members.get("aggregateFieldName"))
    if name in ("COUNT_FLINK", "COUNT_WITH_RESET_FLINK"):
        return (name.removesuffix("_FLINK") if function == "SUM" else function), None
    return function, None if function.startswith("COUNT") else scene.fields[name].name


def _exact(members: Members, scene: Scene, rows: Sequence[Row]) -> Fraction | None:
    """The aggregate of rows without rounding, of STDDEV the square. None without a value."""
    function, name = _function(members, scene)
    if function == "COUNT_DISTINCT":
        found = {tuple(x[scene.fields[each].name] for each in members["unique"]) for x in rows}
        return Fraction(sum(None not in each for each in found))
    values = [Fraction(1 if name is None else x[name]) for x in rows if name is None or x[name] is not None]
    if not values and not function.startswith("COUNT"):
        return None
    if function in ("MIN", "MAX"):
        return min(values) if function == "MIN" else max(values)
    total, n = sum(values, Fraction()), len(values)
    if function == "STDDEV":
        return sum((each**2 for each in values), Fraction()) / n - (total / n) ** 2
    return total / n if function == "AVG" else total


def _shown(function: str, value: Fraction | None) -> Fraction | None:
    """The value in an alert: AVG and STDDEV have 6 decimals, half even."""
    if value is None or function != "STDDEV":
        return rounded(value, 6) if value is not None and function == "AVG" else value
    root = isqrt(int(value * 10**12))
    above = value * 10**12 - Fraction(2 * root + 1, 2) ** 2
    return Fraction(root + (above > 0 or (above == 0 and root % 2 == 1)), 10**6)


def _measure(members: Members, scene: Scene, row: Row) -> Measure:
    """An aggregate of the payment's window, compared with its limit or its baseline."""
    function, start_ms, limit = _function(members, scene)[0], _start_ms(members, scene.at_ms), members["limit"]
    sign = str(_SIGNS.get(members["limitOperatorType"], members["limitOperatorType"]))
    rows = _rows(members, scene, start_ms)
    if function == "COUNT_WITH_RESET" and members.get("ruleState") != "SIGNAL":
        rows = [x for x in rows if x[ARRIVAL] > scene.mark]
    shown: dict[str, Any] = {}
    if isinstance(limit, str) and not _NUMBER.fullmatch(limit):
        limit = compile_expression(limit, scene.fields)(row)
        shown["limit"] = None if limit is None else text_of(limit)
    limit = None if limit is None else Fraction(limit)
    value = None if start_ms is None else _exact(members, scene, rows)
    holds, first_ms = None if value is None else False, start_ms
    if "baseline" in members and start_ms is not None:
        holds, first_ms, shown["baseline"] = _beside_baseline(members, scene, value, sign, limit or Fraction())
    elif value is not None and limit is not None:
        is_root = function == "STDDEV"
        holds = COMPARE[sign](*((value, limit**2) if is_root and limit >= 0 else (value * (not is_root), limit)))
    return Measure(holds, _shown(function, value) if holds is not None else None, rows, first_ms, shown, limit)


def _beside_baseline(
    rule: Members, scene: Scene, value: Fraction | None, sign: str, limit: Fraction
) -> tuple[bool | None, int, dict[str, Any]]:
    """Compare a value with the time right before the window: whether it holds, the start, and what the alert says."""
    own = ("aggregatorFunctionType", "aggregateFieldName", "filter", "resolutionSeconds")
    members = {**{name: rule[name] for name in own if name in rule}, **rule["baseline"]}
    length_ms, function = _length_ms(members), _function(members, scene)[0]
    start_ms, end_ms = (_start_ms(rule, at_ms) or 0 for at_ms in (scene.at_ms - length_ms, scene.at_ms))
    rows = _rows(members, scene, start_ms, end_ms)
    shown: dict[str, Any] = {"count": len(rows), "windowStart": start_ms, "windowEnd": end_ms}
    usual = _exact(members, scene, rows)
    if value is None or usual is None or not rows or len(rows) < members.get("minCount", 1):
        return None, start_ms, shown
    usual *= Fraction(_length_ms(rule), length_ms) if function in ("SUM", "COUNT") else 1
    shown |= {"value": text_of(rounded(usual, 6))}
    if not members.get("deviations"):
        return COMPARE[sign](value, limit * usual), start_ms, shown
    excess = value - usual if sign.startswith(">") else usual - value
    square = limit**2 * (_exact({**members, "aggregatorFunctionType": "STDDEV"}, scene, rows) or Fraction())
    return excess >= 0 and COMPARE[sign.replace("<", ">")](excess**2, square), start_ms, shown


def _condition(members: Members, scene: Scene, row: Row) -> Measure:
    """A condition: another aggregate, or the outcome of another rule."""
    if "ruleId" in members:
        named = scene.named[members["ruleId"]]
        return Measure(named["holds"], None, (), None, named)
    found = _measure({**members, "unique": members.get("unique") or []}, scene, row)
    value = None if found.value is None else text_of(found.value)
    shown = {"value": value, "count": len(found.rows), "windowStart": _start_ms(members, scene.at_ms)}
    return found._replace(members={**shown, "holds": found.holds is True, **found.members})
