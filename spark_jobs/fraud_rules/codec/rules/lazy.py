"""Reads records of a long rule log without decoding those that nothing needs.

Most records of an old rule log are superseded revisions of rules. Only a record's rule id and grouping decide whether
it can be skipped, and msgspec reads these two members about fifty times faster than the codec validates the record. A
record of any other kind is decoded at once: a deletion, a control, the text form, a record that is certainly invalid.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Annotated, Final, Literal

import msgspec

from fraud_rules.codec.rules.codec import read_outcome
from fraud_rules.codec.rules.collections.records import kind_of_record
from fraud_rules.codec.rules.numbers import MAX_RULE_ID
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.log_entry import Grouping, LogEntry, RecordOutcome, UndecodedRule
from fraud_rules.model.schema import TransactionSchema

_REMEMBERED_OUTCOMES = 1_024
_REMEMBERED_GROUPINGS = 1_024
_NAMING: Final = re.compile(rb"list|map|conditions|\\u", re.IGNORECASE)
"""Words of a rule that looks values up or names rules. An escape can hide them."""
_LONG: Final = re.compile(rb"resolutionSeconds|\\u")
"""The member of a rule with a long window. An escape can hide it."""


class _Head(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The members of a rule record that decide which rules and groupings are in force."""

    rule_id: Annotated[int, msgspec.Meta(ge=1, le=MAX_RULE_ID)]
    rule_state: Literal["ACTIVE", "PAUSE", "SHADOW", "SIGNAL"]
    grouping_key_names: tuple[str, ...]
    disabled: bool | None = None


class EntryReader:
    """Builds the entries of one rule log. Several threads may use it.

    The outcomes of the last decoded records stay in memory, because the users of an entry ask for its outcome several
    times. Their number is bounded, so an entry costs little more memory than its record.
    """

    def __init__(self, schema: TransactionSchema, limits: RuleLimits) -> None:
        self._max_bytes = limits.max_record_bytes
        self._head = msgspec.json.Decoder(_Head).decode
        self._grouping: Callable[[tuple[str, ...]], Grouping | None] = lru_cache(_REMEMBERED_GROUPINGS)(
            partial(_canonical, schema)
        )
        self._read: Callable[[bytes], RecordOutcome] = lambda value: read_outcome(value, schema, limits)
        self._decode: Callable[[bytes], RecordOutcome] = lru_cache(_REMEMBERED_OUTCOMES)(self._read)

    def read(self, version: int, append_ms: int, value: bytes | None) -> LogEntry:
        """Build the log entry of a record at offset `version`. Its outcome is the outcome of `read_entry`."""
        return LogEntry(version, append_ms, append_ms, self._content(value or b""))

    def _content(self, value: bytes) -> RecordOutcome | UndecodedRule:
        if kind_of_record(value) is not None:
            return self._read(value)  # not remembered, because its change holds no more than the record
        if len(value) > self._max_bytes:
            return self._decode(value)
        try:
            head = self._head(value)
        except (ValueError, RecursionError):
            return self._decode(value)
        grouping = self._grouping(head.grouping_key_names)
        if head.disabled or grouping is None:
            return self._decode(value)
        may_name, may_be_long = (words.search(value) is not None for words in (_NAMING, _LONG))
        return UndecodedRule(head.rule_id, grouping, value, self._decode, may_name, may_be_long)


def _canonical(schema: TransactionSchema, names: tuple[str, ...]) -> Grouping | None:
    """The grouping of these names and aliases; None if the schema does not declare all of them."""
    found = [schema.key_name(name) for name in names]
    return tuple(sorted({name for name in found if name})) if all(found) else None
