"""An archive built from a document of `fraud streams replay`, equal to the archive that the job builds from topics."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fraud_rules.batch.archive.files import write_transactions
from fraud_rules.batch.archive.manifest import BatchResult, FileEntry, Table
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.model.day import DAY_MS, Day
from fraud_rules.model.schema import TIME_FIELD, TransactionSchema
from fraud_rules.replay.recording import RecordedWarmUp, Recording
from fraud_rules.replay.replay import settings_of_recording
from tests.support.nightly.log_files import write_log
from tests.support.records.decoded import decoded_recording
from tests.support.records.progress import progress_record

TRANSACTIONS = "transactions"
QUERY = "query"


def settings_of(document: Mapping[str, Any]) -> DetectorSettings:
    """The settings of a document's recording."""
    return settings_of_recording(Recording.of_document(document), DetectorSettings())


def over_midnight(document: Mapping[str, Any]) -> dict[str, Any]:
    """Shift a document so that midnight lies in the middle of its transactions' event times."""
    times = sorted(step["tx"]["eventTime"] for step in document["steps"] if "tx" in step)
    if not times:
        return dict(document)
    middle = times[len(times) // 2]
    shift = -middle % DAY_MS
    steps = []
    for step in document["steps"]:
        moved = {**step, "at": step["at"] + shift}
        if "tx" in step:
            moved["tx"] = {**step["tx"], "eventTime": step["tx"]["eventTime"] + shift}
        steps.append(moved)
    return {**document, "steps": steps}


@dataclass(frozen=True)
class Site:
    """An archive of one document that grows batch by batch. `topic` is that of the transactions."""

    store: ArchiveStore
    document: Mapping[str, Any]
    schema: TransactionSchema
    topic: str = TRANSACTIONS

    @classmethod
    def make(cls, folder: Path, document: Mapping[str, Any], schema: TransactionSchema) -> Site:
        return cls(ArchiveStore(folder), document, schema)

    @property
    def settings(self) -> DetectorSettings:
        return settings_of(self.document)

    def archive(self, upto: int | None = None, *, until_ms: int = 2**50) -> list[Day]:
        """Append the unarchived records of the first `upto` batches (default: all) and return their days."""
        recording = Recording.of_document(self.document)
        manifest = self.store.latest()
        rest: dict[str, int] = {}
        for tx in recording.transactions:
            rest[str(tx.partition)] = tx.offset + 1
        cuts = [{str(p): end for p, end in batch.ends.items()} for batch in recording.batches] + [rest]
        pins = [batch.pin for batch in recording.batches] + [len(recording.rules)]
        refused = [sorted(batch.rejections) for batch in recording.batches] + [[]]
        count = len(cuts) if upto is None else min(upto, len(cuts))
        done = sum(file.rows for file in manifest.of(Table.PROGRESS)) - 1
        files: list[FileEntry] = []
        if not manifest.of(Table.RULES):
            rules = [(rule.append_ms, b"", rule.value) for rule in recording.rules]
            files += self._log(Table.RULES, rules)
        ends: dict[str, int] = {}
        for cut in cuts[:count]:
            ends = {p: max(end, ends.get(p, 0)) for p, end in {**ends, **cut}.items()}
        known = manifest.ends.get(self.topic, {})
        files += self._transactions(recording, known, ends)
        last_ms = recording.transactions[-1].append_ms if recording.transactions else 0
        added = [batch.warm_ups for batch in recording.batches] + [()]
        progress = [
            (
                _last_append_ms(recording, cuts[i]) if added[i] else last_ms,
                b"detector",
                _progress(i, cuts[i], pins[i], refused[i], added[i], topic=self.topic),
            )
            for i in range(done + 1, count)
        ]
        files += self._log(Table.PROGRESS, progress, first_offset=done + 1)
        batch = BatchResult(tuple(files), 0, 0)
        manifest = manifest.with_batch({self.topic: ends}, batch)
        self.store.commit(manifest)
        self.store.commit(manifest.complete(until_ms))
        return sorted({Day(file.day) for file in files if file.table is Table.TRANSACTIONS})

    def add_alerts(self, transactions: Sequence[tuple[int, int | str]]) -> list[str]:
        """Add an alert of rule 1 for each transaction (event time and id), and return the alert ids."""
        files = []
        for at_ms, transaction_id in transactions:
            alert = {
                "alertId": f"alert-{transaction_id}", "ruleId": 1, "ruleVersion": 0, "key": {}, "eventTime": at_ms,
                "triggeringEvent": {"transactionId": transaction_id}, "triggeringValue": "1", "windowCount": 1,
                "violatedRule": {},
            }  # fmt: skip
            record = at_ms, str(alert["alertId"]).encode(), json.dumps(alert).encode()
            files += self._log(Table.ALERTS, [record], first_offset=len(files))
        manifest = self.store.latest()
        added = msgspec.structs.replace(manifest, version=manifest.version + 1, files=(*manifest.files, *files))
        self.store.commit(added)
        return [f"alert-{transaction_id}" for _, transaction_id in transactions]

    def _transactions(self, recording: Recording, known: Mapping[str, int], ends: Mapping[str, int]) -> list[FileEntry]:
        new = [
            tx
            for tx in recording.transactions
            if known.get(str(tx.partition), 0) <= tx.offset < ends.get(str(tx.partition), 0)
        ]
        if not new:
            return []
        rows = decoded_recording(new, self.schema, self.settings.record_limits)
        days = rows.columns[TIME_FIELD].values // DAY_MS
        return [
            write_transactions(self.store, Day(day), rows.take(days == day), self.schema)
            for day in np.unique(days).tolist()
        ]

    def _log(
        self, table: Table, records: Sequence[tuple[int, bytes, bytes | None]], first_offset: int = 0
    ) -> list[FileEntry]:
        if not records:
            return []
        placed = [(offset, *each) for offset, each in enumerate(records, first_offset)]
        return [write_log(self.store, table, Day.of(records[0][0]), placed)]


def _last_append_ms(recording: Recording, ends: Mapping[str, int]) -> int:
    """The append time of the last transaction below these offsets."""
    return max(tx.append_ms for tx in recording.transactions if tx.offset < ends.get(str(tx.partition), 0))


def _progress(
    number: int,
    ends: Mapping[str, int],
    pin: int,
    refused: Sequence[int],
    warm_ups: Sequence[RecordedWarmUp] = (),
    time_zones: str = "",
    topic: str = TRANSACTIONS,
) -> bytes:
    joined = [{"version": each.version, "offset": 0, "digest": "", "ends": each.ends} for each in warm_ups]
    members = {"queryId": QUERY, "rulesEnd": pin, "rulesRefused": list(refused), "timeZones": time_zones}
    return progress_record(number, {topic: dict(ends)}, **members, warmUps=joined)
