"""The reads of an expression beside the fields of its row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from fraud_rules.model.schema import FieldType
from tests.support.oracle.expressions import Values


class Scope(Enum):
    """The member of a rule that an expression stands in."""

    FILTER = "filter"
    WHEN = "when"
    LIMIT = "limit"
    CONDITION_LIMIT = "limit of a condition"


@dataclass
class Needs:
    """The lists and maps that an expression names, with all types of list, or of key and value, that it needs, and the
    fields of the previous payment. `role` says whether it names the role of the row.
    """

    lists: dict[str, set[FieldType]] = field(default_factory=dict)
    maps: dict[str, set[tuple[FieldType, FieldType]]] = field(default_factory=dict)
    previous: list[str] = field(default_factory=list)
    role: bool = False

    @property
    def reads_more(self) -> bool:
        """Whether it reads more than fields and lists: a member of the third edition."""
        return bool(self.maps or self.previous or self.role)

    @classmethod
    def of(cls, parts: Sequence[Needs]) -> Needs:
        """The needs of all parts."""
        together = cls()
        for part in parts:
            for name, needed in part.lists.items():
                together.lists.setdefault(name, set()).update(needed)
            for name, types in part.maps.items():
                together.maps.setdefault(name, set()).update(types)
            together.role |= part.role
            together.previous += [name for name in part.previous if name not in together.previous]
        return together


@dataclass(frozen=True)
class Formula:
    """A compiled expression: a function of one row, and its needs. The row holds these under keys of their own."""

    read: Callable[[Values], Any]
    needs: Needs

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether a condition is true, not false or unknown."""
        return self.read(row) is True


def list_key(name: str) -> str:
    """The name under which a row holds the values of a list."""
    return f"list('{name}')"


def map_key(name: str) -> str:
    """The name under which a row holds the entries of a map."""
    return f"map('{name}')"


OWN = "own()"
"""The name under which a row holds the value of the rule's own aggregate, or None."""

PREVIOUS = "previous()"
"""The name under which a row holds the values of the previous payment, or None."""
