"""Evaluates variants over archived days, in several processes with a share of the keys each, in one pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from decimal import Decimal
from multiprocessing import get_context
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from fraud_rules.batch.archive.manifest import FileEntry
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.reevaluation.evaluate import DayRun
from fraud_rules.batch.reevaluation.feed import DayFeed
from fraud_rules.batch.whatif.labels import CLASSES, Classes, Labels
from fraud_rules.batch.whatif.variants import Variants
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.alert import triggering_value
from fraud_rules.engine.conclusion import place_of
from fraud_rules.engine.state.grouping_state import AcceptResult
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.evaluation.curve import LimitCurve
from fraud_rules.engine.window.plan import GroupingPlan
from fraud_rules.model.day import Day
from fraud_rules.model.output import AlertRecord
from fraud_rules.model.schema import ID_FIELD, TIME_FIELD, TransactionSchema
from fraud_rules.model.transaction import Column, TransactionBatch

KEPT = 2_000_000
"""The most fires of the draft that a process keeps individually. All fires are counted."""

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class _AlertMembers(Struct, rename="camel"):
    key: dict[str, Any]
    triggering_value: str


_members_of = msgspec.json.Decoder(_AlertMembers, float_hook=Decimal).decode


@dataclass(frozen=True, slots=True)
class WhatIfWork:
    """The inputs: files of days in order, from event time `since_ms` on. Fires count from `start_ms` on.

    `values`: keep the aggregate of each fire of the draft.
    """

    archive: ArchiveStore
    days: tuple[tuple[Day, tuple[FileEntry, ...]], ...]
    schema: TransactionSchema
    settings: DetectorSettings
    variants: Variants
    since_ms: int
    start_ms: int
    labels: Labels
    values: bool = False


@dataclass(frozen=True, slots=True)
class DraftFire:
    """One fire of the draft. `label` is a class of `labels`; `value` is the aggregate as a decimal, or empty."""

    time_ms: int
    transaction_id: int | str
    key: tuple[object, ...]
    label: int
    value: str = ""


@dataclass(slots=True)
class Fires:
    """The fires. `by_rule` int64[CLASSES, rules] and `by_limit` int64[CLASSES, limits] count them by class of the
    transaction. `found`, `caught` and `held` bool[labels] mark the labels of transactions of the days, of fires of the
    draft, and of fires that its cool-down suppressed. `kept` has up to KEPT fires of the draft for each process.
    """

    by_rule: Ints
    by_limit: Ints
    found: Bools
    caught: Bools
    held: Bools
    transactions: int = 0
    suppressed: int = 0
    by_hour: Counter[int] = field(default_factory=Counter)
    by_key: Counter[tuple[object, ...]] = field(default_factory=Counter)
    kept: list[DraftFire] = field(default_factory=list)

    @classmethod
    def of(cls, variants: Variants, labels: int) -> Fires:
        """No fires."""
        rules = np.zeros((CLASSES, len(variants.rules)), np.int64)
        limits = np.zeros((CLASSES, len(variants.limits)), np.int64)
        found, caught, held = (np.zeros(labels, np.bool_) for _ in range(3))
        return cls(rules, limits, found, caught, held)

    @property
    def of_draft(self) -> int:
        """The number of fires of the draft."""
        return int(self.by_rule[:, 0].sum())

    def add(self, other: Fires) -> None:
        """Add the fires of another share of the keys."""
        self.by_rule += other.by_rule
        self.by_limit += other.by_limit
        self.caught |= other.caught
        self.held |= other.held
        self.suppressed += other.suppressed
        self.by_hour.update(other.by_hour)
        self.by_key.update(other.by_key)
        self.kept += other.kept


def evaluate_variants(work: WhatIfWork, processes: int) -> Fires:
    """Evaluate with `processes` processes, each with a share of the keys; one for a draft that names rules, because its
    conclusion needs all keys. Raises ArchiveDamaged."""
    if work.variants.named:
        return _concluded(work)
    work = replace(work, settings=replace(work.settings, key_groups=processes))
    if processes == 1:
        return _share(work, 0)
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        shares = list(pool.map(_share, [work] * processes, range(processes)))
    fires = shares[0]
    for other in shares[1:]:
        fires.add(other)
    return fires


def _share(work: WhatIfWork, key_group: int) -> Fires:
    watch = _Watch(work)
    variants = work.variants
    settings = replace(work.settings, evaluations=variants.share_evaluations)
    schema = variants.schema(work.schema)
    run = DayRun([key_group], variants.timeline(), schema, settings, {}, watch.note)
    for rows in _slices(work, schema):
        if key_group == 0:  # each process reads all rows
            watch.count(rows)
        for _ in run.process(rows, 0):
            raise AssertionError("an observed engine writes no alerts")
    return watch.result()


def _concluded(work: WhatIfWork) -> Fires:
    watch, schema = _Watch(work), work.variants.schema(work.schema)
    run = DayRun([0], work.variants.timeline(), schema, replace(work.settings, key_groups=1, evaluations=False), {})
    for rows in _slices(work, schema):
        watch.count(rows)
        watch.note_alerts([each for each in run.process(rows, 0) if each.event_ms >= work.start_ms])
    return watch.result()


def _slices(work: WhatIfWork, schema: TransactionSchema) -> Iterator[TransactionBatch]:
    for _, files in work.days:
        yield from DayFeed(work.archive, files, schema, None, work.since_ms).slices()


class _Watch:
    """Observes the kernel's output, because variants only need a count, not alerts."""

    def __init__(self, work: WhatIfWork) -> None:
        variants = work.variants
        self._work = work
        self._labels = work.labels
        self._schema = variants.schema(work.schema)
        shared = variants.limits if variants.share_evaluations else ()
        self._curve = LimitCurve(variants.draft, shared, self._schema, CLASSES)
        self.fires = Fires.of(variants, len(work.labels))

    def result(self) -> Fires:
        """All fires."""
        variants, fires = self._work.variants, self.fires
        shared = variants.share_evaluations
        fires.by_limit = self._curve.counts if shared else fires.by_rule[:, 1 : 1 + len(variants.limits)].copy()
        return fires

    def count(self, rows: TransactionBatch) -> None:
        """Count the transactions of the days, and find those with labels."""
        of_days = rows.columns[TIME_FIELD].values >= self._work.start_ms
        self.fires.transactions += int(of_days.sum())
        if len(self._labels):
            places = self._labels.places(rows.columns[ID_FIELD])[of_days]
            self.fires.found[places[places >= 0]] = True

    def note(self, rows: TransactionBatch, fields: tuple[str, ...], plan: GroupingPlan, accepted: AcceptResult) -> None:
        """Count the fires of some rows."""
        output = accepted.output
        if not len(output):
            return
        if rows.columns[TIME_FIELD].values.min() < self._work.start_ms:
            output = output[rows.columns[TIME_FIELD].values[output[:, at.O_ROW]] >= self._work.start_ms]
        places = self._labels.places(rows.columns[ID_FIELD])[output[:, at.O_ROW]]
        classes = self._labels.classes_at(places)
        positions = np.array([each.rule.rule_id - 1 for each in plan.in_force])[output[:, at.O_RULE]]
        became, of_draft = output[:, at.O_FIRED], positions == 0
        self._curve.add(output[of_draft], classes[of_draft])
        fired = became == at.FIRED_YES
        np.add.at(self.fires.by_rule, (classes[fired], positions[fired]), 1)
        held = of_draft & (became == at.FIRED_SUPPRESSED)
        self.fires.suppressed += int(held.sum())
        self.fires.held[places[held & (places >= 0)]] = True
        hits = of_draft & fired
        self.fires.caught[places[hits & (places >= 0)]] = True
        self._detail(rows, fields, plan, output[hits], classes[hits])

    def note_alerts(self, alerts: Sequence[AlertRecord]) -> None:
        """Count the alerts of some rows. The draft suppresses those that only the draft without its cool-down has."""
        places = self._labels.places(Column.of_values([each.transaction_id for each in alerts]))
        classes, last, fires = self._labels.classes_at(places), len(self._work.variants.rules), self.fires
        fired = {(place_of(each), each.role) for each in alerts if each.rule_id == 1}
        for alert, place, label in zip(alerts, places.tolist(), classes.tolist(), strict=True):
            if alert.rule_id <= last:
                fires.by_rule[label, alert.rule_id - 1] += 1
            if alert.rule_id == 1:
                fires.caught[place : place + 1] = True  # without a label, the place is -1
                self._add_fire(alert, label)
            elif alert.rule_id == last + 1 and (place_of(alert), alert.role) not in fired:
                fires.suppressed += 1
                fires.held[place : place + 1] = True

    def _add_fire(self, alert: AlertRecord, label: int) -> None:
        fires, members = self.fires, _members_of(alert.json)
        key = tuple(members.key[name] for name in self._work.variants.draft.grouping)
        fires.by_hour[alert.event_ms // 3_600_000] += 1
        fires.by_key[key] += 1
        if len(fires.kept) < KEPT:
            value = members.triggering_value if self._work.values else ""
            fires.kept.append(DraftFire(alert.event_ms, alert.transaction_id, key, label, value))

    def _detail(
        self, rows: TransactionBatch, fields: Sequence[str], plan: GroupingPlan, hits: Ints, classes: Classes
    ) -> None:
        fires, fired = self.fires, rows.take(hits[:, at.O_ROW])
        times = fired.columns[TIME_FIELD].values
        hours, counts = np.unique(times // 3_600_000, return_counts=True)
        fires.by_hour.update(dict(zip(hours.tolist(), counts.tolist(), strict=True)))
        no_key = np.zeros(len(fired), dtype=np.int64)
        parts = np.stack([fired.columns[name].values for name in fields] or [no_key], axis=1)
        _, first, which, counts = np.unique(parts, axis=0, return_index=True, return_inverse=True, return_counts=True)
        schema = self._schema.of_rows(fields)
        keys = [tuple(fired.row(i, schema)[name] for name in fields) for i in first.tolist()]
        for key, count in zip(keys, counts.tolist(), strict=True):
            fires.by_key[key] += count
        room = max(0, KEPT - len(fires.kept))
        if room:
            places = [keys[i] for i in which.reshape(-1)[:room].tolist()]
            values = self._values(plan, hits[:room])
            ids = _ids(fired.columns[ID_FIELD])[:room]
            fires.kept += map(DraftFire, times[:room].tolist(), ids, places, classes[:room].tolist(), values)

    def _values(self, plan: GroupingPlan, hits: Ints) -> list[str]:
        if not self._work.values:
            return [""] * len(hits)
        return [triggering_value(plan.in_force[row[at.O_RULE]].rule, row, self._schema) for row in hits.tolist()]


def _ids(column: Column) -> list[int | str]:
    values: list[int] = column.values.tolist()
    return values if column.dictionary is None else [column.dictionary[code] for code in values]  # type: ignore[return-value]
