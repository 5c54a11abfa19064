"""Events of the feed, and how they are read from records. A record that cannot be read is no event."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import msgspec

from fraud_ops.control_plane.feed.place import Position, Source
from fraud_rules.detector_status import Progress
from fraud_rules.kafka.rule_status import RuleOperation

__all__ = [
    "AlertFacts", "AlertSeen", "CorrectionSeen", "Event", "LateSeen", "OperationSeen", "ProgressPassed",
    "QuarantineSeen", "RuleTouched", "read_alert", "read_correction",
]  # fmt: skip


class _Trigger(msgspec.Struct, rename="camel"):
    transaction_id: int | str


class AlertFacts(msgspec.Struct, rename="camel"):
    """What the feed has to know of an alert."""

    alert_id: str
    rule_id: int
    rule_version: int
    key: dict[str, Any]
    triggering_event: _Trigger
    window_start: int
    window_end: int
    event_time: int
    shadow: bool = False


_NO_ALERT = msgspec.Raw(b"null")


class _Correction(msgspec.Struct, rename="camel"):
    alert_id: str
    kind: str
    corrected_at: int
    rule_id: int | None = None
    alert: msgspec.Raw = _NO_ALERT  # a union of Raw and None takes nothing but null


@dataclass(frozen=True, slots=True)
class AlertSeen:
    """An alert: where it is, the broker's time of it, and its JSON as published.

    `added_ms` is when a correction added it; such an alert is in the corrections only.
    """

    source: Source
    offset: int
    append_ms: int
    facts: AlertFacts
    json: bytes
    added_ms: int | None = None

    @property
    def position(self) -> Position:
        """Where it is among all."""
        return self.append_ms, int(self.source), self.offset

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


@dataclass(frozen=True, slots=True)
class LateSeen:
    """A late transaction: the record's JSON."""

    append_ms: int
    json: bytes


@dataclass(frozen=True, slots=True)
class QuarantineSeen:
    """A record that was refused, by its headers, and how it begins."""

    append_ms: int
    headers: tuple[tuple[str, str], ...]
    begins: str


Event: TypeAlias = AlertSeen | CorrectionSeen | OperationSeen | RuleTouched | ProgressPassed

_alert = msgspec.json.Decoder(AlertFacts, float_hook=Decimal).decode
_correction = msgspec.json.Decoder(_Correction).decode


def read_alert(source: Source, offset: int, append_ms: int, value: bytes) -> AlertSeen:
    """Raises msgspec.MsgspecError (a ValueError) for what is no alert."""
    return AlertSeen(source, offset, append_ms, _alert(value), value.strip())


def read_correction(offset: int, append_ms: int, value: bytes) -> CorrectionSeen:
    """Raises msgspec.MsgspecError (a ValueError) for what is no correction."""
    found = _correction(value)
    alert, text = None, bytes(found.alert)
    if found.kind == "ADDED" and text != bytes(_NO_ALERT):
        alert = AlertSeen(Source.CORRECTIONS, offset, append_ms, _alert(text), text.strip(), found.corrected_at)
    return CorrectionSeen(offset, append_ms, found.alert_id, found.kind, found.corrected_at, found.rule_id, alert)
