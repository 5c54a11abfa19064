"""The rule log of a detector process: read from Kafka up to a pin, parsed once and kept in memory.

All processes get the same entries, because parsing is a pure function of a record, and the pin contains the records
that the driver rejected because of the state budget.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence

from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.errors import ConfigError, Reason, TopicUnsuitable
from fraud_rules.kafka.reader import Record, TopicReader
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.ruleset import LogEntry, RuleTimeline
from fraud_rules.model.schema import TransactionSchema

__all__ = ["Refusals", "RuleLog", "check_rule_log"]

Refusals = Mapping[int, Sequence[Reason]]
"""The reasons for which the driver rejected valid records, by offset."""

ReadRange = Callable[[int, int], Sequence[Record]]
Reached = Callable[[int, int], None]
"""Receives the number of parsed records and their total, after each record."""


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
        self._last_range: tuple[int, int, Sequence[Record]] = (0, 0, ())
        self._schema = schema
        self._limits = limits
        self._lock = threading.Lock()
        self._timeline = RuleTimeline()
        self._digest = ""

    @classmethod
    def of(
        cls,
        reader: TopicReader,
        schema: TransactionSchema,
        limits: RuleLimits,
        reached: Reached = lambda done, total: None,
    ) -> RuleLog:
        """The rule log that `reader` reads. The reader stays connected, because a new connection would delay rules."""
        return cls(lambda start, end: list(reader.read(start, end)), schema, limits, reached)

    def up_to(self, end: int, refused: Refusals, digest: str = "") -> RuleTimeline:
        """The log below offset `end`. Reads only the records that this process has not read yet.

        Raises BrokerUnavailable if Kafka does not have the records, and TopicUnsuitable if they do not match `digest`.
        """
        with self._lock:
            if end < self._timeline.end:
                return RuleTimeline([each for each in self._timeline.entries if each.version < end], end)
            if end > self._timeline.end:
                actual = self._digest_up_to(end)
                if digest and actual != digest:
                    raise TopicUnsuitable(
                        f"the rule log below offset {end} differs from the log that the detector read before: records "
                        "were compacted, deleted or replaced. Restore the topic, and keep it forever, uncompacted"
                    )
                self._digest = actual
                self._timeline = self._timeline.extended(self.entries(self._timeline.end, end, refused), end)
            return self._timeline

    def digest(self, end: int) -> str:
        """A digest of the records below offset `end`, which must not be below the end of the last `up_to`. Raises
        BrokerUnavailable."""
        with self._lock:
            return self._digest_up_to(end)

    def _digest_up_to(self, end: int) -> str:
        """A chained digest: the digest of a longer log continues the digest of a shorter one."""
        digest = self._digest
        for record in self._records(self._timeline.end, end) if end > self._timeline.end else ():
            text = b"%s %d %d " % (digest.encode(), record.offset, record.append_ms) + (record.value or b"")
            digest = hashlib.blake2b(text, digest_size=16).hexdigest()
        return digest

    def entries(self, start: int, end: int, refused: Refusals) -> list[LogEntry]:
        """The entries with versions in [start, end), before their rule times are set."""
        found = []
        for record in self._records(start, end):
            found.append(self._entry(record, refused.get(record.offset)))
            self._reached(len(found), end - start)
        return found

    def _records(self, start: int, end: int) -> Sequence[Record]:
        """The records of a range. The last range stays in memory, because admission and pinning both read it."""
        if self._last_range[:2] != (start, end):
            self._last_range = (start, end, self._read(start, end))
        return self._last_range[2]

    def _entry(self, record: Record, reasons: Sequence[Reason] | None) -> LogEntry:
        entry = read_entry(record.offset, record.append_ms, record.value, self._schema, self._limits)
        return entry if reasons is None or entry.change is None else entry.refused(reasons)


def check_rule_log(reader: TopicReader) -> None:
    """Raise ConfigError if the topic cannot be a rule log, because it has several partitions or has lost records."""
    if len(reader.partitions()) != 1:
        raise ConfigError(f"the rule log {reader.topic} must have one partition: its order is the order of the rules")
    first, _ = reader.ends()
    if first > 0:
        lost = f"the rule log {reader.topic} has lost its first {first} records"
        raise ConfigError(f"{lost}: keep it forever, uncompacted")
