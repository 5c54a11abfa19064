"""Runs a what-if: finds the draft, evaluates the days in one pass, compares with other rules, saves the report."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

from fraud_rules.batch.archive.manifest import Manifest, Table
from fraud_rules.batch.archive.place import ArchivePath
from fraud_rules.batch.archive.store import ArchiveStore, write_whole
from fraud_rules.batch.reevaluation.evidence import ArchivedLogs
from fraud_rules.batch.reevaluation.published import PublishedAlerts, view_of
from fraud_rules.batch.whatif.coverage import coverage_of
from fraud_rules.batch.whatif.draft import find_draft
from fraud_rules.batch.whatif.evaluate import DraftFire, Fires, WhatIfWork, evaluate_variants
from fraud_rules.batch.whatif.figures import figures_of, find_labels, suggestions_of
from fraud_rules.batch.whatif.fires_file import write_fires
from fraud_rules.batch.whatif.labels import Labels
from fraud_rules.batch.whatif.limit_grid import CountedLimits, grid_of, has_grid, own_limit
from fraud_rules.batch.whatif.place import FOLDER, report_name
from fraud_rules.batch.whatif.result import (
    MOST_KEYS,
    MOST_LISTED,
    Fire,
    RuleOverlap,
    WhatIfResult,
    encode_whatif,
    hours_of,
    whatif_page,
)
from fraud_rules.batch.whatif.variants import Variants, probe_of, variants_of
from fraud_rules.codec.rules.sentence import rule_sentence
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.window.evaluation.curve import depends_on_alerts
from fraud_rules.errors import DayEmpty, DayNotArchived, InputInvalid
from fraud_rules.model.day import Day, days_between
from fraud_rules.model.rule import Rule
from fraud_rules.model.ruleset import LogEntry, RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime.clock import now_ms


@dataclass(frozen=True, slots=True)
class WhatIfQuery:
    """The question: a rule (a file, or an id in the log), and the first and last day of event time, inclusive.

    `limits` are the limits to try, or the factors of a limit that is an expression. If empty, they are the quantiles of
    the aggregate, or some factors. `labels` names a file of labels.
    `fires` names the file to list each fire in. `alerts_per_day` and `precision` ask for suggestions of a limit.
    """

    rule: str
    first: Day
    last: Day
    limits: tuple[Decimal, ...] = ()
    windows: bool = True
    processes: int = 2
    labels: Path | None = None
    fires: Path | None = None
    alerts_per_day: float | None = None
    precision: float | None = None


def what_if(
    question: WhatIfQuery, archive: ArchiveStore, schema: TransactionSchema, settings: DetectorSettings
) -> WhatIfResult:
    """Run a what-if. Raises RuleUnknown, RuleRejected, DayNotArchived, DayEmpty, ArchiveDamaged, InputInvalid."""
    started = time.monotonic()
    if question.last < question.first:
        raise InputInvalid(f"{question.first} to {question.last}: the first day must not be after the last")
    manifest = archive.latest()
    days = list(days_between(question.first, question.last))
    found = find_labels(question.labels, archive, manifest, days, schema)
    entries = ArchivedLogs(archive, manifest, schema, settings).entries()
    log = RuleTimeline(entries)
    draft = find_draft(question.rule, log, schema, settings.limits)
    variants = variants_of(draft, settings.limits, question.limits, windows=question.windows, log=log)
    work = _work(question, manifest, archive, schema, settings, variants, found.labels)
    fires, counted = _evaluate(work, question)
    shown = counted if question.limits else counted.shown(own_limit(draft), fires.transactions)
    coverage = coverage_of(manifest, days)
    kept = sorted(fires.kept, key=lambda fire: fire.time_ms)
    if question.fires is not None:
        write_fires(question.fires, draft, kept, fires.of_draft)
    return WhatIfResult(
        rule=dict(draft.document),
        days=[str(day) for day in days],
        coverage=coverage,
        transactions=fires.transactions,
        fires=fires.of_draft,
        alerts_per_day=coverage.per_day(fires.of_draft),
        suppressed=fires.suppressed,
        keys=len(fires.by_key),
        limits=list(zip(shown.limits, shown.fires.tolist(), strict=True)),
        windows_ms=_windows(work.variants, fires),
        hours=hours_of(fires.by_hour, days),
        busiest=[(_key(draft, key), count) for key, count in fires.by_key.most_common(MOST_KEYS)],
        overlap=_overlap(archive, manifest, days, kept, entries),
        first=[Fire(each.transaction_id, each.time_ms, _key(draft, each.key)) for each in kept[:MOST_LISTED]],
        evaluated_ms=now_ms(),
        seconds=round(time.monotonic() - started, 3),
        labels=None if question.labels is None else figures_of(found, fires, shown),
        suggestions=suggestions_of(question.alerts_per_day, question.precision, counted, found.labels, fires, coverage),
        says=rule_sentence(draft, schema),
    )


def _evaluate(work: WhatIfWork, question: WhatIfQuery) -> tuple[Fires, CountedLimits]:
    """Evaluate the draft and all limits. If earlier alerts have an effect, a first pass without it finds the limits."""
    variants = work.variants
    if not question.limits:
        grid = grid_of(variants.draft, work.schema.scale_of(variants.draft.aggregate_field))
        if depends_on_alerts(variants.draft) and has_grid(variants.draft):
            probe = replace(work, variants=probe_of(variants, grid), values=False)
            probed = evaluate_variants(probe, question.processes)
            counted = CountedLimits(grid, probed.by_limit).shown(own_limit(variants.draft), probed.transactions)
            grid = counted.limits
        work = replace(work, variants=replace(variants, limits=grid))
    fires = evaluate_variants(work, question.processes)
    return fires, CountedLimits(work.variants.limits, fires.by_limit)


def save_result(result: WhatIfResult, archive: ArchiveStore) -> ArchivePath:
    """Save a result and its page in the archive. Return the path of the page. Raises StorageFull."""
    folder = archive.root / FOLDER / report_name(result.evaluated_ms, result.rule.get("ruleId"))
    write_whole(folder / "result.json", encode_whatif(result))
    write_whole(folder / "report.html", whatif_page(result))
    return folder / "report.html"


def last_day(archive: ArchiveStore) -> Day:
    """The last day with transactions. Raises DayEmpty if there is none."""
    manifest = archive.latest()
    days = [*manifest.days(Table.TRANSACTIONS), *manifest.days(Table.IMPORTED)]
    if not days:
        raise DayEmpty(
            f"the archive {archive.root} holds no transactions yet: first run fraud archive run or fraud archive import"
        )
    return max(days)


def _work(
    question: WhatIfQuery,
    manifest: Manifest,
    archive: ArchiveStore,
    schema: TransactionSchema,
    settings: DetectorSettings,
    variants: Variants,
    labels: Labels,
) -> WhatIfWork:
    if question.last.start_ms >= manifest.complete_until_ms and not manifest.of(Table.IMPORTED, question.last):
        raise DayNotArchived(f"{question.last} is not in the archive yet: run the archive first (fraud archive run)")
    since_ms = question.first.start_ms - variants.reach_ms
    wanted = list(days_between(Day.of(since_ms), question.last))
    days = [(day, (*manifest.of(Table.TRANSACTIONS, day), *manifest.of(Table.IMPORTED, day))) for day in wanted]
    if not any(files for day, files in days if day >= question.first):
        raise DayEmpty(f"the archive has no transaction from {question.first} to {question.last}")
    with_files = tuple((day, files) for day, files in days if files)
    start_ms = question.first.start_ms
    return WhatIfWork(
        archive, with_files, schema, settings, variants, since_ms, start_ms, labels, question.fires is not None
    )


def _windows(variants: Variants, fires: Fires) -> list[tuple[int, int]]:
    counts = fires.by_rule.sum(axis=0).tolist()
    others = list(zip(variants.windows_ms, counts[len(counts) - len(variants.windows_ms) :], strict=True))
    return sorted([*others, (variants.draft.window.reach_ms, counts[0])]) if others else []


def _key(draft: Rule, key: Sequence[object]) -> dict[str, int | str | Decimal]:
    return dict(zip(draft.grouping, key, strict=True))  # type: ignore[arg-type]


def _overlap(
    archive: ArchiveStore,
    manifest: Manifest,
    days: Iterable[Day],
    fires: Iterable[DraftFire],
    entries: Sequence[LogEntry],
) -> list[RuleOverlap]:
    """The overlap of each rule: its alerts after corrections, and those on transactions for which the draft fires."""
    fired = frozenset(fire.transaction_id for fire in fires)
    alerts: Counter[int] = Counter()
    both: Counter[int] = Counter()
    for day in days:
        published = PublishedAlerts.archived(archive, manifest, day)
        for alert_id in published.in_effect():
            text = published.text_of(alert_id)
            if text is not None:
                view = view_of(text)
                alerts[view.rule_id] += 1
                both[view.rule_id] += view.transaction_id in fired
    rules = [entry.change for entry in entries if isinstance(entry.change, Rule)]
    names = {rule.rule_id: str(rule.document.get("name") or "") for rule in rules}
    return [RuleOverlap(rule_id, names.get(rule_id, ""), alerts[rule_id], both[rule_id]) for rule_id in sorted(alerts)]
