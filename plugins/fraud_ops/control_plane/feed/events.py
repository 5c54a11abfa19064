"""Events of the feed, and how they are read from records.

Other programs may write to these topics. Whatever an event holds can be stored, compared and encoded again: numbers are
bounded, and where members are free, their values are scalars.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from fraud_ops.control_plane.domain.snoozing import Snoozing
from fraud_ops.control_plane.feed.place import Position, Source
from fraud_rules.logs.detector_status import Progress
from fraud_rules.logs.rule_status import RuleOperation

__all__ = [
    "AlertFacts", "AlertSeen", "CorrectionSeen", "Event", "LateGrouping", "LateSeen", "OperationSeen", "ProgressPassed",
    "QuarantineSeen", "RuleTouched", "read_alert", "read_correction", "read_late", "with_snooze",
]  # fmt: skip


_INT64: Final = 2**63 - 1
_EXACT: Final = 2**53  # what a browser's numbers hold

_Id: TypeAlias = Annotated[int, msgspec.Meta(ge=-_INT64, le=_INT64)]
_Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=-_EXACT, le=_EXACT)]
_Time: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_EXACT)]


class _Trigger(msgspec.Struct, rename="camel"):
    transaction_id: _Id | str


class AlertFacts(msgspec.Struct, rename="camel"):
    """What the feed has to know of an alert."""

    alert_id: str
    rule_id: _Id
    rule_version: _Whole
    key: dict[str, Any]
    triggering_event: _Trigger
    window_start: _Whole
    window_end: _Whole
    event_time: _Whole
    shadow: bool = False

    def __post_init__(self) -> None:
        _check_scalars(self.key)


_NO_ALERT = msgspec.Raw(b"null")


class _Correction(msgspec.Struct, rename="camel"):
    alert_id: str
    kind: str
    corrected_at: _Time
    rule_id: _Id | None = None
    alert: msgspec.Raw = _NO_ALERT  # a union of Raw and None takes nothing but null


@dataclass(frozen=True, slots=True)
class AlertSeen:
    """An alert: where it is, the broker's time of it, and its JSON as published, on one line.

    `added_ms` is when a correction added it; such an alert is in the corrections only. `snoozed` is whether its rule or
    key was snoozed when it came.
    """

    source: Source
    offset: int
    append_ms: int
    facts: AlertFacts
    json: bytes
    added_ms: int | None = None
    snoozed: bool = False

    @property
    def position(self) -> Position:
        """Where it is among all."""
        return self.append_ms, int(self.source), self.offset

    def with_snooze(self, snoozing: Snoozing) -> AlertSeen:
        """The same alert, saying whether it is snoozed now."""
        return replace(self, snoozed=snoozing.covers(self.facts.rule_id, self.facts.key))

    @property
    def size(self) -> int:
        """About how many bytes it takes to keep."""
        return len(self.json) + 1_000


@dataclass(frozen=True, slots=True)
class CorrectionSeen:
    """A correction; `alert` is what it added."""

    offset: int
    append_ms: int
    alert_id: str
    kind: str
    time_ms: int
    rule_id: int | None
    alert: AlertSeen | None
    source: Source = Source.CORRECTIONS


@dataclass(frozen=True, slots=True)
class OperationSeen:
    """What the detector said of a record of the rule log."""

    offset: int
    operation: RuleOperation
    source: Source = Source.OPERATIONS


@dataclass(frozen=True, slots=True)
class RuleTouched:
    """Somebody changed a rule; None for what may be any of them. `offset` is a row of the audit log."""

    offset: int
    rule_id: int | None
    revision: int | None
    source: Source = Source.CHANGES


@dataclass(frozen=True, slots=True)
class ProgressPassed:
    """A batch, and the broker's time of its record."""

    append_ms: int
    progress: Progress


class LateGrouping(msgspec.Struct, frozen=True, rename="camel"):
    """A grouping in which a transaction was late."""

    fields: list[str]
    lateness_ms: _Whole


class _Late(msgspec.Struct, rename="camel"):
    transaction: dict[str, Any]
    lateness_ms: _Whole
    groupings: list[LateGrouping]

    def __post_init__(self) -> None:
        _check_scalars(self.transaction)


@dataclass(frozen=True, slots=True)
class LateSeen:
    """A late transaction, and how late it was."""

    append_ms: int
    transaction: Mapping[str, object]
    lateness_ms: int
    groupings: Sequence[LateGrouping]


@dataclass(frozen=True, slots=True)
class QuarantineSeen:
    """A record that was refused, by its headers, and how it begins."""

    append_ms: int
    headers: tuple[tuple[str, str], ...]
    begins: str


Event: TypeAlias = AlertSeen | CorrectionSeen | OperationSeen | RuleTouched | ProgressPassed

_alert = msgspec.json.Decoder(AlertFacts, float_hook=Decimal).decode
_correction = msgspec.json.Decoder(_Correction).decode
_late = msgspec.json.Decoder(_Late, float_hook=Decimal).decode


def read_alert(source: Source, offset: int, append_ms: int, value: bytes) -> AlertSeen:
    """The alert of a record. Raises one of UNDECODABLE for a record that is no alert."""
    return AlertSeen(source, offset, append_ms, _alert(value), _line(value))


def read_late(append_ms: int, value: bytes) -> LateSeen:
    """The late transaction of a record. Raises one of UNDECODABLE for a record that is none."""
    found = _late(value)
    return LateSeen(append_ms, found.transaction, found.lateness_ms, found.groupings)


def read_correction(offset: int, append_ms: int, value: bytes) -> CorrectionSeen:
    """The correction of a record. Raises one of UNDECODABLE for a record that is none."""
    found = _correction(value)
    alert, text = None, bytes(found.alert)
    if found.kind == "ADDED" and text != bytes(_NO_ALERT):
        alert = AlertSeen(Source.CORRECTIONS, offset, append_ms, _alert(text), _line(text), found.corrected_at)
    return CorrectionSeen(offset, append_ms, found.alert_id, found.kind, found.corrected_at, found.rule_id, alert)


def with_snooze(event: Event, snoozing: Snoozing) -> Event:
    """The same event; its alert, if it has one, says whether it is snoozed now."""
    match event:
        case AlertSeen():
            return event.with_snooze(snoozing)
        case CorrectionSeen(alert=AlertSeen() as alert):
            return replace(event, alert=alert.with_snooze(snoozing))
    return event


def _line(value: bytes) -> bytes:
    """JSON on one line, as a line of a stream needs it: a producer may write it over several."""
    text = value.strip()
    return msgspec.json.format(text, indent=-1) if b"\n" in text or b"\r" in text else text


def _check_scalars(members: Mapping[str, object]) -> None:
    """Raise ValueError for a value that is no scalar, or a whole number of more than 64 bits."""
    for name, value in members.items():
        if isinstance(value, list | dict) or (isinstance(value, int) and abs(value) > _INT64):
            raise ValueError(f"{name[:40]!a} is no scalar of at most 64 bits")
