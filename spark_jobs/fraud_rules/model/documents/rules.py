"""Documents about rules, lists and maps: the content of a rule record, and the records of an export."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.structs import fields

from fraud_rules.model.aggregate import AggregateFunction
from fraud_rules.model.rule import RuleAction, RuleState
from fraud_rules.model.value_list import ListType
from fraud_rules.model.value_map import MapValueType
from fraud_rules.model.window import Calendar

_Number: TypeAlias = Annotated[Raw, Meta(extra_json_schema={"type": ["number", "string"]})]
"""A decimal number, which a record may contain as text, or an expression."""


class BaselineOfRuleDocument(Struct, rename="camel", kw_only=True):
    """The baseline of a rule: docs/rules.md."""

    window_minutes: int | UnsetType = UNSET
    window_seconds: int | UnsetType = UNSET
    aggregator_function_type: AggregateFunction | UnsetType = UNSET
    aggregate_field_name: str | UnsetType = UNSET
    filter: str | UnsetType = UNSET
    min_count: int | UnsetType = UNSET
    deviations: bool | UnsetType = UNSET


class ConditionOfRuleDocument(Struct, rename="camel", kw_only=True):
    """A condition of a rule: an aggregate, or the id of another rule. See docs/rules.md."""

    rule_id: int | UnsetType = UNSET
    aggregator_function_type: AggregateFunction | UnsetType = UNSET
    limit_operator_type: str | UnsetType = UNSET
    limit: _Number | UnsetType = UNSET
    aggregate_field_name: str | UnsetType = UNSET
    unique: list[str] | UnsetType = UNSET
    window_minutes: int | UnsetType = UNSET
    window_seconds: int | UnsetType = UNSET
    window_calendar: Calendar | UnsetType = UNSET
    zone: str | UnsetType = UNSET
    filter: str | UnsetType = UNSET


class RuleDocument(Struct, rename="camel", kw_only=True):
    """The record of a rule, as its writer sent it, without null members: docs/rules.md."""

    rule_id: int
    rule_state: RuleState
    grouping_key_names: list[str]
    limit_operator_type: str | UnsetType = UNSET
    limit: _Number | UnsetType = UNSET
    aggregator_function_type: AggregateFunction | UnsetType = UNSET
    aggregate_field_name: str | UnsetType = UNSET
    unique: list[str] | UnsetType = UNSET
    window_minutes: int | UnsetType = UNSET
    window_seconds: int | UnsetType = UNSET
    window_calendar: Calendar | UnsetType = UNSET
    zone: str | UnsetType = UNSET
    resolution_seconds: int | UnsetType = UNSET
    cooldown_seconds: int | UnsetType = UNSET
    action: RuleAction | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET
    filter: str | UnsetType = UNSET
    when: str | UnsetType = UNSET
    baseline: BaselineOfRuleDocument | UnsetType = UNSET
    conditions: list[ConditionOfRuleDocument] | UnsetType = UNSET
    require: int | str | UnsetType = UNSET
    rollout_percent: int | UnsetType = UNSET
    name: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    severity: str | UnsetType = UNSET
    weight: int | UnsetType = UNSET
    owner: str | UnsetType = UNSET
    source: str | UnsetType = UNSET
    force: bool | UnsetType = UNSET
    warm_up: bool | UnsetType = UNSET


class ExportedRuleDocument(RuleDocument, rename="camel", kw_only=True):
    """A rule in force at the control EXPORT_RULES_CURRENT whose version is `export`: the rule's record, its position
    among the `rules` of the export, and its version."""

    export: int
    position: int
    rules: int
    rule_version: int


class ExportedListDocument(Struct, rename="camel", frozen=True):
    """A list in force at the control EXPORT_RULES_CURRENT whose version is `export`. `lists` is their number."""

    list_name: str
    list_type: ListType
    size: int
    list_version: int
    export: int
    lists: int


class ExportedMapDocument(Struct, rename="camel", frozen=True):
    """A map in force at the control EXPORT_RULES_CURRENT whose version is `export`. `maps` is their number."""

    map_name: str
    key_type: ListType
    value_type: MapValueType
    size: int
    map_version: int
    export: int
    maps: int


def members_of(document: type[Struct]) -> tuple[str, ...]:
    """The names of a document's members, in order."""
    return tuple(each.encode_name for each in fields(document))
