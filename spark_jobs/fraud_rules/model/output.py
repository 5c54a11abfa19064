"""The output records of a key group for one batch."""

from __future__ import annotations

from enum import IntEnum
from typing import Self

import msgspec

from fraud_rules.model.tables.narrow_column import NarrowColumn


class ViewRefresh(IntEnum):
    """The work that made the view of a key group current before a batch."""

    NONE = 0
    CATCH_UP = 1
    REBUILD = 2


class AlertRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One alert as JSON, with its sort key among all alerts: (append_ms, partition, offset, rule_id, role).

    The members from `rule_version` on are for the decision about the transaction. The transaction's JSON is the part of
    `json` from `transaction_at` to `transaction_end`, so that a decision repeats it without decoding the alert.
    In a grouping by an entity, `role` is the number of the row's role.
    """

    append_ms: int
    partition: int
    offset: int
    rule_id: int
    alert_id: str
    shadow: bool
    json: bytes
    restriction: bytes | None
    rule_version: int
    weight: int
    transaction_id: int | str
    event_ms: int
    transaction_at: int
    transaction_end: int
    role: int = 0


class LateRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One transaction, as JSON, that was late in one grouping."""

    append_ms: int
    partition: int
    offset: int
    grouping: str
    lateness_ms: int
    json: bytes


class DuplicateRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One delivery that a grouping ignored, because the grouping already retains the same transactionId.

    `conflicting`: another declared field differs from the retained transaction.
    """

    append_ms: int
    partition: int
    offset: int
    grouping: str
    transaction_id: int | str
    conflicting: bool = False


class RuleCost(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The measured CPU time that a version of a rule needed for each transaction of its grouping, in ns, and the number
    of transactions that the measurement stands for."""

    version: int
    cpu_ns: float
    transactions: int


class RuleMatches(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The transactions of rules in one run of rows: how many each rule's filter let through (`passed`), and at how many
    its `when` held. Without a `when`, both are the same."""

    rules: list[int]
    passed: list[int]
    held: list[int]


class NamedOutcomes(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The outcomes, for `rows` payments, of rules that other rules name. `engine.named_outcomes` describes the
    columns."""

    rows: int
    columns: list[NarrowColumn]


class PendingAlert(msgspec.Struct, array_like=True, frozen=True):
    """An alert of a rule that names rules, before their outcomes are known. Its conditions are those that are
    aggregates.

    `entries` is the number of entries of the rule log that apply. `incarnation` and `key` identify the mark of the rule
    for the grouping key in the state of `epoch`, whose last alert had the event time `last_ms`; `suppressed` counts the
    alerts suppressed since. `holding` counts the conditions that are aggregates and hold. A value of the key is text,
    or a number as the state stores it. `evaluation` is the JSON of the evaluation, if evaluations are written.
    """

    alert: AlertRecord
    entries: int
    incarnation: int
    epoch: int
    key: tuple[int | str, ...]
    last_ms: int | None
    suppressed: int
    holding: int
    evaluation: bytes | None = None


class MarkUpdate(msgspec.Struct, array_like=True, frozen=True):
    """A mark that an alert of a rule that names rules has changed, for the key group that keeps it. The members are
    those of `PendingAlert`; `fields` is the grouping."""

    key_group: int
    fields: tuple[str, ...]
    epoch: int
    incarnation: int
    key: tuple[int | str, ...]
    last_ms: int | None
    suppressed: int


class Packed(msgspec.Struct, array_like=True, frozen=True):
    """A value that a task sends to the driver."""

    def encode(self) -> bytes:
        """Encode as bytes for `decode`."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, blob: bytes) -> Self:
        """Decode the bytes of `encode`."""
        return msgspec.msgpack.decode(blob, type=cls)


class KeyGroupOutput(Packed, array_like=True, frozen=True):
    """One key group's part of a batch. `rows` counts a transaction once per grouping, or once per role of an entity.
    `watermark_ms` is the newest of the groupings' watermarks. `retained_marks` counts the marks left by alerts (see
    `engine.state.spent`). `refreshed` is the work that made the view current. `costs` has the costs of the rules that
    were measured in this batch, see `engine.rule_meter`. `string_bytes` are the bytes of the strings, without free
    room. `keys` has the number of keys of each grouping. `pending` and `outcomes` are for the driver, which concludes
    the rules that name rules (`engine.conclusion`)."""

    key_group: int
    rows: int
    retained_events: int
    retained_bytes: int
    watermark_ms: int | None
    alerts: list[AlertRecord]
    late: list[LateRecord]
    duplicates: list[DuplicateRecord]
    evaluations: list[bytes]
    retained_marks: int = 0
    refreshed: ViewRefresh = ViewRefresh.NONE
    costs: list[RuleCost] = []
    string_bytes: int = 0
    matches: list[RuleMatches] = []
    keys: list[tuple[str, int]] = []
    pending: list[PendingAlert] = []
    outcomes: list[NamedOutcomes] = []
