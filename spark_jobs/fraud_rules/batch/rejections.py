"""The rejected records of history files: how many, why, and where the first of each reason is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from fraud_rules.codec.history.record import HistoryRecord
from fraud_rules.codec.transactions.codec import DecodeResult, RejectedRecord, decode_transactions
from fraud_rules.codec.transactions.raw import RawTransactions
from fraud_rules.errors import HistoryRefused
from fraud_rules.model.limits import RecordLimits
from fraud_rules.model.schema import TransactionSchema

_SHOWN: Final = 3


def decode_history(
    records: Sequence[HistoryRecord],
    partition: int,
    first: int,
    now_ms: int,
    schema: TransactionSchema,
    limits: RecordLimits,
) -> DecodeResult:
    """Decode records of a file as a producer's, at the offsets from `first` on.

    The details of the rejects begin with the line of the record.
    """
    n = len(records)
    raw = RawTransactions.of(
        [each.value for each in records], np.full(n, partition), np.arange(first, first + n), np.full(n, now_ms)
    )
    decoded = decode_transactions(raw, schema, limits)
    rejects = [_at_line(each, records[each.index]) for each in decoded.rejects]
    return DecodeResult(decoded.batch, rejects, decoded.ignored)


def _at_line(reject: RejectedRecord, record: HistoryRecord) -> RejectedRecord:
    reason, detail = record.fault or (reject.reason, reject.detail)
    return RejectedRecord(reject.index, reason, f"line {record.line}: {detail}")


@dataclass(slots=True)
class Rejections:
    """Counts the rejected records of files by reason. `first` has the place and detail of the first of each reason."""

    records: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, file: str, records: int, rejects: Sequence[RejectedRecord]) -> None:
        """Count the rejects among so many records of a file."""
        self.records += records
        for each in rejects:
            self.counts[each.reason] += 1
            self.first.setdefault(each.reason, f"{file} {each.detail}")

    def lines(self) -> list[str]:
        """One line for each reason, the most frequent first."""
        return [f"{count} records: {reason} ({self.first[reason]})" for reason, count in self.counts.most_common()]

    def require_share(self, files: Sequence[Path], most: float) -> None:
        """Raise HistoryRefused if a larger share than `most` is rejected, or if every record is."""
        rejected = self.counts.total()
        if rejected > most * self.records or (rejected and rejected == self.records):
            names = ", ".join(str(file) for file in files[:_SHOWN])
            raise HistoryRefused(
                f"{names}: {rejected} of {self.records} records are unreadable, and nothing was done with the others: "
                f"{'; '.join(self.lines()[:_SHOWN])}. Correct the file or the schema (--dry-run shows the result), or "
                "permit a larger share with --max-rejected"
            )
