"""Generated expressions of every function, type and depth, and rows with the values at which they differ.

A drawn expression is a text with what its place in another one needs: how tightly it binds, the digits of its numbers,
and whether it names a field. So every drawn condition is well typed, and no number has more than 38 digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from random import Random
from typing import Any, TypeAlias

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from fraud_rules.model.schema import Field, FieldType, TransactionSchema

MOST_DIGITS = 38
OR, AND, NOT, COMPARISON, SUM, PRODUCT, UNARY, ATOM = range(8)
"""How tightly an expression binds: an operand of a tighter operator needs parentheses."""

Row: TypeAlias = dict[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _ms(text: str) -> int:
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)


CLOCK_CHANGES = [
    *("2024-03-31T01:00", "2024-10-27T01:00", "2050-03-27T01:00"),  # Europe/Berlin
    *("2024-03-10T07:00", "2024-11-03T06:00", "2099-11-01T06:00"),  # America/New_York
    *("2024-04-06T15:00", "2024-10-05T15:30"),  # Australia/Lord_Howe, by half an hour
    "2011-12-30T10:00",  # Pacific/Apia, by a day
    "1972-01-07T00:44:30",  # Africa/Monrovia, to whole minutes
]
MOMENTS_MS = [
    *(_ms(each) + shift for each in CLOCK_CHANGES for shift in (-1, 0, 3_599_999)),
    *(-1, 0, 1, _ms("1969-12-31"), _ms("1970-01-01T00:59"), _ms("2100-01-01") - 1, _ms("2100-01-01")),
    *(_ms("2000-02-29"), _ms("2024-03-01") - 1, 1_700_000_000_000, 1_700_000_000_001),
    *(_ms("0001-01-01"), _ms("9999-12-31T23:59:59.999")),
]
ZONES = [
    *("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Kiritimati", "Asia/Kathmandu"),
    *("America/St_Johns", "Pacific/Apia", "Europe/Dublin", "Antarctica/Troll", "Africa/Casablanca", "Africa/Monrovia"),
]
TEXTS = [
    *("", "CSH", "csh", "Casino", "Grand CASINO", "casin\no", "it's", "''", "100%", "100%_", "a_b", "\\", "a\\%b"),
    *("Ä1", "ä1", "ß", "\u0130", "\u212a", "e\u0301", "\u00e9", "\uffff", "\U00010000", "😀", "a😀b", "😀😀a", " x "),
]
PATTERNS = [
    *("", "%", "_", "%%", "__", "%_%", "c%", "%o", "%a%", "%s%o%", "_s_", "100\\%", "100\\%%", "100\\%\\_", "a\\_b"),
    *("\\\\", "a\\\\\\%b", "😀%", "_😀_", "%😀_", "Ä_", "%'%", "casin_o", "%A%_%", "e_"),
]
LONGS = [0, 1, -1, 2, 3, 7, 100, -20_000, 10**18, 2**63 - 1, -(2**63)]
NUMBERS = [
    *("0", "1", "2", "3", "10", "007", "0.5", "1.50", "2.505", "0.001", "0.333333", "0.000001", "0.0000005"),
    *("1000000", "9223372036854775807", "9999999999999999.99"),
]
DEGREES = [
    *("0", "1", "-7", "2.5", "-2.51", "3", "250", "300", "52.52", "13.405", "89.999999", "90", "-90", "90.000001"),
    *("179.5", "180", "-180", "-180.000001", "-0.000001", "0.5"),
    *("168.438239", "29.837026"),  # from 0, 0 they are the nearest to half a metre
]
SIGNS = ["=", "!=", "<>", ">=", "<=", ">", "<"]

_DECIMALS = {
    "units": (18, 0),
    "tenths": (5, 1),
    "paymentAmount": (18, 2),
    "rate": (9, 3),
    "price": (18, 4),
    "share": (6, 5),
    "latitude": (9, 6),
    "longitude": (9, 6),
}
SCHEMA = TransactionSchema(
    (
        Field("transactionId", FieldType.LONG),
        Field("eventTime", FieldType.TIMESTAMP),
        Field("opened", FieldType.TIMESTAMP, nullable=True),
        Field("payeeId", FieldType.LONG, aliases=("payerId",)),
        Field("points", FieldType.LONG, nullable=True),
        *(Field(name, FieldType.DECIMAL, True, (), *digits) for name, digits in _DECIMALS.items()),
        Field("country", FieldType.STRING, nullable=True),
        Field("merchantName", FieldType.STRING, nullable=True),
        Field("cardPresent", FieldType.BOOLEAN, nullable=True),
        Field("verified", FieldType.BOOLEAN, nullable=True),
    )
)
"""Fields of every type, and decimals of every scale from 0 to 6."""


@cache
def rows_of(seed: int, count: int) -> Sequence[Row]:
    """So many rows of values near the literals of the expressions and at the ends of the fields' ranges."""
    chance = Random(seed)
    return [
        {
            field.name: None if field.nullable and chance.random() < 0.15 else chance.choice(_VALUES[field.name])
            for field in SCHEMA.fields
        }
        for _ in range(count)
    ]


