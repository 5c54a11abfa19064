"""The rule log of a detector process: read from Kafka up to a pin, and kept in memory.

All processes get the same entries, because decoding is a pure function of a record, and the pin contains the records
that the driver rejected because of a budget or a wrong append time.

Each process reads the whole log at its start, so that the digest covers every record. Only the records that decide a
rule set are decoded (`codec.rules.lazy`, `model.ruleset`): about one record for each rule in force, and a few more for
deletions, controls and changes of a grouping. So a start costs about ten microseconds a record, and there is no file
that could differ from the log.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fraud_rules.codec.rules.lazy import EntryReader
from fraud_rules.errors import ConfigError, TopicUnsuitable
from fraud_rules.kafka.reader import Record, TopicReader
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.log_entry import LogEntry, Rejections, with_rejections
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TransactionSchema

ReadRange = Callable[[int, int], Iterable[Record]]
Reached = Callable[[int, int], None]
"""Receives the number of records read and their total, at the end and every thousand records."""

_REPORTED_RECORDS = 1_000


@dataclass(frozen=True, slots=True)
class _Range:
    """The entries with versions in [start, end). `digest` covers their records, and continues the digest `base`."""

    start: int
    end: int
    base: str
    entries: Sequence[LogEntry]
    digest: str


class RuleLog:
    """The rule log of one process, read as it grows. Several threads may use it."""

    def __init__(
        self,
        read: ReadRange,
        schema: TransactionSchema,
        limits: RuleLimits,
        reached: Reached = lambda done, total: None,
    ) -> None:
        """`read` returns the records of an offset range. `of` creates a log that reads from Kafka."""
        self._read = read
        self._reached = reached
        self._reader = EntryReader(schema, limits)
        self._lock = threading.Lock()
        self._timeline = RuleTimeline()
        self._digest = ""
        self._last: _Range | None = None

    @classmethod
    def of(
        cls,
        reader: TopicReader,
        schema: TransactionSchema,
        limits: RuleLimits,
        reached: Reached = lambda done, total: None,
    ) -> RuleLog:
        """The rule log that `reader` reads. The reader stays connected, because a new connection would delay rules."""
        return cls(reader.read, schema, limits, reached)

    def up_to(
        self, end: int, rejected: Rejections, digest: str = "", admitted: RuleTimeline | None = None
    ) -> RuleTimeline:
        """The log below offset `end`. Reads only the records that this process has not read yet.

        `admitted` is this log, if the caller has extended it with `entries` and `rejected` already.

        Raises BrokerUnavailable if Kafka does not have the records, and TopicUnsuitable if they do not match `digest`.
        """
        with self._lock:
            if end < self._timeline.end:
                return RuleTimeline([each for each in self._timeline.entries if each.version < end], end)
            if end > self._timeline.end:
                new, self._last = self._range(self._timeline.end, end), None
                if digest and new.digest != digest:
                    raise TopicUnsuitable(
                        f"the rule log below offset {end} differs from the log that the detector read before: records "
                        "were compacted, deleted or replaced. Restore the topic, and keep it forever, uncompacted"
                    )
                if admitted is None:
                    admitted = self._timeline.extended(with_rejections(new.entries, rejected), end)
                self._timeline = admitted
                self._digest = new.digest
            return self._timeline

    def digest(self, end: int) -> str:
        """A digest of the records below offset `end`, which must not be below the end of the last `up_to`. Raises
        BrokerUnavailable.

        It is a chain: the digest of a longer log continues the digest of a shorter one.
        """
        with self._lock:
            return self._range(self._timeline.end, end).digest if end > self._timeline.end else self._digest

    def entries(self, start: int, end: int, rejected: Rejections) -> list[LogEntry]:
        """The entries with versions in [start, end), before their rule times are set. Raises BrokerUnavailable."""
        with self._lock:
            return with_rejections(self._range(start, end).entries, rejected)

    def _range(self, start: int, end: int) -> _Range:
        """Read a range. The last range stays in memory until `up_to` has it, because admission and pinning both read
        it."""
        base = self._digest if start == self._timeline.end else ""
        if self._last is None or (self._last.start, self._last.end, self._last.base) != (start, end, base):
            self._last = self._read_range(start, end, base)
        return self._last

    def _read_range(self, start: int, end: int, base: str) -> _Range:
        entries, digest = [], base
        for record in self._read(start, end):
            text = b"%s %d %d " % (digest.encode(), record.offset, record.append_ms) + (record.value or b"")
            digest = hashlib.blake2b(text, digest_size=16).hexdigest()
            entries.append(self._reader.read(record.offset, record.append_ms, record.value))
            if len(entries) % _REPORTED_RECORDS == 0:
                self._reached(len(entries), end - start)
        self._reached(len(entries), end - start)
        return _Range(start, end, base, entries, digest)


def check_rule_log(reader: TopicReader) -> None:
    """Raise ConfigError if the topic cannot be a rule log, because it has several partitions or has lost records."""
    if len(reader.partitions()) != 1:
        raise ConfigError(f"the rule log {reader.topic} must have one partition: its order is the order of the rules")
    first, _ = reader.ends()
    if first > 0:
        lost = f"the rule log {reader.topic} has lost its first {first} records"
        raise ConfigError(f"{lost}: keep it forever, uncompacted")
