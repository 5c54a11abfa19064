"""Reads from the archive what has expired in the topics: payments, the batches that evaluated them, and alerts.

The archive keeps the values of payments, but not their bytes. So they become JSON records of the schema's plain form.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec
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
from fraud_rules.replay.recording import RecordedBatch, RecordedRule, RecordedTransaction, RecordedWarmUp, Recording

_REJECTED: Final = Reason("state", "refused by the detector")
ALERT_TABLES: Final = (Table.ALERTS, Table.SHADOW_ALERTS)
"""The tables of the alerts as they were written, live or shadow."""


class _Correction(msgspec.Struct, rename="camel"):
    kind: str
    corrected_at: int = 0
    alert: msgspec.Raw = msgspec.Raw(b"")


_decode_correction = msgspec.json.Decoder(_Correction).decode


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
    events_ms = span_ms[0], span_ms[1] + settings.future_tolerance_ms
    found = _payments(store, manifest, schema, events_ms, span_ms, budget)
    payments = [each for each in found if (each.partition, each.offset) not in known]
    written = _own_batches(store, manifest, settings, span_ms[0])
    batches, missing = _batches(written, settings.topics.transactions, span_ms[0], payments, budget)
    missing += _gaps(part, manifest, settings.topics.transactions, span_ms[0])
    if payments:
        missing.append(_without_bytes(payments))
    recording = replace(part.recording, batches=[*batches, *part.recording.batches])
    return RunPart(recording, span_ms[0], missing, part.kept, payments)


def archived_part(
    store: ArchiveStore,
    settings: DetectorSettings,
    schema: TransactionSchema,
    rules: list[RecordedRule],
    events_ms: tuple[int, int],
    seen_ms: int,
    budget: ReadBudget,
) -> RunPart:
    """The part of a run that a re-evaluation read at `seen_ms`: the payments that were evaluated, by the first and the
    last event time, and the batches that evaluated them.

    Raises ArchiveDamaged, ArchiveUnreachable and NotProvable.
    """
    manifest, topic = store.latest(), settings.topics.transactions
    since_ms = events_ms[0] - settings.future_tolerance_ms
    found = list(_payments(store, manifest, schema, events_ms, (since_ms, seen_ms), budget))
    written = _own_batches(store, manifest, settings, min((each.append_ms for each in found), default=since_ms))
    batches, _ = _batches(_readers(written, topic, found), topic, since_ms, found, budget)
    ends: dict[int, int] = {}
    for batch in batches:
        ends |= batch.ends
    payments = [each for each in found if each.offset < ends.get(each.partition, 0)]
    missing = [_without_bytes(payments)] if payments else []
    return RunPart(Recording(rules, [], batches, settings.key_groups), since_ms, missing, archived=payments)


def added_alert(value: bytes) -> bytes | None:
    """The alert in a correction. None for other corrections, and for a record that is none."""
    try:
        correction = _decode_correction(value)
    except UNDECODABLE:
        return None
    return bytes(correction.alert) or None if correction.kind == "ADDED" else None


def retracted_ms(value: bytes) -> int | None:
    """When a correction retracted its alert. None for other corrections, and for a record that is none."""
    try:
        correction = _decode_correction(value)
    except UNDECODABLE:
        return None
    return correction.corrected_at if correction.kind == "RETRACTED" else None


def archived_records(store: ArchiveStore, tables: Sequence[Table], name: str) -> Iterator[bytes]:
    """The records with an id as their key, the newest first."""
    manifest, key = store.latest(), name.encode()
    files = [file for table in tables for file in manifest.of(table)]
    for file in sorted(files, key=lambda each: each.day, reverse=True):
        if pc.any(_is_key(read_log(store, [file], ["key"]), key)).as_py():
            table = read_log(store, [file], ["key", "value"])
            yield from reversed(table.filter(_is_key(table, key)).column("value").to_pylist())


def archived_alerts(store: ArchiveStore, from_ms: int, last_ms: int) -> Iterator[bytes]:
    """The live and shadow alerts of a time, by event day."""
    for table in ALERT_TABLES:
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
    events_ms: tuple[int, int],
    appends_ms: tuple[int, int],
    budget: ReadBudget,
) -> Iterator[RecordedTransaction]:
    """The payments with these event and append times, each the first and the last one."""
    first_ms, until_ms = events_ms
    files = [each for each in manifest.of(Table.TRANSACTIONS) if first_ms <= each.last_ms and each.first_ms <= until_ms]
    for rows in DayFeed(store, files, schema, None, first_ms).slices() if files else ():
        times = rows.columns[TIME_FIELD].values
        if int(times.min()) > until_ms:
            return
        is_appended = (rows.append_ms >= appends_ms[0]) & (rows.append_ms <= appends_ms[1])
        chosen = np.flatnonzero(is_appended & (times <= until_ms))
        budget.take(len(chosen))
        for i, row in zip(chosen.tolist(), rows.rows(chosen.tolist(), schema), strict=True):
            place = int(rows.append_ms[i]), int(rows.partition[i]), int(rows.offset[i])
            yield RecordedTransaction(*place, encode(row))


def _readers(
    batches: Iterable[tuple[int, WrittenBatch]], topic: str, payments: Sequence[RecordedTransaction]
) -> Iterator[tuple[int, WrittenBatch]]:
    """The batches that have read one of these payments, each after the batch before it, and those with warm-ups.

    A payment that came hours late would need all batches of these hours: 20 a second.
    """
    offsets: dict[int, list[int]] = {}
    for each in payments:
        offsets.setdefault(each.partition, []).append(each.offset)
    for of_partition in offsets.values():
        of_partition.sort()
    reached: dict[int, int] = {}
    before: tuple[int, WrittenBatch] | None = None
    for append_ms, batch in batches:
        ends = batch.ends_of(topic)
        counts = {at: bisect_left(offsets[at], end) for at, end in ends.items() if at in offsets}
        if batch.warm_ups or any(count > reached.get(at, 0) for at, count in counts.items()):
            if before is not None:
                yield before
            yield append_ms, batch
            before = None
        else:
            before = append_ms, batch
        reached |= counts


def _batches(
    written: Iterable[tuple[int, WrittenBatch]],
    topic: str,
    from_ms: int,
    payments: Sequence[RecordedTransaction],
    budget: ReadBudget,
) -> tuple[list[RecordedBatch], list[str]]:
    """Of these batches, those from the last one before a time up to those of the payments, and what is missing before
    them. `written` has the batches with the append times of their records."""
    found, missing = list[RecordedBatch](), list[str]()
    unread: dict[int, int] = {}
    for each in payments:
        unread[each.partition] = max(unread.get(each.partition, 0), each.offset)
    for append_ms, batch in written:
        if append_ms < from_ms:
            found.clear()
        else:
            budget.take(1)
            if not found and batch.batch_id > 0:
                missing.append(f"the batches before batch {batch.batch_id}")
        ends = batch.ends_of(topic)
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


def _without_bytes(payments: Sequence[RecordedTransaction]) -> str:
    return f"the bytes of {len(payments)} payments, whose values are from the archive"


def _gaps(part: RunPart, manifest: Manifest, topic: str, from_ms: int) -> Iterator[str]:
    """The offsets that neither the topic nor the archive has."""
    archived: Mapping[str, int] = manifest.ends.get(topic, {})
    for partition, kept in sorted(part.kept.items()):
        end = archived.get(str(partition), 0)
        if end < kept:
            yield f"{topic}-{partition} from {end} to {kept}"
    if any(manifest.starts.get(topic, {}).values()) and (manifest.began_ms or 0) > from_ms:
        yield f"payments before {manifest.began_ms}, where the archive begins"
