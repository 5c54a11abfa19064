"""Reads a history file as an import would, and keeps nothing: first payments, days, and rejected records."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

from fraud_rules.batch.rejections import Rejections, decode_history
from fraud_rules.codec.history.files import history_records, schema_of_file
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.model.schema import TIME_FIELD, TransactionSchema

_CHUNK: Final = 50_000
_SHOWN: Final = 5


@dataclass(slots=True)
class HistoryPreview:
    """`payments` are the lines of the first payments with their values. The times are those of all payments."""

    transactions: int = 0
    payments: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    rejected: Rejections = field(default_factory=Rejections)
    first_ms: int | None = None
    last_ms: int | None = None


def preview(path: Path, schema: TransactionSchema, settings: DetectorSettings, now_ms: int) -> HistoryPreview:
    """Read the whole file. Raises InputInvalid."""
    found = HistoryPreview()
    records = history_records(path, schema)
    while chunk := list(islice(records, _CHUNK)):
        decoded = decode_history(chunk, 0, 0, now_ms, schema_of_file(path, schema), settings.record_limits)
        found.rejected.add(path.name, len(chunk), decoded.rejects)
        found.transactions += len(decoded.batch)
        for i in range(min(_SHOWN - len(found.payments), len(decoded.batch))):
            found.payments.append((chunk[int(decoded.batch.offset[i])].line, decoded.batch.row(i, schema)))
        times = decoded.batch.columns[TIME_FIELD].values
        if len(times):
            least, most = int(times.min()), int(times.max())
            found.first_ms = least if found.first_ms is None else min(least, found.first_ms)
            found.last_ms = most if found.last_ms is None else max(most, found.last_ms)
    return found
