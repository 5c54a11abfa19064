"""Intents: what should run, as facts in a log.

The offset of an intent is its epoch. An intent names in `after` the epoch it was decided on; one that was decided on
anything but the newest valid intent before it is void. Every reader folds the log to the same answer, so two who decide
at once cannot both win, and nobody holds a lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final

import msgspec

from fraud_rules.deployment.release import Release, fingerprint

__all__ = [
    "NO_EPOCH",
    "SUPERVISOR",
    "Intent",
    "IntentKind",
    "IntentLog",
    "IntentRecord",
    "Rebuild",
    "decode_intent",
    "read_intents",
]

NO_EPOCH: Final = -1
"""What an intent is decided on where there was none before."""

SUPERVISOR: Final = "supervisor"
"""Who asks where no person does: a supervisor that replaces a detector it found dead or stalled."""


class IntentKind(StrEnum):
    """What is wanted."""

    RUN = "RUN"
    DRAIN = "DRAIN"


class Rebuild(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A fresh checkpoint from the topics. `partial` accepts that retention has removed their beginning."""

    partial: bool = False


class Intent(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """One decision about one detector. `attempt_id` is unique; `release` is None for a DRAIN.

    `supervisor` is the id of the Airflow or the command that decides, `requested_by` the person or the DAG run that
    asked. `resume` lifts a stop that the rule log asked for. `accept_loss` goes on without transactions that are gone
    before they were read. `requested_ms` is for people: the time that counts is the append time. Members at their
    defaults are not written, so that an agent of an earlier version can read an intent that does not use newer ones.
    """

    detector: str
    kind: IntentKind
    attempt_id: str
    after: int
    reason: str
    requested_by: str
    supervisor: str
    requested_ms: int
    release: Release | None = None
    resume: bool = False
    rebuild: Rebuild | None = None
    accept_loss: bool = False

    def __post_init__(self) -> None:
        if (self.kind is IntentKind.RUN) != (self.release is not None):
            raise ValueError("a RUN has a release, and a DRAIN has none")

    @property
    def fingerprint(self) -> str | None:
        """That of the release; None for a DRAIN."""
        return None if self.release is None else fingerprint(self.release)

    def encode(self) -> bytes:
        """As JSON; `decode_intent` gives it back."""
        return msgspec.json.encode(self)


decode_intent = msgspec.json.Decoder(Intent).decode
"""What `encode` made. Raises msgspec.DecodeError, also for what a later version wrote."""


@dataclass(frozen=True, slots=True)
class IntentRecord:
    """An intent in its log: its epoch, and the broker's time. `void` when it was decided on something else."""

    epoch: int
    append_ms: int
    intent: Intent
    void: bool


@dataclass(frozen=True)
class IntentLog:
    """The intents of one detector, void ones too, ascending by epoch. `unreadable` are the offsets of records that are
    no intents of this version."""

    detector: str
    records: Sequence[IntentRecord] = ()
    unreadable: Sequence[int] = ()

    @cached_property
    def valid(self) -> Sequence[IntentRecord]:
        """Those that count."""
        return [record for record in self.records if not record.void]

    @property
    def newest(self) -> IntentRecord | None:
        """What is wanted now."""
        return self.valid[-1] if self.valid else None

    @property
    def epoch(self) -> int:
        """What the next intent has to name in `after`."""
        return NO_EPOCH if self.newest is None else self.newest.epoch

    def at(self, epoch: int) -> IntentRecord | None:
        """The record of an epoch."""
        return next((record for record in self.records if record.epoch == epoch), None)

    def attempts_of(self, of_fingerprint: str) -> Sequence[IntentRecord]:
        """The valid intents to run a release."""
        return [record for record in self.valid if record.intent.fingerprint == of_fingerprint]


def read_intents(detector: str, records: Iterable[tuple[int, int, bytes | None]]) -> IntentLog:
    """Fold (offset, append ms, value) records of the whole log, ascending, to one detector's intents."""
    found: list[IntentRecord] = []
    unreadable: list[int] = []
    newest = NO_EPOCH
    for offset, append_ms, value in records:
        try:
            intent = decode_intent(value or b"")
        except (msgspec.MsgspecError, ValueError, RecursionError):
            unreadable.append(offset)
            continue
        if intent.detector != detector:
            continue
        void = intent.after != newest
        found.append(IntentRecord(offset, append_ms, intent, void))
        newest = newest if void else offset
    return IntentLog(detector, found, unreadable)