def _values(field: Field) -> list[Any]:
    match field.type:
        case FieldType.LONG:
            return [*LONGS, *range(5)]
        case FieldType.DECIMAL:
            largest = 10**field.precision - 1
            units = [-largest, largest, -25, -15, -5, -1, 0, 1, 5, 15, 25, largest // 3, -largest // 7]
            places = [Decimal(each).scaleb(-field.scale) for each in units]
            return [*places, *(Decimal(each) for each in DEGREES if _fits(Decimal(each), field))]
        case FieldType.TIMESTAMP:
            return MOMENTS_MS
        case FieldType.STRING:
            return TEXTS
    return [True, False]


def _fits(number: Decimal, field: Field) -> bool:
    unscaled = number.scaleb(field.scale)
    return unscaled == int(unscaled) and abs(unscaled) < 10**field.precision


_VALUES = {field.name: _values(field) for field in SCHEMA.fields}


@dataclass(frozen=True)
class Drawn:
    """A drawn expression. `before` and `after` are the most digits of a number."""

    text: str
    binds: int = ATOM
    before: int = 0
    after: int = 0
    names_field: bool = True

    def inside(self, binds: int) -> str:
        """The text as an operand of an operator that binds so tightly."""
        return self.text if self.binds >= binds else f"({self.text})"


Draw: TypeAlias = st.DrawFn
_CALENDAR = ("hour", "minute_of_day", "weekday", "day", "month")


@st.composite
def conditions(draw: Draw, depth: int = 3) -> str:
    """Draw the text of a condition."""
    return draw(_booleans(depth)).text


@st.composite
def numbers_of_fields(draw: Draw, depth: int = 3) -> str:
    """Draw the text of a number that names a field."""
    return _named(draw, draw(_numbers(depth)), ["points", *_DECIMALS]).text


@st.composite
def texts_of_fields(draw: Draw, depth: int = 2) -> str:
    """Draw the text of a text expression that names a field."""
    return _named(draw, draw(_texts(depth)), ["country", "merchantName"]).text


def text_literal(text: str) -> str:
    """The text as a literal."""
    return "'" + text.replace("'", "''") + "'"


def _one_of(draw: Draw, choices: Sequence[str]) -> str:
    return draw(_sampled(tuple(choices)))


@cache
def _sampled(choices: tuple[str, ...]) -> SearchStrategy[str]:
    return st.sampled_from(choices)


def _shuffled(draw: Draw, pair: list[Drawn]) -> list[Drawn]:
    return pair if draw(st.booleans()) else pair[::-1]


def _call(draw: Draw, name: str, *arguments: Drawn | str, before: int = 0, after: int = 0) -> Drawn:
    """A call in any case, with and without blanks."""
    texts = [each if isinstance(each, str) else each.text for each in arguments]
    names_field = any(each.names_field for each in arguments if isinstance(each, Drawn))
    written = _one_of(draw, [name, name, name.upper(), f"{name.title()} "])
    return Drawn(f"{written}({_one_of(draw, [', ', ',']).join(texts)})", ATOM, before, after, names_field)


_NUMERIC = {name: field for field in SCHEMA.fields if field.numeric for name in field.member_names}


# Numbers


@cache
@st.composite
def _number_leaves(draw: Draw) -> Drawn:
    if draw(st.integers(0, 3)):
        name = _one_of(draw, list(_NUMERIC))
        field = _NUMERIC[name]
        long = field.type is FieldType.LONG
        return Drawn(name, ATOM, 19 if long else field.precision - field.scale, 0 if long else field.scale)
    written = _one_of(draw, NUMBERS)
    whole, _, decimals = written.partition(".")
    return Drawn(written, ATOM, len(whole), len(decimals), names_field=False)


@cache
@st.composite
def _numbers(draw: Draw, depth: int) -> Drawn:
    if depth == 0:
        return draw(_number_leaves())
    match draw(st.integers(0, 12)):
        case 0:
            return draw(_number_leaves())
        case 1 | 2 | 3 | 4:
            return _fitting(_operation(draw, draw(_numbers(depth - 1)), draw(_numbers(depth - 1))), draw)
        case 5:
            operand = draw(_numbers(depth - 1))
            blank = _one_of(draw, ["", " "])
            return Drawn(f"-{blank}{operand.inside(UNARY)}", UNARY, operand.before, operand.after, operand.names_field)
        case 6:
            operand = draw(_numbers(depth - 1))
            return _call(draw, "abs", operand, before=operand.before, after=operand.after)
        case 7:
            return _fitting(_rounding(draw, draw(_numbers(depth - 1))), draw)
        case 8:
            return _difference(draw, depth - 1)
        case 9:
            return _call(draw, "length", draw(_texts(depth - 1)), before=10)
        case 10:
            return _clock(draw, depth - 1)
        case 11:
            places = [draw(_degrees(depth - 1)) for _ in range(4)]
            return _call(draw, "distance_m", *places, before=8)
    return _fitting(_coalesced(draw, draw(_numbers(depth - 1)), draw(_numbers(depth - 1))), draw)


def _operation(draw: Draw, left: Drawn, right: Drawn) -> Drawn:
    sign = _one_of(draw, ["+", "-", "*", "/"])
    binds = SUM if sign in "+-" else PRODUCT
    before, after = max(left.before, right.before) + 1, max(left.after, right.after)
    if sign == "*":
        before, after = left.before + right.before, left.after + right.after
    elif sign == "/":
        before, after = left.before + right.after + 1, 6
    blank = _one_of(draw, ["", " "])
    text = f"{left.inside(binds)}{blank}{sign}{blank}{right.inside(binds + 1)}"
    return Drawn(text, binds, before, after, left.names_field or right.names_field)


def _rounding(draw: Draw, operand: Drawn) -> Drawn:
    decimals = draw(st.none() | st.integers(-18, 6) | st.integers(-2, 2))
    more = [] if decimals is None else [str(decimals)]
    return _call(draw, "round", operand, *more, before=operand.before + 1, after=max(decimals or 0, 0))


def _coalesced(draw: Draw, first: Drawn, second: Drawn) -> Drawn:
    before, after = max(first.before, second.before), max(first.after, second.after)
    return _call(draw, "coalesce", first, second, before=before, after=after)


def _fitting(drawn: Drawn, draw: Draw) -> Drawn:
    """The drawn number, or another one if it has too many digits."""
    return drawn if drawn.before + drawn.after <= MOST_DIGITS else draw(_number_leaves())


def _difference(draw: Draw, depth: int) -> Drawn:
    """The seconds between two timestamps, of which one may be a literal."""
    sides = [draw(_timestamps(depth)), draw(_timestamps(depth) | _moments())]
    end, start = _shuffled(draw, sides)
    return Drawn(f"{end.inside(SUM)} - {start.inside(PRODUCT)}", SUM, 17, 3)


def _clock(draw: Draw, depth: int) -> Drawn:
    name = _one_of(draw, _CALENDAR)
    zone = [text_literal(each) for each in draw(st.lists(st.sampled_from(ZONES), max_size=1))]
    return _call(draw, name, draw(_timestamps(depth)), *zone, before=4 if name == "minute_of_day" else 2)


@cache
@st.composite
def _degrees(draw: Draw, depth: int) -> Drawn:
    if draw(st.integers(0, 3)) == 0:
        return draw(_numbers(depth))
    if draw(st.booleans()):
        return Drawn(_one_of(draw, ["latitude", "longitude"]))
    return Drawn(_one_of(draw, DEGREES), names_field=False)


# Timestamps, texts


@cache
@st.composite
def _timestamps(draw: Draw, depth: int) -> Drawn:
    if depth == 0 or draw(st.integers(0, 2)):
        return Drawn(_one_of(draw, ["eventTime", "opened"]))
    first, second = _shuffled(draw, [draw(_timestamps(depth - 1)), draw(_timestamps(0) | _moments())])
    return _call(draw, "coalesce", first, second)


@cache
@st.composite
def _moments(draw: Draw) -> Drawn:
    """A literal beside a timestamp."""
    ms = draw(st.sampled_from(MOMENTS_MS))
    if draw(st.booleans()):
        return Drawn(str(ms), UNARY if ms < 0 else ATOM, names_field=False)
    moment = (_EPOCH + timedelta(milliseconds=ms)).replace(tzinfo=None)
    text = moment.isoformat(_one_of(draw, ["T", " "]), "milliseconds") + _one_of(draw, ["", "Z"])
    return Drawn(text_literal(text), names_field=False)


@cache
@st.composite
def _texts(draw: Draw, depth: int) -> Drawn:
    if depth == 0:
        if draw(st.integers(0, 4)):
            return Drawn(_one_of(draw, ["country", "merchantName"]))
        return Drawn(text_literal(_one_of(draw, TEXTS)), names_field=False)
    match draw(st.integers(0, 3)):
        case 0:
            return _call(draw, "lower", draw(_texts(depth - 1)))
        case 1:
            start, count = draw(st.integers(1, 4) | st.just(10_000)), draw(st.integers(1, 4) | st.just(10_000))
            return _call(draw, "substring", draw(_texts(depth - 1)), str(start), str(count))
        case 2:
            return _call(draw, "coalesce", draw(_texts(depth - 1)), draw(_texts(depth - 1)))
    return draw(_texts(0))


# Booleans


@cache
@st.composite
def _booleans(draw: Draw, depth: int) -> Drawn:
    """A boolean that names a field, so that it is a condition."""
    if depth == 0:
        return Drawn(_one_of(draw, ["cardPresent", "verified"])) if draw(st.booleans()) else draw(_comparisons(0))
    match draw(st.integers(0, 7)):
        case 0:
            inner = draw(_booleans(depth - 1))
            return Drawn(f"{_one_of(draw, ['not', 'NOT'])} {inner.inside(NOT)}", NOT)
        case 1 | 2:
            word, binds = draw(st.sampled_from([("and", AND), ("AND", AND), ("or", OR), ("Or", OR)]))
            left, right = draw(_booleans(depth - 1)), draw(_booleans(depth - 1))
            return Drawn(f"{left.inside(binds)} {word} {right.inside(binds)}", binds)
        case 3:
            literal = st.sampled_from([Drawn("true"), Drawn("False")])
            first, second = _shuffled(draw, [draw(_booleans(depth - 1)), draw(_booleans(depth - 1) | literal)])
            return _call(draw, "coalesce", first, second)
    return draw(_comparisons(depth))


@cache
@st.composite
def _comparisons(draw: Draw, depth: int) -> Drawn:
    match draw(st.integers(0, 8)):
        case 0:
            return _of_booleans(draw, max(depth - 1, 0))
        case 1:
            return _is_null(draw, depth)
        case 2:
            operand = _named(draw, draw(_texts(depth)), ["country", "merchantName"])
            pattern = text_literal(_one_of(draw, PATTERNS))
            return Drawn(f"{operand.inside(SUM)} {_negation(draw)}like {pattern}", COMPARISON)
        case 3 | 4:
            return _of_kind(draw, _texts(depth), _text_literals(), ["country", "merchantName"])
        case 5:
            return _of_kind(draw, _timestamps(depth), _moments(), ["eventTime", "opened"])
    return _of_kind(draw, _numbers(depth), _number_literals(), ["points", *_DECIMALS])


def _of_kind(draw: Draw, operands: SearchStrategy[Drawn], literals: SearchStrategy[Drawn], names: list[str]) -> Drawn:
    """A comparison, `between` or `in` of numbers, of texts, or of timestamps."""
    left, form = draw(operands), draw(st.integers(0, 4))
    if form == 0:
        low, high = draw(operands | literals), draw(operands | literals)
        if not (low.names_field and high.names_field):
            left = _named(draw, left, names)
        return Drawn(
            f"{left.inside(SUM)} {_negation(draw)}between {low.inside(SUM)} and {high.inside(SUM)}", COMPARISON
        )
    if form == 1:
        left = _named(draw, left, names)
        listed = ", ".join(each.text for each in draw(st.lists(literals, min_size=1, max_size=4)))
        return Drawn(f"{left.inside(SUM)} {_negation(draw)}in ({listed})", COMPARISON)
    right = draw(operands | literals)
    if not left.names_field:
        right = _named(draw, right, names)
    left, right = _shuffled(draw, [left, right])
    blank = _one_of(draw, ["", " "])
    return Drawn(f"{left.inside(SUM)}{blank}{_one_of(draw, SIGNS)}{blank}{right.inside(SUM)}", COMPARISON)


def _of_booleans(draw: Draw, depth: int) -> Drawn:
    left, right = draw(_booleans(depth)), draw(_booleans(depth) | st.sampled_from([Drawn("true"), Drawn("FALSE")]))
    first, second = _shuffled(draw, [left, right])
    return Drawn(f"{first.inside(SUM)} {_one_of(draw, ['=', '!=', '<>'])} {second.inside(SUM)}", COMPARISON)


def _is_null(draw: Draw, depth: int) -> Drawn:
    kinds = [_numbers(depth), _texts(depth), _timestamps(depth), _booleans(max(depth - 1, 0))]
    operand = _named(draw, draw(st.one_of(kinds)), ["points", "country", "opened", "cardPresent"])
    return Drawn(f"{operand.inside(SUM)} is {_negation(draw)}null", COMPARISON)


@cache
@st.composite
def _number_literals(draw: Draw) -> Drawn:
    sign = _one_of(draw, ["", "", "-", "- "])
    return Drawn(sign + _one_of(draw, NUMBERS), UNARY if sign else ATOM, names_field=False)


@cache
@st.composite
def _text_literals(draw: Draw) -> Drawn:
    return Drawn(text_literal(_one_of(draw, TEXTS)), names_field=False)


def _negation(draw: Draw) -> str:
    return _one_of(draw, ["", "", "not ", "NOT "])


def _named(draw: Draw, drawn: Drawn, names: Sequence[str]) -> Drawn:
    """The expression, or a field if it names none."""
    return drawn if drawn.names_field else Drawn(_one_of(draw, names), ATOM, 19, 6)
