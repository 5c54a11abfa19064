"""The functions of the expression language: one entry each, with its parameters, its digits and its evaluation."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from fraud_rules.model.expressions import local_time
from fraud_rules.model.expressions.columnwise import both_valid, lengths
from fraud_rules.model.expressions.expression import Columns, Digits, Expression, ExpressionType
from fraud_rules.model.expressions.great_circle import distance_m, is_within
from fraud_rules.model.expressions.unscaled import absolute, constant, divided_half_even, rescaled
from fraud_rules.model.transaction import Column

Setting: TypeAlias = int | str
"""The value of a parameter that is a literal."""

_Evaluation: TypeAlias = Callable[[Sequence[Column], Sequence[Digits], Sequence[Setting]], Column]
_Digits: TypeAlias = Callable[[Sequence[Digits], Sequence[Setting]], Digits]

_MAX_LATITUDE: Final = 90
_MAX_LONGITUDE: Final = 180
_CLOCK_NS: Final = 10
_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function.

    `kind` is the type of an expression; None for any type, the same for all such parameters. With `literal`, the
    argument is a whole number in this range, or the name of a zone if the range is empty; `default` is its value where
    it is left out (None: it is required).
    """

    name: str
    kind: ExpressionType | None
    literal: range | None = None
    default: Setting | None = None


@dataclass(frozen=True, slots=True)
class Function:
    """A function. `kind` is the type of its values; None for the type of its arguments. `cost_ns` is the CPU time for
    one row of a large batch."""

    parameters: tuple[Parameter, ...]
    kind: ExpressionType | None
    digits: _Digits
    evaluate: _Evaluation
    cost_ns: int

    @property
    def signature(self) -> str:
        """The parameters as text: `a, [n]`."""
        return ", ".join(f"[{each.name}]" if each.default is not None else each.name for each in self.parameters)


@dataclass(frozen=True, slots=True)
class FunctionCall(Expression):
    """A call of a function: its arguments that are expressions, and the settings of the other parameters."""

    name: str
    operands: tuple[Expression, ...]
    settings: tuple[Setting, ...] = ()
    digits: Digits = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        digits = FUNCTIONS[self.name].digits([each.digits for each in self.operands], self.settings)
        object.__setattr__(self, "digits", digits)

    def evaluate(self, columns: Columns, n: int) -> Column:
        arguments = [each.evaluate(columns, n) for each in self.operands]
        digits = [each.digits for each in self.operands]
        return FUNCTIONS[self.name].evaluate(arguments, digits, self.settings)

    @property
    def kind(self) -> ExpressionType:
        return FUNCTIONS[self.name].kind or self.operands[0].kind

    def __str__(self) -> str:
        arguments, settings = iter(self.operands), iter(self.settings)
        texts = []
        for parameter in FUNCTIONS[self.name].parameters:
            if parameter.literal is None:
                texts.append(str(next(arguments)))
            elif (setting := next(settings)) != parameter.default:
                texts.append(f"'{setting}'" if isinstance(setting, str) else str(setting))
        return f"{self.name}({', '.join(texts)})"


def _absolute(arguments: Sequence[Column], _: Sequence[Digits], __: Sequence[Setting]) -> Column:
    return Column(absolute(arguments[0].values), arguments[0].valid, None)


def _rounded(arguments: Sequence[Column], digits: Sequence[Digits], settings: Sequence[Setting]) -> Column:
    values, places = arguments[0].values, int(settings[0])
    more = places - digits[0].after
    if more >= 0:
        return Column(rescaled(values, more), arguments[0].valid, None)
    whole = divided_half_even(values, constant(10**-more))
    return Column(rescaled(whole, -places), arguments[0].valid, None)


def _lower(arguments: Sequence[Column], _: Sequence[Digits], __: Sequence[Setting]) -> Column:
    return arguments[0].map_texts(lambda text: text.lower() if text.isascii() else text.translate(_LOWER))


def _length(arguments: Sequence[Column], _: Sequence[Digits], __: Sequence[Setting]) -> Column:
    return Column(lengths(arguments[0]), arguments[0].valid, None)


