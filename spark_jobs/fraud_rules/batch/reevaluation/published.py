"""Reads the published alerts of a day, and the corrections of earlier runs."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa

from fraud_rules.batch.archive.files import open_parquet, read_log
from fraud_rules.batch.archive.manifest import Manifest, Table
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.reevaluation.compare import AlertVerdict
from fraud_rules.codec.scalar import TIMESTAMP_MAX_MS, TIMESTAMP_MIN_MS
from fraud_rules.errors import RuleLogForeign
from fraud_rules.model.day import Day
from fraud_rules.model.decision import weight_of
from fraud_rules.model.rule import Rule
from fraud_rules.model.ruleset import LogEntry
from fraud_rules.model.schema import ID_FIELD


class _Rule(msgspec.Struct, rename="camel"):
    name: str | None = None
    action: str | None = None
    severity: str | None = None
    weight: int | None = None


class AlertView(msgspec.Struct, frozen=True, rename="camel"):
    """The members of an alert that a correction needs, read from the encoded alert."""

    alert_id: str
    rule_id: int
    rule_version: int
    key: dict[str, msgspec.Raw]
    triggering_event: dict[str, msgspec.Raw]
    triggering_value: str
    window_count: int
    event_time: int
    violated_rule: _Rule
    shadow: bool = False
    ingestion_time: int = 0

    @property
    def weight(self) -> int:
        """The weight of the rule that fired."""
        return weight_of(self.violated_rule.weight, self.violated_rule.severity)

    @property
    def transaction_id(self) -> int | str:
        """The id of the transaction that fired."""
        found: int | str = msgspec.json.decode(self.triggering_event[ID_FIELD], type=int | str)
        return found

    @property
    def restricts(self) -> bool:
        """Whether the alert has a restriction."""
        return self.violated_rule.action == "RESTRICT" and not self.shadow


view_of = msgspec.json.Decoder(AlertView).decode


class _Correction(msgspec.Struct, rename="camel"):
    kind: str
    alert_id: str
    event_time: int
    alert: msgspec.Raw = msgspec.Raw(b"")


class _Decision(msgspec.Struct, rename="camel"):
    transaction_id: int | str
    event_time: int


_decision = msgspec.json.Decoder(_Decision).decode
_correction = msgspec.json.Decoder(_Correction).decode
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError, ArithmeticError, KeyError)
_log = logging.getLogger(__name__)


_EVENT_MS = range(TIMESTAMP_MIN_MS, TIMESTAMP_MAX_MS + 1)
"""The event times of transactions."""


def event_time_of(table: Table, value: bytes) -> int:
    """The event time of an archived alert, decision or correction. Raises one of `decoding.UNDECODABLE` for any other
    record."""
    match table:
        case Table.CORRECTIONS:
            found: _Correction | _Decision | AlertView = _correction(value)
        case Table.DECISIONS:
            found = _decision(value)
        case _:
            found = view_of(value)
    if found.event_time not in _EVENT_MS:
        raise ValueError(f"{found.event_time} is not an event time")
    return found.event_time


@dataclass(slots=True)
class PublishedAlerts:
    """The published live and shadow alerts of a day by id, the last correction of each live alert, and the alerts that
    corrections added."""

    live: dict[str, bytes] = field(default_factory=dict)
    shadow: dict[str, bytes] = field(default_factory=dict)
    corrected: dict[str, AlertVerdict] = field(default_factory=dict)
    added: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def archived(cls, store: ArchiveStore, manifest: Manifest, day: Day) -> PublishedAlerts:
        """Read the archived alerts and corrections. Raises ArchiveDamaged."""
        published = cls()
        for table, alerts in ((Table.ALERTS, published.live), (Table.SHADOW_ALERTS, published.shadow)):
            records = read_log(store, manifest.of(table, day), ["key", "value"])
            alerts.update((key, value) for key, value in _pairs(records) if _view_or_skip(value, table) is not None)
        corrections = read_log(store, manifest.of(Table.CORRECTIONS, day), ["key", "value"])
        for _, value in _pairs(corrections):
            add_correction({day: published}, value)
        return published

    def text_of(self, alert_id: str) -> bytes | None:
        """The encoded alert, as the detector or a correction published it."""
        return self.live.get(alert_id) or self.added.get(alert_id)

    def in_effect(self) -> set[str]:
        """The ids of the live alerts after all corrections so far."""
        retracted = {each for each, verdict in self.corrected.items() if verdict is AlertVerdict.RETRACTED}
        added = {each for each, verdict in self.corrected.items() if verdict is AlertVerdict.ADDED}
        return (self.live.keys() | added) - retracted


def add_alert(days: Mapping[Day, PublishedAlerts], value: bytes, alert_id: str, *, shadow: bool) -> None:
    """Add a record of a topic of alerts to its day, if it belongs to one of these days."""
    view = _view_or_skip(value, "alerts")
    published = None if view is None else days.get(Day.of(view.event_time))
    if published is not None:
        (published.shadow if shadow else published.live)[alert_id] = value


def add_correction(days: Mapping[Day, PublishedAlerts], value: bytes) -> None:
    """Add a record of the topic of corrections to its day, if it belongs to one of these days."""
    try:
        correction = _correction(value)
        verdict = AlertVerdict(correction.kind)
    except _UNREADABLE as error:
        _skip(Table.CORRECTIONS, value, error)
        return
    published = days.get(Day.of(correction.event_time))
    if published is None:
        return
    published.corrected[correction.alert_id] = verdict
    alert = bytes(correction.alert)
    if alert and verdict is AlertVerdict.ADDED and _view_or_skip(alert, Table.CORRECTIONS) is not None:
        published.added[correction.alert_id] = alert


def archived_ids(store: ArchiveStore, manifest: Manifest, day: Day) -> Iterator[int | str]:
    """The ids of the day's archived transactions."""
    for entry in manifest.of(Table.TRANSACTIONS, day):
        with open_parquet(store, entry) as file:
            for batch in file.iter_batches(columns=[ID_FIELD]):
                yield from batch.column(0).to_pylist()


