"""Documents about transactions: the transaction itself, decisions, late transactions and evaluations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from fraud_rules.model.decision import DecisionOutcome

GroupingKey: TypeAlias = Annotated[
    Mapping[str, Any],
    Meta(extra_json_schema={"additionalProperties": {"type": ["number", "string", "boolean"]}}),
]
"""The values of a grouping's fields by name."""


class TransactionDocument(Struct, rename="camel", gc=False, frozen=True):
    """A transaction: the fields of config/schema.yaml that are not null. Timestamps are epoch milliseconds, decimals
    numbers with all digits."""

    transaction_id: int | str
    event_time: int


class DecidingAlertDocument(Struct, rename="camel", gc=False, frozen=True):
    """An alert that counts in a decision, with the weight of its rule."""

    rule_id: int
    rule_version: int
    alert_id: str
    weight: int


class DecisionDocument(Struct, rename="camel", gc=False, frozen=True):
    """The decision about a transaction with alerts. `score` is the sum of the weights."""

    transaction_id: int | str
    score: int
    outcome: DecisionOutcome
    alerts: list[DecidingAlertDocument]
    event_time: int
    ingestion_time: int
    detection_time: int
    transaction: TransactionDocument | Raw


class LateGroupingDocument(Struct, rename="camel", gc=False, frozen=True):
    """The lateness in one grouping."""

    fields: list[str]
    lateness_ms: int


class LateTransactionDocument(Struct, rename="camel", gc=False, frozen=True):
    """A transaction that was late in at least one grouping, and its position in the topic of transactions."""

    transaction: TransactionDocument | Raw
    lateness_ms: int
    groupings: list[LateGroupingDocument]
    partition: int
    offset: int
    append_time: int


class EvaluationDocument(Struct, rename="camel", gc=False, frozen=True):
    """The evaluation of one rule for one transaction. `value` is the aggregate as a decimal text, null if the window
    has none. `role` is that of the row in a grouping by an entity."""

    rule_id: int
    rule_version: int
    key: GroupingKey
    transaction_id: int | str
    event_time: int
    value: str | None
    window_count: int
    outcome: Literal["no", "alert", "suppressed", "signal"]
    role: str | UnsetType = UNSET
