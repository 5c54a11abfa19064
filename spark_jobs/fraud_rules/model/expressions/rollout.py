"""The share of the grouping keys for which a rule is evaluated.

A hash of the rule's id and the key decides, so that the same keys stay in when the percentage rises, and another rule
has other keys. docs/semantics.md has the bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fraud_rules.model.expressions.columnwise import Mask
from fraud_rules.model.expressions.expression import Columns, Expression, FieldRef
from fraud_rules.model.expressions.predicate import Predicate
from fraud_rules.model.expressions.unscaled import unscaled_text
from fraud_rules.model.schema import FieldType
from fraud_rules.model.transaction import Column

ALL_KEYS: Final = 100
"""The percentage of all keys."""

_Kind: TypeAlias = tuple[FieldType, int]
_REMEMBERED_KEYS: Final = 1 << 16
_HASH_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Rollout(Predicate):
    """True for `percent` of the keys of rule `rule_id`. `key` are the fields of its grouping in order of name.

    The result for a row with a null in its key is undefined, because no rule is evaluated for it.
    """

    rule_id: int
    percent: int
    key: tuple[FieldRef, ...]

    def truth_masks(self, columns: Columns, n: int) -> tuple[Mask, Mask]:
        parts = [columns[each.name] for each in self.key]
        first, inverse = _distinct_keys([part.values for part in parts])
        kinds = tuple((each.type, each.scale) for each in self.key)
        values = zip(*(_values(part, first) for part in parts), strict=True)
        shares = np.array([_share(self.rule_id, kinds, each) for each in values], dtype=np.int64)
        holds = (shares < self.percent)[inverse]
        return holds, ~holds

    @property
    def operands(self) -> tuple[Expression, ...]:
        return self.key

    def __str__(self) -> str:
        return f"rollout({self.rule_id}, {self.percent}, {', '.join(map(str, self.key))})"


def _distinct_keys(parts: Sequence[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first row of each distinct combination of values, and the number of each row's combination."""
    first, codes = np.zeros(0, dtype=np.int64), np.zeros(len(parts[0]), dtype=np.int64)
    for values in parts:
        known, own = np.unique(values, return_inverse=True)
        _, first, codes = np.unique(codes * len(known) + own, return_index=True, return_inverse=True)
    return first, codes


def _values(column: Column, rows: NDArray[np.int64]) -> Sequence[int | str]:
    """The texts of a column of strings, and the integers of every other column."""
    values: list[int] = column.values[rows].tolist()
    if column.dictionary is None:
        return values
    texts = column.dictionary or ("",)  # a column of nulls
    return [texts[code] for code in values]


@lru_cache(_REMEMBERED_KEYS)
def _share(rule_id: int, kinds: tuple[_Kind, ...], key: tuple[int | str, ...]) -> int:
    return share_of(rule_id, list(map(_text, kinds, key)))


def share_of(rule_id: int, key: Sequence[str]) -> int:
    """The place of a key among the hundred shares of a rule's keys. `key` has the texts of its values in order of the
    fields' names: decimals without trailing zeros, `true` or `false`."""
    named = b"".join(b"%d:%b" % (len(part), part) for part in map(str.encode, [str(rule_id), *key]))
    return int.from_bytes(hashlib.sha256(named).digest()[:_HASH_BYTES], "big") % ALL_KEYS


def _text(kind: _Kind, value: int | str) -> str:
    if isinstance(value, str):
        return value
    if kind[0] is FieldType.BOOLEAN:
        return "true" if value else "false"
    return unscaled_text(value, kind[1])