def check_versions(alerts: Iterable[AlertView], entries: Iterable[LogEntry]) -> None:
    """Raise RuleLogForeign if an alert names a rule version that the log does not have."""
    known = {entry.version: entry.change.rule_id for entry in entries if isinstance(entry.change, Rule)}
    for alert in alerts:
        if known.get(alert.rule_version) != alert.rule_id:
            raise RuleLogForeign(
                f"alert {alert.alert_id} names rule {alert.rule_id}, version {alert.rule_version}, which the archived "
                "rule log does not have: archive the log that the detector read, and evaluate the day again"
            )


def unknown_of(candidates: Mapping[str, AlertView], ids: Iterable[int | str]) -> Collection[str]:
    """The alert ids among the candidates whose transaction is not among these ids."""
    wanted = {view.transaction_id for view in candidates.values()}
    found = wanted.intersection(ids)
    return [alert_id for alert_id, view in candidates.items() if view.transaction_id not in found]


def _view_or_skip(value: bytes, where: str) -> AlertView | None:
    """Decode an alert. An unreadable record is logged and gives None."""
    try:
        view = view_of(value)
        _ = view.transaction_id
    except _UNREADABLE as error:
        _skip(where, value, error)
        return None
    return view


def _skip(where: str, value: bytes, error: Exception) -> None:
    said = ascii(" ".join(str(error).split()))[1:121]
    _log.warning("%s: skipped the unreadable record %s: %s", where, ascii(value[:80])[2:-1], said)


def _pairs(records: pa.Table) -> Iterator[tuple[str, bytes]]:
    keys, values = records.column("key").to_pylist(), records.column("value").to_pylist()
    given = ((key, value) for key, value in zip(keys, values, strict=True) if key is not None and value is not None)
    return ((key.decode("utf-8", "replace"), value) for key, value in given)
