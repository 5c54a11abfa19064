"""The kinds of items."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from fraud_control.domain.item import LIST, MAP, RULE
from fraud_control.service.collections import content as collections
from fraud_control.service.items.kind import Kind
from fraud_control.service.rules import content as rules
from fraud_rules.model.rule import Rule, RuleDeletion
from fraud_rules.model.value_list import ListChange
from fraud_rules.model.value_map import MapChange

KIND_OF_CHANGE: Final[Mapping[type, str]] = MappingProxyType(
    {Rule: RULE, RuleDeletion: RULE, ListChange: LIST, MapChange: MAP}
)
"""The kind of each change in the rule log."""

KINDS: Final[Mapping[str, Kind[Any]]] = MappingProxyType({RULE: rules, LIST: collections, MAP: collections})
"""The content module of each kind."""
