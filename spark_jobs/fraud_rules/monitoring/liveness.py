"""Decides whether the detector evaluates payments now: the start of an outage, the waiting payments and the severity.

Pure. The figures of the last batch are outdated as soon as batches stop, so this module does not use them. The number
of waiting payments comes from the present ends of `transactions`. All times are the broker's, in epoch ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec

from fraud_rules.deploy.intent import IntentKind, IntentLog
from fraud_rules.logs.detector_status import BatchProgress, longest_silence_ms
from fraud_rules.model.day import DAY_MS
from fraud_rules.model.open_transaction import OpenTransaction
from fraud_rules.runtime.clock import utc_text

AMBER_MS: Final = 10_000
"""A batch takes about a second. If a payment waits longer than this, the detector is slow or has ended."""

RED_MS: Final = 60_000
"""An orderly restart takes less time than this. After a longer outage, a person has to act."""

RED_STARTS: Final = 2
"""The first start after a failure is routine. A second start means that the first did not help."""


class Severity(StrEnum):
    """The severity of an outage."""

    NONE = "NONE"
    AMBER = "AMBER"
    RED = "RED"


@dataclass(frozen=True, slots=True)
class PartitionEnds:
    """One partition of an input topic: its first offset, its end offset, its end offset `AMBER_MS` ago, and the offset
    up to which its records are committed.

    The ends include the records of open transactions, because an open transaction hides the payments behind it.
    """

    first: int
    end: int
    end_before: int
    committed: int

    @property
    def is_hidden(self) -> bool:
        """Whether a transaction that is older than `AMBER_MS` hides records. A shorter one is normal."""
        return self.committed < self.end_before


class Liveness(msgspec.Struct, frozen=True, rename="camel"):
    """The state of payment evaluation at `at_ms`. `since_ms` is the end of the last batch, None before the first batch.

    `asked_ms` is the time of the first requested start. `waiting` counts the payments after the last batch, those
    behind an open transaction included; it is None while Kafka does not answer. `starts` counts the starts that were
    requested after the last batch. `missing` are the topics without which the next batch waits. `open_transaction` is
    the oldest transaction that hides records of an input topic for longer than `AMBER_MS`.
    """

    severity: Severity
    at_ms: int
    since_ms: int | None
    asked_ms: int | None
    waiting: int | None
    starts: int
    missing: tuple[str, ...] = ()
    open_transaction: OpenTransaction | None = None

    def sentence(self) -> str:
        """Describe the outage for the readers of a terminal."""
        return f"{self._cause()} {_waiting(self.waiting)}"

    def _cause(self) -> str:
        if self.missing:
            return f"The next batch waits for missing topics: {', '.join(self.missing)} (fraud kafka topics apply)."
        if self.open_transaction is not None:
            said = self.open_transaction.describe(self.at_ms)
            return f"{said[0].upper()}{said[1:]} (docs/runbooks/hung-producer.md)."
        if self.since_ms is None:
            return "No payment evaluated yet."
        return f"No payment evaluated since {_clock(self.since_ms, self.at_ms)}."


def liveness(
    newest: tuple[int, BatchProgress] | None,
    ends: Mapping[int, PartitionEnds] | None,
    topic: str,
    now_ms: int,
    tick_ms: int,
    *,
    starts: int = 0,
    asked_ms: int | None = None,
    missing: tuple[str, ...] = (),
    open_transaction: OpenTransaction | None = None,
) -> Liveness:
    """Assess the newest progress record with its append time, and the ends of the partitions of `transactions`.

    `ends` is None if Kafka does not answer. An idle detector writes a batch at least every `tick_ms`, so its silence is
    an outage even if no payment is waiting. A detector that writes batches is no outage, unless a topic is `missing` or
    an `open_transaction` hides records.
    """
    since_ms = None if newest is None else newest[0]
    evaluated = {} if newest is None else newest[1].ends_of(topic)
    begins = {partition: max(each.first, evaluated.get(partition, 0)) for partition, each in (ends or {}).items()}
    waiting = overdue = None
    if ends is not None:
        waiting = sum(max(0, each.end - begins[partition]) for partition, each in ends.items())
        overdue = any(each.end_before > begins[partition] for partition, each in ends.items())
    base_ms = asked_ms if since_ms is None else since_ms
    age_ms = None if base_ms is None else now_ms - base_ms
    found = [_severity(age_ms, tick_ms, starts, overdue=bool(overdue), ever=since_ms is not None)]
    if missing:
        found.append(Severity.AMBER)
    if open_transaction is not None:
        found.append(Severity.RED if open_transaction.age_ms(now_ms) > RED_MS else Severity.AMBER)
    return Liveness(
        severity=max(found, key=list(Severity).index),
        at_ms=now_ms,
        since_ms=since_ms,
        asked_ms=asked_ms,
        waiting=waiting,
        starts=starts,
        missing=missing,
        open_transaction=open_transaction,
    )


def starts_since(intents: IntentLog, since_ms: int | None) -> int:
    """The number of starts requested after the last batch at `since_ms`; all starts if `since_ms` is None."""
    runs = [record for record in intents.valid if record.intent.kind is IntentKind.RUN]
    return sum(since_ms is None or record.append_ms > since_ms for record in runs)


def _severity(age_ms: int | None, tick_ms: int, starts: int, *, overdue: bool, ever: bool) -> Severity:
    if age_ms is None:
        return Severity.AMBER
    if ever and age_ms <= longest_silence_ms(tick_ms) and not (overdue and age_ms > AMBER_MS):
        return Severity.NONE
    return Severity.RED if age_ms > RED_MS or starts >= RED_STARTS else Severity.AMBER


def _clock(time_ms: int, now_ms: int) -> str:
    shown = utc_text(time_ms)
    return shown.partition(" ")[2] if now_ms - time_ms < DAY_MS else shown


def _waiting(count: int | None) -> str:
    match count:
        case None:
            return "Number of waiting payments unknown."
        case 0:
            return "No payments waiting."
        case 1:
            return "1 payment waiting."
        case _:
            return f"{count:,} payments waiting."
