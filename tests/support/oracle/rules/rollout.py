"""The keys of a rule's rollout."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from tests.support.oracle.arithmetic import Value, text_of_number


def is_in_rollout(rule_id: int, key: Sequence[Value], percent: int) -> bool:
    """Whether a rule is evaluated for a key. `key` follows the order of the grouping's names."""
    parts = b"".join(_part(value) for value in (rule_id, *key))
    number = int.from_bytes(hashlib.sha256(parts).digest()[:8], "big")
    return number % 100 < percent


def _part(value: Value) -> bytes:
    """The length in bytes, `:`, and the text in UTF-8."""
    match value:
        case bool():
            text = str(value).lower()
        case Decimal():
            text = text_of_number(Fraction(value))
        case _:
            text = str(value)
    encoded = text.encode()
    return b"%d:%s" % (len(encoded), encoded)
