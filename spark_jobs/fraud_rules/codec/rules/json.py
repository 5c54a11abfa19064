"""Exact and bounded decoding of one JSON object, for the rule log.

The standard decoder does the work, but this module also rejects repeated member names, `NaN` and `Infinity`, and reads
numbers as `int` or `Decimal`, never as a float. It returns the faults beside the object, by top-level member, so that
they can be reported together with the faults of the rule itself.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from decimal import Decimal

from fraud_rules.codec.nesting import is_deep
from fraud_rules.errors import Reason, RuleRejected
from fraud_rules.model.limits import RuleLimits
from fraud_rules.runtime.safe_text import is_unprintable, quote

_MAX_NUMBER_CHARS = 128


@dataclass(frozen=True, slots=True)
class UnusableNumber:
    """Replaces an unusable number. `why` describes the fault."""

    why: str


@dataclass(slots=True)
class DecodedObject:
    """A decoded object, and its faults as JSON."""

    members: dict[str, object]
    reasons: list[Reason] = field(default_factory=list)


def decode_object(text: str, limits: RuleLimits, long_members: Collection[str] = ()) -> DecodedObject:
    """Decode the text of one JSON object. Raises `RuleRejected` if the text yields no object with members to check.

    The faults exclude those inside a list or object of `long_members`, which the caller checks.
    """
    if is_deep(text):
        raise RuleRejected([Reason("record", "is nested too deep")])
    repeated: list[str] = []

    def object_of(pairs: list[tuple[str, object]]) -> dict[str, object]:
        members = dict(pairs)
        if len(members) < len(pairs):
            repeated.extend(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        return members

    try:
        decoded = json.loads(
            text, object_pairs_hook=object_of, parse_float=_number, parse_int=_number, parse_constant=_constant
        )
    except json.JSONDecodeError as error:
        raise RuleRejected([Reason("record", f"is not JSON: {error.msg} at character {error.pos + 1}")]) from error
    if not isinstance(decoded, dict):
        raise RuleRejected([Reason("record", "must be one JSON object")])
    if len(decoded) > limits.max_members:
        problem = f"has {len(decoded)} members, at most {limits.max_members} are allowed"
        raise RuleRejected([Reason("record", problem)])
    reasons = [Reason(_named(name), "is given twice") for name in repeated[: limits.max_members]]
    checked = {
        name: value for name, value in decoded.items() if name not in long_members or not isinstance(value, list | dict)
    }
    return DecodedObject(decoded, [*reasons, *faults_of(checked, limits)])


def faults_of(members: dict[str, object], limits: RuleLimits) -> list[Reason]:
    """List the faults that are forbidden in every member: unusable numbers, unprintable text, deep nesting."""
    return [
        Reason(_named(name), problem)
        for name, value in members.items()
        for problem in dict.fromkeys(_problems(name, value, limits.max_nesting, limits.max_members))
    ]


def _problems(name: str, value: object, depth_left: int, most: int) -> Iterator[str]:
    """List the faults of one member. The depth, and `most` items per level, bound the work for a value of any shape."""
    if is_unprintable(name):
        yield "has a NUL or half of a surrogate pair in its name"
    if depth_left == 0:
        yield "is nested too deep"
    elif isinstance(value, UnusableNumber):
        yield value.why
    elif isinstance(value, str):
        if is_unprintable(value):
            yield "contains a NUL or half of a surrogate pair"
    elif isinstance(value, dict | list):
        if len(value) > most:
            yield f"has {len(value)} items, at most {most} are allowed"
            return
        for inner_name, inner in value.items() if isinstance(value, dict) else (("", item) for item in value):
            yield from _problems(inner_name, inner, depth_left - 1, most)


def _number(text: str) -> int | Decimal | UnusableNumber:
    """Parse a JSON number exactly. The length is bounded, because converting digits takes quadratic time."""
    if len(text) > _MAX_NUMBER_CHARS:
        return UnusableNumber(f"is a number of {len(text)} characters, at most {_MAX_NUMBER_CHARS} are allowed")
    try:
        return int(text) if text.lstrip("-").isdigit() else Decimal(text)
    except ArithmeticError:
        return UnusableNumber(f"is out of range: {quote(text)}")


def _constant(text: str) -> UnusableNumber:
    return UnusableNumber(f"is {text}, which is not a number")


def _named(name: str) -> str:
    """Format a member's name for a message. Only the names of real members are short and plain; others are quoted."""
    return name if name.isascii() and name.isalnum() and len(name) <= 40 else quote(name)
