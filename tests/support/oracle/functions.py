"""The oracle's functions of expressions, by name. They read nothing but their arguments.

`lookups` has the functions that read more.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeAlias

from tests.support.oracle import sphere
from tests.support.oracle.expressions import Digits, Expression, Kind, beside, computed, require, rounded
from tests.support.oracle.moments import CLOCKS, Instant, on_clock, zone_named
from tests.support.oracle.refusal import FilterRefused

Arguments: TypeAlias = Sequence[Expression]

LONGEST_PATTERN = 256
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def call(name: str, arguments: Arguments) -> Expression:
    """The function of that name, in lower case, of the arguments. Raises FilterRefused."""
    if name not in FUNCTIONS:
        raise FilterRefused(f"{name} is no function")
    fewest, most, function = FUNCTIONS[name]
    if not fewest <= len(arguments) <= most:
        raise FilterRefused(f"{name} takes {fewest} to {most} arguments")
    return function(arguments)


def _abs(arguments: Arguments) -> Expression:
    require(Kind.NUMBER, *arguments)
    return computed(Kind.NUMBER, abs, *arguments, digits=arguments[0].digits)


def _round(arguments: Arguments) -> Expression:
    number = arguments[0]
    require(Kind.NUMBER, number)
    decimals = _whole(arguments[1], -18, 6) if len(arguments) == 2 else 0
    digits = Digits(number.digits.before + 1, max(decimals, 0))
    return computed(Kind.NUMBER, lambda value: rounded(value, decimals), number, digits=digits)


def _lower(arguments: Arguments) -> Expression:
    require(Kind.TEXT, *arguments)
    return computed(Kind.TEXT, lambda text: text.translate(_LOWER), *arguments)


def _length(arguments: Arguments) -> Expression:
    require(Kind.TEXT, *arguments)
    return computed(Kind.NUMBER, lambda text: Fraction(len(text)), *arguments, digits=Digits(10, 0))


def _substring(arguments: Arguments) -> Expression:
    text = arguments[0]
    require(Kind.TEXT, text)
    start, count = (_whole(argument, 1, 10_000) for argument in arguments[1:])
    return computed(Kind.TEXT, lambda whole: whole[start - 1 : start - 1 + count], text)


def _coalesce(arguments: Arguments) -> Expression:
    first, second = beside(*arguments)
    digits = Digits(*first.digits.larger(second.digits))
    names_field = first.names_field or second.names_field
    return Expression(
        first.kind,
        lambda row: second.read(row) if (value := first.read(row)) is None else value,
        digits,
        names_field=names_field,
    )


def _distance_m(arguments: Arguments) -> Expression:
    require(Kind.NUMBER, *arguments)
    return computed(Kind.NUMBER, sphere.distance_m, *arguments, digits=Digits(8, 0))


def _clock(name: str) -> Callable[[Arguments], Expression]:
    digits = Digits(4 if name == "minute_of_day" else 2, 0)

    def function(arguments: Arguments) -> Expression:
        require(Kind.TIMESTAMP, arguments[0])
        zone_name = arguments[1].literal if len(arguments) == 2 else "UTC"
        if not isinstance(zone_name, str):
            raise FilterRefused("a zone is a text literal")
        zone = zone_named(zone_name)

        def shown(moment: Instant) -> Fraction | None:
            value = on_clock(name, moment, zone)
            return None if value is None else Fraction(value)

        return computed(Kind.NUMBER, shown, arguments[0], digits=digits)

    return function


def _whole(argument: Expression, least: int, greatest: int) -> int:
    """A literal whole number between bounds."""
    value = argument.literal
    if not isinstance(value, Fraction) or value.denominator != 1 or not least <= value <= greatest:
        raise FilterRefused(f"a literal from {least} to {greatest} is missing")
    return int(value)


FUNCTIONS: dict[str, tuple[int, int, Callable[[Arguments], Expression]]] = {
    "abs": (1, 1, _abs),
    "round": (1, 2, _round),
    "lower": (1, 1, _lower),
    "length": (1, 1, _length),
    "substring": (3, 3, _substring),
    "coalesce": (2, 2, _coalesce),
    "distance_m": (4, 4, _distance_m),
    **{name: (1, 2, _clock(name)) for name in CLOCKS},
}
"""The fewest and the most arguments of each function, and what it makes of them."""


def like(text: Expression, pattern: str) -> Expression:
    """`s like 'pattern'`. Raises FilterRefused."""
    require(Kind.TEXT, text)
    steps = _pattern(pattern)
    return computed(Kind.BOOLEAN, lambda whole: _matches(whole, steps), text)


def _pattern(pattern: str) -> list[str | None]:
    """The pattern as characters, with None for one character and "" for any number of them."""
    if len(pattern) > LONGEST_PATTERN:
        raise FilterRefused(f"a pattern has at most {LONGEST_PATTERN} characters")
    steps: list[str | None] = []
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            if escaped not in ("%", "_", "\\"):
                raise FilterRefused("a backslash is followed by `%`, `_` or a backslash")
            steps.append(escaped)
        else:
            steps.append({"%": "", "_": None}.get(character, character))
    return steps


def _matches(text: str, steps: Sequence[str | None]) -> bool:
    """Whether the whole text matches: the ends in the text that the steps so far can reach."""
    ends = {0}
    for step in steps:
        if step == "":
            ends = set(range(min(ends), len(text) + 1)) if ends else ends
        else:
            ends = {end + 1 for end in ends if end < len(text) and step in (None, text[end])}
    return len(text) in ends