def _substring(arguments: Sequence[Column], _: Sequence[Digits], settings: Sequence[Setting]) -> Column:
    start, count = (int(each) for each in settings)
    return arguments[0].map_texts(lambda text: text[start - 1 : start - 1 + count])


def _coalesce(arguments: Sequence[Column], digits: Sequence[Digits], _: Sequence[Setting]) -> Column:
    first, second = arguments
    a = rescaled(first.values, digits[1].after - digits[0].after)
    b = rescaled(second.values, digits[0].after - digits[1].after)
    if first.valid is None:
        return Column(a, None, first.dictionary)
    valid = None if second.valid is None else first.valid | second.valid
    if first.dictionary is None or second.dictionary is None:
        return Column(np.where(first.valid, a, b), valid, None)
    codes = np.where(first.valid, a, b + len(first.dictionary))
    if valid is not None:
        codes = np.where(valid, codes, 0)
    return Column(codes, valid, None).with_texts(first.dictionary + second.dictionary)


def _distance(arguments: Sequence[Column], digits: Sequence[Digits], _: Sequence[Setting]) -> Column:
    valid = None
    degrees = []
    for column, each, bound in zip(arguments, digits, (_MAX_LATITUDE, _MAX_LONGITUDE) * 2, strict=True):
        within = is_within((column.values, each.after), bound)
        values = column.values
        if not within.all():
            valid, values = both_valid(valid, within), np.where(within, values, 0)
        valid = both_valid(valid, column.valid)
        degrees.append((values, each.after))
    return Column(distance_m(*degrees), valid, None)


def _clock(part: Callable[[Column, str], Column], digits: int) -> Function:
    return Function(
        (Parameter("t", ExpressionType.TIMESTAMP), Parameter("zone", None, range(0), local_time.UTC_ZONE)),
        ExpressionType.NUMBER,
        lambda _, __: Digits(digits, 0),
        lambda arguments, _, settings: part(arguments[0], str(settings[0])),
        _CLOCK_NS,
    )


def _round_digits(digits: Sequence[Digits], settings: Sequence[Setting]) -> Digits:
    return Digits(digits[0].before + 1, max(int(settings[0]), 0))


def _larger_digits(digits: Sequence[Digits], _: Sequence[Setting]) -> Digits:
    return Digits(max(each.before for each in digits), max(each.after for each in digits))


def _no_digits(_: Sequence[Digits], __: Sequence[Setting]) -> Digits:
    return Digits(0, 0)


_A: Final = Parameter("a", ExpressionType.NUMBER)
_S: Final = Parameter("s", ExpressionType.TEXT)
_PLACES: Final = Parameter("n", None, range(-18, 7), 0)
_POSITIONS: Final = range(1, 10_001)
_PART: Final = (Parameter("start", None, _POSITIONS), Parameter("count", None, _POSITIONS))
_POINTS: Final = tuple(Parameter(name, ExpressionType.NUMBER) for name in ("lat", "lon", "lat2", "lon2"))
_TO_NUMBER, _TO_TEXT = ExpressionType.NUMBER, ExpressionType.TEXT

FUNCTIONS: Final[Mapping[str, Function]] = {
    "abs": Function((_A,), _TO_NUMBER, _larger_digits, _absolute, 5),
    "round": Function((_A, _PLACES), _TO_NUMBER, _round_digits, _rounded, 10),
    "lower": Function((_S,), _TO_TEXT, _no_digits, _lower, 20),
    "length": Function((_S,), _TO_NUMBER, lambda _, __: Digits(10, 0), _length, 10),
    "substring": Function((_S, *_PART), _TO_TEXT, _no_digits, _substring, 20),
    "hour": _clock(local_time.hour, 2),
    "minute_of_day": _clock(local_time.minute_of_day, 4),
    "weekday": _clock(local_time.weekday, 2),
    "day": _clock(local_time.day, 2),
    "month": _clock(local_time.month, 2),
    "coalesce": Function((Parameter("a", None), Parameter("b", None)), None, _larger_digits, _coalesce, 10),
    "distance_m": Function(_POINTS, _TO_NUMBER, lambda _, __: Digits(8, 0), _distance, 200),
}
"""All functions by name."""
