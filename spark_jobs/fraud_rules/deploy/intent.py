"""Intents: records in a log that state what should run.

The offset of an intent is its epoch. `after` names the epoch that the intent is based on. An intent is void if that
is not the newest valid intent before it. Every reader folds the log to the same result, so of two concurrent
decisions only one is valid, without a lock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec

from fraud_rules.deploy.release import Release, fingerprint

if TYPE_CHECKING:
    from fraud_rules.kafka.reader import Record

NO_EPOCH: Final = -1
"""The value of `after` for the first intent of a log."""

ATTEMPT_ID: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}", re.ASCII)
"""The valid attempt ids. The agent makes a folder of this name, so an id must not lead out of its parent folder."""

SIGNATURE: Final = "signature"
"""The header of a record with the signature of its value, see `intent_keys`."""

SUPERVISOR: Final = "supervisor"
"""The value of `requested_by` if a supervisor replaces a dead or stalled detector."""


class IntentKind(StrEnum):
    """The kinds of intents."""

    RUN = "RUN"
    DRAIN = "DRAIN"


class Rebuild(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The order to recompute the state. `partial` accepts that retention has removed the topics' beginning."""

    partial: bool = False


class Intent(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """One decision about one detector. `attempt_id` is unique and matches `ATTEMPT_ID`. `release` is None for a DRAIN.

    `supervisor` is the id of the deciding Airflow or command. `requested_by` is the person or the DAG run that made
    the request. `resume` lifts a stop that the rule log requested. `accept_loss` continues without transactions that
    were removed before they were read. `requested_ms` is for display only; decisions use the append time. Members at
    their defaults are not written, so that an agent of an earlier version can read an intent without newer members.
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
        if ATTEMPT_ID.fullmatch(self.attempt_id) is None:
            raise ValueError("an attempt id has lower-case letters, digits and '-', at most 64")
        if (self.kind is IntentKind.RUN) != (self.release is not None):
            raise ValueError("a RUN needs a release, and a DRAIN must not have one")

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of the release. None for a DRAIN."""
        return None if self.release is None else fingerprint(self.release)

    def encode(self) -> bytes:
        """Encode as JSON for `decode_intent`."""
        return msgspec.json.encode(self)


decode_intent = msgspec.json.Decoder(Intent).decode
"""Decodes the result of `encode`. Raises msgspec.DecodeError, also for an intent of a later version."""


@dataclass(frozen=True, slots=True)
class IntentRecord:
    """An intent in its log, with its epoch and the broker's time. `void`: see the module.

    `content` is the encoded intent. `signature` is empty for an intent without one. An unsigned or forged intent is as
    valid in this log as any other, because a reader without the keys cannot distinguish them. The agent refuses it.
    """

    epoch: int
    append_ms: int
    intent: Intent
    void: bool
    content: bytes = b""
    signature: bytes = b""


@dataclass(frozen=True)
class IntentLog:
    """The intents of one detector, with the void ones, ascending by epoch.

    `unreadable` are the offsets of the records that this version cannot decode.
    """

    detector: str
    records: Sequence[IntentRecord] = ()
    unreadable: Sequence[int] = ()

    @cached_property
    def valid(self) -> Sequence[IntentRecord]:
        """The intents that are not void."""
        return [record for record in self.records if not record.void]

    @property
    def newest(self) -> IntentRecord | None:
        """The newest valid intent: the desired state."""
        return self.valid[-1] if self.valid else None

    @property
    def epoch(self) -> int:
        """The epoch that the next intent must name in `after`."""
        return NO_EPOCH if self.newest is None else self.newest.epoch

    def at(self, epoch: int) -> IntentRecord | None:
        """The record of an epoch, valid or void."""
        return next((record for record in self.records if record.epoch == epoch), None)


def read_intents(detector: str, records: Iterable[Record]) -> IntentLog:
    """Fold the records of the whole log, ascending, into the intents of one detector."""
    found: list[IntentRecord] = []
    unreadable: list[int] = []
    newest = NO_EPOCH
    for record in records:
        content = record.value or b""
        try:
            intent = decode_intent(content)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            unreadable.append(record.offset)
            continue
        if intent.detector != detector:
            continue
        void = intent.after != newest
        signature = dict(record.headers).get(SIGNATURE) or b""
        found.append(IntentRecord(record.offset, record.append_ms, intent, void, content, signature))
        newest = newest if void else record.offset
    return IntentLog(detector, found, unreadable)
