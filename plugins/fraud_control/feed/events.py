"""The events of the feed and their decoding from records.

Other programs may write to these topics, so decoding checks all values: numbers are bounded, and the values of free
members are scalars. Therefore each event can be stored, compared and encoded again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from fraud_control.domain.read_models import RuleChanged
from fraud_control.domain.snoozing import Snoozing
from fraud_control.feed.decisions import CorrectedScore, OutcomeName
from fraud_control.feed.place import FeedSource, Position
from fraud_rules.logs.detector_status import BatchProgress
from fraud_rules.logs.rule_status import RuleOperation

_INT64: Final = 2**63 - 1
_EXACT: Final = 2**53  # a browser's numbers are exact up to here

_Id: TypeAlias = Annotated[int, msgspec.Meta(ge=-_INT64, le=_INT64)]
_Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=-_EXACT, le=_EXACT)]
_Time: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_EXACT)]


class _Trigger(msgspec.Struct, rename="camel"):
    transaction_id: _Id | str


class _Payment(msgspec.Struct, rename="camel"):
    triggering_event: msgspec.Raw


class _Violated(msgspec.Struct, frozen=True):
    severity: str | None = None


class _Baseline(msgspec.Struct, rename="camel"):
    value: str
    count: _Whole
    window_start: _Whole
    window_end: _Whole


class _Condition(msgspec.Struct, rename="camel"):
    value: str | None
    count: _Whole | None
    holds: bool
    window_start: _Whole | None = None
    limit: str | None = None
    rule_id: _Whole | None = None
    rule_version: _Whole | None = None


class AlertFacts(msgspec.Struct, rename="camel"):
    """The members of an alert that the feed uses, and those that a page could not show if they had another type."""

    alert_id: str
    rule_id: _Id
    rule_version: _Whole
    key: dict[str, Any]
    triggering_event: _Trigger
    window_start: _Whole
    window_end: _Whole
    event_time: _Whole
    shadow: bool = False
    violated_rule: msgspec.Raw = msgspec.Raw(b"null")
    baseline: _Baseline | None = None
    lists: dict[str, _Whole] | None = None
    limit: str | None = None
    previous: dict[str, Any] | None = None
    conditions: list[_Condition] | None = None
    role: str | None = None

    def __post_init__(self) -> None:
        _check_scalars(self.key)

    @property
    def severity(self) -> str:
        """The severity of the rule that fired, in lower case. Empty without one, and for an unreadable rule."""
        try:
            return (_violated(self.violated_rule).severity or "").lower()
        except (msgspec.DecodeError, RecursionError):
            return ""


_NO_ALERT = msgspec.Raw(b"null")


class _Correction(msgspec.Struct, rename="camel"):
    alert_id: str
    kind: str
    corrected_at: _Time
    rule_id: _Id | None = None
    transaction_id: _Id | str | None = None
    score: _Whole | None = None
    outcome: OutcomeName | None = None
    alert: msgspec.Raw = _NO_ALERT  # msgspec decodes only null for a union of Raw and None


@dataclass(frozen=True, slots=True)
class FeedAlert:
    """An alert with its place, its append time, and its published JSON on one line.

    `added_ms` is set if a correction added the alert, which is then only in the corrections. `snoozed` says whether
    its rule or key was snoozed when it arrived.
    """

    source: FeedSource
    offset: int
    append_ms: int
    facts: AlertFacts
    json: bytes
    added_ms: int | None = None
    snoozed: bool = False

    @property
    def position(self) -> Position:
        """The position of the alert among all alerts."""
        return self.append_ms, int(self.source), self.offset

    def with_snooze(self, snoozing: Snoozing) -> FeedAlert:
        """Return the alert with `snoozed` set to the snoozes in force."""
        return replace(self, snoozed=snoozing.covers(self.facts.rule_id, self.facts.key))

    @property
    def payment(self) -> str:
        """The payment that fired, as JSON on several lines."""
        event = bytes(_payment(self.json).triggering_event)
        return msgspec.json.format(event, indent=2).decode()

    @property
    def size(self) -> int:
        """The approximate size in memory, in bytes."""
        return len(self.json) + 1_000


@dataclass(frozen=True, slots=True)
class FeedCorrection:
    """A correction; `alert` is the alert that it added, if any. `corrected` is the transaction's score with it."""

    offset: int
    append_ms: int
    alert_id: str
    kind: str
    time_ms: int
    rule_id: int | None
    alert: FeedAlert | None
    transaction_id: int | str | None = None
    corrected: CorrectedScore | None = None
    source: FeedSource = FeedSource.CORRECTIONS


