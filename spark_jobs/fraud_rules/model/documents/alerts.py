"""Documents about alerts: the alert itself, its restriction, and its correction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from fraud_rules.model.decision import DecisionOutcome
from fraud_rules.model.documents.rules import RuleDocument
from fraud_rules.model.documents.transactions import GroupingKey, TransactionDocument


class BaselineDocument(Struct, rename="camel", gc=False, frozen=True):
    """The baseline of an alert: its value as a decimal text, the number of its rows, and its window, whose end is
    exclusive."""

    value: str
    count: int
    window_start: int
    window_end: int


PreviousDocument: TypeAlias = Annotated[
    Mapping[str, Any],
    Meta(extra_json_schema={"additionalProperties": {"type": ["number", "string", "boolean", "null"]}}),
]
"""The fields of the previous payment by name, and its `transactionId`."""


class ConditionDocument(Struct, rename="camel", gc=False, frozen=True):
    """A condition of an alert: its aggregate as a decimal text, the number of rows in its window, the start of the
    window, and whether it holds. `limit` is the value of a limit that is an expression. A condition without a value, a
    window or a limit has null, and does not hold.

    A condition that names a rule has its `ruleId` and `ruleVersion`, and the value and count of that rule: null if it
    was not evaluated."""

    value: str | None
    count: int | None
    holds: bool
    window_start: int | UnsetType | None = UNSET
    limit: str | UnsetType | None = UNSET
    rule_id: int | UnsetType = UNSET
    rule_version: int | UnsetType = UNSET


class AlertDocument(Struct, rename="camel", gc=False, frozen=True):
    """An alert of a rule for a transaction. `triggeringValue` is the aggregate as a decimal text, `ingestionTime` the
    append time of the transaction. `lists` and `maps` have the versions of the lists and maps that the rule names.
    `limit` is the value of a limit that is an expression, as a decimal text. `previous` has the id and the fields of
    the previous payment that the rule reads, decimals as texts; it is null without such a payment. If the rule has only
    conditions, `triggeringValue` is the number of those that hold. If it groups by an
    entity, `key` has the entity's value, and `role` names its role in the transaction."""

    alert_id: str
    rule_id: int
    rule_version: int
    shadow: bool
    violated_rule: RuleDocument | Raw
    key: GroupingKey
    triggering_value: str
    triggering_event: TransactionDocument | Raw
    window_start: int
    window_end: int
    window_count: int
    window_complete: bool
    suppressed: int
    event_time: int
    ingestion_time: int
    detection_time: int
    baseline: BaselineDocument | UnsetType = UNSET
    lists: Mapping[str, int] | UnsetType = UNSET
    maps: Mapping[str, int] | UnsetType = UNSET
    limit: str | UnsetType = UNSET
    previous: PreviousDocument | UnsetType | None = UNSET
    conditions: list[ConditionDocument] | UnsetType = UNSET
    role: str | UnsetType = UNSET


class RestrictionDocument(Struct, rename="camel", gc=False, frozen=True):
    """A restriction of a grouping key from the event time `since` on. A second record with the same `alertId` and with
    `lifted` ends it."""

    key: GroupingKey
    since: int
    alert_id: str
    rule_id: int
    lifted: int | UnsetType = UNSET
    lifted_by: Literal["RETRACTED"] | UnsetType = UNSET


class CorrectionDocument(Struct, rename="camel", frozen=True):
    """A correction of an alert by the re-evaluation of a day. `score` and `outcome` replace those of the transaction's
    decision. The correction of an alert that Kafka and the archive have lost has no members after `correctedAt`."""

    kind: Literal["ADDED", "RETRACTED"]
    alert_id: str
    day: str
    event_time: int
    run: str
    corrected_at: int
    rule_id: int | UnsetType = UNSET
    rule_version: int | UnsetType = UNSET
    key: GroupingKey | UnsetType = UNSET
    transaction_id: int | str | Raw | UnsetType = UNSET
    alert: AlertDocument | Raw | UnsetType = UNSET
    score: int | UnsetType = UNSET
    outcome: DecisionOutcome | UnsetType = UNSET
