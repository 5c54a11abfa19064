"""The name of a governed item: its kind, and its key among the items of this kind."""

from __future__ import annotations

from typing import Final, NamedTuple

from fraud_rules.model.value_list import CollectionKind, CollectionName

RULE: Final = "rule"
LIST: Final = CollectionKind.LIST.value
MAP: Final = CollectionKind.MAP.value


class ItemName(NamedTuple):
    """The name of an item. Its text is the name for users: `rule 7`."""

    kind: str
    key: str

    @classmethod
    def of_rule(cls, rule_id: int) -> ItemName:
        """The name of a rule."""
        return cls(RULE, str(rule_id))

    @classmethod
    def of_list(cls, name: str) -> ItemName:
        """The name of a list."""
        return cls(LIST, name)

    @classmethod
    def of_map(cls, name: str) -> ItemName:
        """The name of a map."""
        return cls(MAP, name)

    @classmethod
    def of_collection(cls, named: CollectionName) -> ItemName:
        """The name of a list or map."""
        kind, name = named
        return cls(kind.value, name)

    @property
    def collection_kind(self) -> CollectionKind:
        """The kind of a list or map."""
        return CollectionKind(self.kind)

    @property
    def rule_id(self) -> int | None:
        """The id of a rule; None for another item."""
        return int(self.key) if self.kind == RULE and self.key.isdecimal() else None

    @property
    def list_name(self) -> str | None:
        """The name of a list; None for another item."""
        return self.key if self.kind == LIST else None

    @property
    def map_name(self) -> str | None:
        """The name of a map; None for another item."""
        return self.key if self.kind == MAP else None

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


NO_ITEM: Final = ItemName("", "")
"""The name in rows that concern no item."""
