"""Evaluates variants over archived days, in several processes with a share of the keys each, in one pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context

import numpy as np
from numpy.typing import NDArray

from fraud_rules.batch.archive.manifest import FileEntry
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.reevaluation.evaluate import DayRun
from fraud_rules.batch.reevaluation.feed import DayFeed
from fraud_rules.batch.whatif.variants import Variants
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.state.grouping_state import AcceptResult
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.curve import LimitCurve
from fraud_rules.engine.window.plan import GroupingPlan
from fraud_rules.model.day import Day
from fraud_rules.model.schema import ID_FIELD, TIME_FIELD, TransactionSchema
from fraud_rules.model.transaction import Column, TransactionBatch

__all__ = ["Fires", "WhatIfWork", "evaluate_variants"]

KEPT = 2_000_000
"""The most fires of the draft that are kept individually. All fires are counted."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WhatIfWork:
    """The inputs: files of days in order, from event time `since_ms` on. Fires count from `start_ms` on."""

    archive: ArchiveStore
    days: tuple[tuple[Day, tuple[FileEntry, ...]], ...]
    schema: TransactionSchema
    settings: DetectorSettings
    variants: Variants
    since_ms: int
    start_ms: int


@dataclass(slots=True)
class Fires:
    """The fires. `counts` are by variant. For the draft, up to KEPT fires have time, key and transaction."""

    transactions: int = 0
    counts: Counter[int] = field(default_factory=Counter)
    suppressed: int = 0
    by_hour: Counter[int] = field(default_factory=Counter)
    by_key: Counter[tuple[object, ...]] = field(default_factory=Counter)
    ids: list[int | str] = field(default_factory=list)
    times_ms: list[int] = field(default_factory=list)
    keys: list[tuple[object, ...]] = field(default_factory=list)

    def add(self, other: Fires) -> None:
        """Add the fires of another share of the keys."""
        self.counts.update(other.counts)
        self.suppressed += other.suppressed
        self.by_hour.update(other.by_hour)
        self.by_key.update(other.by_key)
        self.ids += other.ids
        self.times_ms += other.times_ms
        self.keys += other.keys


def evaluate_variants(work: WhatIfWork, processes: int) -> Fires:
    """Evaluate with `processes` processes, each with a share of the keys. Raises ArchiveDamaged."""
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
    for _, files in work.days:
        for rows in DayFeed(work.archive, files, schema, None, work.since_ms).slices():
            watch.count(rows)
            for _ in run.process(rows, 0):
                raise AssertionError("an observed engine writes no alerts")
    return watch.result()


class _Watch:
    """Observes the kernel's output, because variants only need a count, not alerts."""

    def __init__(self, work: WhatIfWork) -> None:
        self._work = work
        self._schema = work.variants.schema(work.schema)
        self._curve = LimitCurve(work.variants.limit_rules if work.variants.share_evaluations else (), self._schema)
        self.fires = Fires()

    def result(self) -> Fires:
        """All fires."""
        self.fires.counts.update(dict(enumerate(self._curve.counts.tolist(), start=1)))
        return self.fires

    def count(self, rows: TransactionBatch) -> None:
        self.fires.transactions += int((rows.columns[TIME_FIELD].values >= self._work.start_ms).sum())

    def note(self, rows: TransactionBatch, fields: tuple[str, ...], plan: GroupingPlan, taken: AcceptResult) -> None:
        """Count the fires of some rows."""
        output = taken.output
        if not len(output):
            return
        if rows.columns[TIME_FIELD].values.min() < self._work.start_ms:
            output = output[rows.columns[TIME_FIELD].values[output[:, at.O_ROW]] >= self._work.start_ms]
        is_draft = np.array([each.rule.rule_id == 1 for each in plan.in_force])
        of_draft = output if is_draft.all() else output[is_draft[output[:, at.O_RULE]]]
        self._curve.add(of_draft)
        fired = output[output[:, at.O_FIRED] == at.FIRED_YES, at.O_RULE]
        for position, count in enumerate(np.bincount(fired, minlength=len(plan.in_force)).tolist()):
            if count:
                self.fires.counts[plan.in_force[position].rule.rule_id - 1] += count
        became = of_draft[:, at.O_FIRED]
        self.fires.suppressed += int((became == at.FIRED_SUPPRESSED).sum())
        self._detail(rows, fields, of_draft[became == at.FIRED_YES, at.O_ROW])

    def _detail(self, rows: TransactionBatch, fields: Sequence[str], places: Ints) -> None:
        fires, fired = self.fires, rows.take(places)
        hours, counts = np.unique(fired.columns[TIME_FIELD].values // 3_600_000, return_counts=True)
        fires.by_hour.update(dict(zip(hours.tolist(), counts.tolist(), strict=True)))
        no_key = np.zeros(len(fired), dtype=np.int64)
        parts = np.stack([fired.columns[name].values for name in fields] or [no_key], axis=1)
        _, first, which, counts = np.unique(parts, axis=0, return_index=True, return_inverse=True, return_counts=True)
        keys = [tuple(fired.row(i, self._schema)[name] for name in fields) for i in first.tolist()]
        for key, count in zip(keys, counts.tolist(), strict=True):
            fires.by_key[key] += count
        room = KEPT - len(fires.ids)
        if room > 0:
            fires.ids += _ids(fired.columns[ID_FIELD])[:room]
            fires.times_ms += fired.columns[TIME_FIELD].values[:room].tolist()
            fires.keys += [keys[i] for i in which.reshape(-1)[:room].tolist()]


def _ids(column: Column) -> list[int | str]:
    values: list[int] = column.values.tolist()
    return values if column.dictionary is None else [column.dictionary[code] for code in values]  # type: ignore[return-value]