@dataclass(frozen=True, slots=True)
class FeedOperation:
    """The detector's report about a record of the rule log."""

    offset: int
    operation: RuleOperation
    source: FeedSource = FeedSource.OPERATIONS


@dataclass(frozen=True, slots=True)
class FeedRuleChange:
    """A rule, a list or a map was changed. `offset` is a row of the audit log."""

    offset: int
    changed: RuleChanged
    source: FeedSource = FeedSource.CHANGES


@dataclass(frozen=True, slots=True)
class FeedBatch:
    """The progress of a batch, with the append time of its record."""

    append_ms: int
    progress: BatchProgress


class LateGrouping(msgspec.Struct, frozen=True, rename="camel"):
    """A grouping for which a transaction was late."""

    fields: list[str]
    lateness_ms: _Whole


class _Late(msgspec.Struct, rename="camel"):
    transaction: dict[str, Any]
    lateness_ms: _Whole
    groupings: list[LateGrouping]

    def __post_init__(self) -> None:
        _check_scalars(self.transaction)


@dataclass(frozen=True, slots=True)
class FeedLateTransaction:
    """A late transaction with its lateness."""

    append_ms: int
    transaction: Mapping[str, object]
    lateness_ms: int
    groupings: Sequence[LateGrouping]


@dataclass(frozen=True, slots=True)
class FeedQuarantine:
    """A quarantined record: its headers and its first bytes."""

    append_ms: int
    headers: tuple[tuple[str, str], ...]
    begins: str


Event: TypeAlias = FeedAlert | FeedCorrection | FeedOperation | FeedRuleChange

_violated = msgspec.json.Decoder(_Violated).decode
_payment = msgspec.json.Decoder(_Payment).decode
_alert = msgspec.json.Decoder(AlertFacts, float_hook=Decimal).decode
_correction = msgspec.json.Decoder(_Correction).decode
_late = msgspec.json.Decoder(_Late, float_hook=Decimal).decode


def read_alert(source: FeedSource, offset: int, append_ms: int, value: bytes) -> FeedAlert:
    """Decode an alert. Raises one of UNDECODABLE for a record that is not an alert."""
    return FeedAlert(source, offset, append_ms, _alert(value), _line(value))


def stored_alert(source: FeedSource, offset: int, append_ms: int, line: bytes, added_ms: int | None) -> FeedAlert:
    """Build an alert from the JSON that an earlier `FeedAlert` had."""
    return FeedAlert(source, offset, append_ms, _alert(line), line, added_ms)


def read_late(append_ms: int, value: bytes) -> FeedLateTransaction:
    """Decode a late transaction. Raises one of UNDECODABLE for any other record."""
    found = _late(value)
    return FeedLateTransaction(append_ms, found.transaction, found.lateness_ms, found.groupings)


def read_correction(offset: int, append_ms: int, value: bytes) -> FeedCorrection:
    """Decode a correction. Raises one of UNDECODABLE for any other record."""
    found = _correction(value)
    alert, text = None, bytes(found.alert)
    if found.kind == "ADDED" and text != bytes(_NO_ALERT):
        alert = FeedAlert(FeedSource.CORRECTIONS, offset, append_ms, _alert(text), _line(text), found.corrected_at)
    corrected = None
    if found.score is not None and found.outcome is not None:
        corrected = CorrectedScore(found.score, found.outcome)
    return FeedCorrection(
        offset,
        append_ms,
        found.alert_id,
        found.kind,
        found.corrected_at,
        found.rule_id,
        alert,
        found.transaction_id,
        corrected,
    )


def with_snooze(event: Event, snoozing: Snoozing) -> Event:
    """Return the event with the `snoozed` of its alert, if it has one, set to the snoozes in force."""
    match event:
        case FeedAlert():
            return event.with_snooze(snoozing)
        case FeedCorrection(alert=FeedAlert() as alert):
            return replace(event, alert=alert.with_snooze(snoozing))
    return event


def _line(value: bytes) -> bytes:
    """Put JSON on one line for the event stream, because a producer may use several lines."""
    text = value.strip()
    return msgspec.json.format(text, indent=-1) if b"\n" in text or b"\r" in text else text


def _check_scalars(members: Mapping[str, object]) -> None:
    """Raise ValueError for a value that is not a scalar, or an integer of more than 64 bits."""
    for name, value in members.items():
        if isinstance(value, list | dict) or (isinstance(value, int) and abs(value) > _INT64):
            raise ValueError(f"{name[:40]!a} is not a scalar of at most 64 bits")
