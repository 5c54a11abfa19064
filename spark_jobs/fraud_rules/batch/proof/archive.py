"""Reads from the archive what has expired in the topics: payments, the batches that evaluated them, and alerts.

The archive keeps the values of payments, but not their bytes. So they become JSON records of the schema's plain form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fraud_rules.batch.archive.columns import APPEND
from fraud_rules.batch.archive.files import read_log
from fraud_rules.batch.archive.log_merge import merged_log
from fraud_rules.batch.archive.manifest import FileEntry, Manifest, Table
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.proof.budget import ReadBudget
from fraud_rules.batch.reevaluation.feed import DayFeed
from fraud_rules.codec.history.record import encode
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import Reason
from fraud_rules.kafka.decoding import UNDECODABLE
from fraud_rules.logs.batch_history import WrittenBatch, decode_batch
from fraud_rules.logs.detector_status import rejected_versions
from fraud_rules.logs.recorder import RunPart
from fraud_rules.model.day import Day
from fraud_rules.model.schema import TIME_FIELD, TransactionSchema
from fraud_rules.replay.recording import RecordedBatch, RecordedTransaction, RecordedWarmUp

__all__ = ["archived_alert", "archived_alerts", "with_archive"]

_REJECTED: Final = Reason("state", "refused by the detector")
_ALERTS: Final = (Table.ALERTS, Table.SHADOW_ALERTS)


def with_archive(
    part: RunPart,
    store: ArchiveStore,
    settings: DetectorSettings,
    schema: TransactionSchema,
    span_ms: tuple[int, int],
    budget: ReadBudget,
) -> RunPart:
    """Add what a part of a run lacks and the archive has. `span_ms` has the first and the last append time.

    Raises ArchiveDamaged, ArchiveUnreachable and NotProvable.
    """
    manifest = store.latest()
    if not manifest.of(Table.TRANSACTIONS):
        return part
    known = {(each.partition, each.offset) for each in part.recording.transactions}
    found = _payments(store, manifest, schema, span_ms, settings, budget)
    payments = [each for each in found if (each.partition, each.offset) not in known]
    batches, missing = _batches(store, manifest, settings, span_ms[0], payments, budget)
    missing += _gaps(part, manifest, settings.topics.transactions, span_ms[0])
    if payments:
        missing.append(f"the bytes of {len(payments)} payments, whose values are from the archive")
    recording = replace(part.recording, batches=[*batches, *part.recording.batches])
    return RunPart(recording, span_ms[0], missing, part.kept, payments)


def archived_alert(store: ArchiveStore, alert_id: str) -> bytes | None:
    """The alert as it was written, live or shadow. None if the archive has no such alert."""
    manifest, key = store.latest(), alert_id.encode()
    files = [file for table in _ALERTS for file in manifest.of(table)]
    for file in sorted(files, key=lambda each: each.day, reverse=True):
        if pc.any(_is_key(read_log(store, [file], ["key"]), key)).as_py():
            table = read_log(store, [file], ["key", "value"])
            values: list[bytes] = table.filter(_is_key(table, key)).column("value").to_pylist()
            return values[0]
    return None


def archived_alerts(store: ArchiveStore, from_ms: int, last_ms: int) -> Iterator[bytes]:
    """The live and shadow alerts of a time, by event day."""
    for table in _ALERTS:
        for file in _of_days(store.latest().of(table), from_ms, last_ms):
            values = read_log(store, [file], ["value"]).column("value").to_pylist()
            yield from (each for each in values if each is not None)


def _is_key(table: pa.Table, key: bytes) -> pa.ChunkedArray:
    return pc.fill_null(pc.equal(table.column("key"), pa.scalar(key, pa.binary())), False)


def _of_days(files: Sequence[FileEntry], from_ms: int, last_ms: int) -> list[FileEntry]:
    return [each for each in files if Day.of(from_ms).number - 1 <= each.day <= Day.of(last_ms).number + 1]


def _payments(
    store: ArchiveStore,
    manifest: Manifest,
    schema: TransactionSchema,
    span_ms: tuple[int, int],
    settings: DetectorSettings,
    budget: ReadBudget,
) -> Iterator[RecordedTransaction]:
    """The payments that were appended in a time and whose event time is not older."""
    first_ms, last_ms = span_ms
    until_ms = last_ms + settings.future_tolerance_ms
    files = [each for each in manifest.of(Table.TRANSACTIONS) if first_ms <= each.last_ms and each.first_ms <= until_ms]
    for rows in DayFeed(store, files, schema, None, first_ms).slices() if files else ():
        if int(rows.columns[TIME_FIELD].values.min()) > until_ms:
            return
        chosen = np.flatnonzero((rows.append_ms >= first_ms) & (rows.append_ms <= last_ms))
        budget.take(len(chosen))
        for i, row in zip(chosen.tolist(), rows.rows(chosen.tolist(), schema), strict=True):
            place = int(rows.append_ms[i]), int(rows.partition[i]), int(rows.offset[i])
            yield RecordedTransaction(*place, encode(row))


def _batches(
    store: ArchiveStore,
    manifest: Manifest,
    settings: DetectorSettings,
    from_ms: int,
    payments: Sequence[RecordedTransaction],
    budget: ReadBudget,
) -> tuple[list[RecordedBatch], list[str]]:
    """The batches from the last one before a time up to those of these payments, and what is missing before them."""
    found, missing = list[RecordedBatch](), list[str]()
    unread: dict[int, int] = {}
    for each in payments:
        unread[each.partition] = max(unread.get(each.partition, 0), each.offset)
    for append_ms, batch in _own_batches(store, manifest, settings, from_ms):
        if append_ms < from_ms:
            found.clear()
        else:
            budget.take(1)
            if not found and batch.batch_id > 0:
                missing.append(f"the batches before batch {batch.batch_id}")
        ends = batch.ends_of(settings.topics.transactions)
        warm_ups = tuple(
            RecordedWarmUp(warm.version, {int(at): end for at, end in warm.ends.items()}) for warm in batch.warm_ups
        )
        rejected = {version: [_REJECTED] for version in rejected_versions(batch.rules_rejected)}
        found.append(RecordedBatch(ends, batch.rules_end, rejected, warm_ups, batch.time_zones))
        unread = {at: offset for at, offset in unread.items() if ends.get(at, 0) <= offset}
        if not unread:
            break
    return found, missing


def _own_batches(
    store: ArchiveStore, manifest: Manifest, settings: DetectorSettings, from_ms: int
) -> Iterator[tuple[int, WrittenBatch]]:
    """The detector's batches from the day before a time on, with the append times of their records."""
    own = pa.scalar(settings.detector.encode(), pa.binary())
    files = [each for each in manifest.of(Table.PROGRESS) if each.day >= Day.of(from_ms).number - 1]
    for records in merged_log(store, files, [APPEND, "key", "value"]):
        chosen = records.filter(pc.equal(records.column("key"), own))
        times = chosen.column(APPEND).cast(pa.int64()).to_pylist()
        for append_ms, value in zip(times, chosen.column("value").to_pylist(), strict=True):
            try:
                yield append_ms, decode_batch(value or b"")
            except UNDECODABLE:
                continue


def _gaps(part: RunPart, manifest: Manifest, topic: str, from_ms: int) -> Iterator[str]:
    """The offsets that neither the topic nor the archive has."""
    archived: Mapping[str, int] = manifest.ends.get(topic, {})
    for partition, kept in sorted(part.kept.items()):
        end = archived.get(str(partition), 0)
        if end < kept:
            yield f"{topic}-{partition} from {end} to {kept}"
    if any(manifest.starts.get(topic, {}).values()) and (manifest.began_ms or 0) > from_ms:
        yield f"payments before {manifest.began_ms}, where the archive begins"
