"""Runs a what-if: finds the draft, evaluates the days in one pass, compares with other rules, saves the report."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from fraud_rules.batch.archive.manifest import Manifest, Table
from fraud_rules.batch.archive.store import ArchiveStore, write_whole
from fraud_rules.batch.reevaluation.evidence import ArchivedLogs
from fraud_rules.batch.reevaluation.published import PublishedAlerts, view_of
from fraud_rules.batch.whatif.draft import find_draft
from fraud_rules.batch.whatif.evaluate import Fires, WhatIfWork, evaluate_variants
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
from fraud_rules.batch.whatif.variants import Variants, variants_of
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import DayEmpty, DayNotArchived, InputInvalid
from fraud_rules.model.day import Day, days_between
from fraud_rules.model.rule import Rule
from fraud_rules.model.ruleset import LogEntry, RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime.clock import now_ms

__all__ = ["WhatIfQuery", "last_day", "save_result", "what_if"]


@dataclass(frozen=True, slots=True)
class WhatIfQuery:
    """The question: a rule (a file, or an id in the log), and the first and last day of event time, inclusive.

    `limits` are the limits to try. If empty, limits around the rule's own are chosen.
    """

    rule: str
    first: Day
    last: Day
    limits: tuple[Decimal, ...] = ()
    windows: bool = True
    processes: int = 2


def what_if(
    question: WhatIfQuery, archive: ArchiveStore, schema: TransactionSchema, settings: DetectorSettings
) -> WhatIfResult:
    """Run a what-if. Raises RuleUnknown, RuleRejected, DayNotArchived, DayEmpty, ArchiveDamaged, InputInvalid."""
    started = time.monotonic()
    if question.last < question.first:
        raise InputInvalid(f"{question.first} to {question.last}: the first day must not be after the last")
    manifest = archive.latest()
    evidence = ArchivedLogs(archive, manifest, schema, settings)
    entries = evidence.entries()
    log = RuleTimeline(entries)
    draft = find_draft(question.rule, log, schema, settings.limits)
    variants = variants_of(draft, settings.limits, question.limits, windows=question.windows, log=log.entries)
    work = _work(question, manifest, archive, schema, settings, variants)
    fires = evaluate_variants(work, question.processes)
    days = list(days_between(question.first, question.last))
    return WhatIfResult(
        rule=dict(draft.document),
        days=[str(day) for day in days],
        transactions=fires.transactions,
        fires=fires.counts[0],
        suppressed=fires.suppressed,
        keys=len(fires.by_key),
        limits=[(limit, fires.counts[i]) for i, limit in enumerate(variants.limits, 1)],
        windows_ms=_windows(variants, fires),
        hours=hours_of(fires.by_hour, days),
        busiest=[(_key(draft, key), count) for key, count in fires.by_key.most_common(MOST_KEYS)],
        overlap=_overlap(archive, manifest, days, fires, entries),
        first=_first(draft, fires),
        evaluated_ms=now_ms(),
        seconds=round(time.monotonic() - started, 3),
    )


def save_result(result: WhatIfResult, archive: ArchiveStore) -> Path:
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
            f"the archive {archive.root} holds no transactions yet: first run fraud archive or fraud archive import"
        )
    return max(days)


def _work(
    question: WhatIfQuery,
    manifest: Manifest,
    archive: ArchiveStore,
    schema: TransactionSchema,
    settings: DetectorSettings,
    variants: Variants,
) -> WhatIfWork:
    if question.last.start_ms >= manifest.complete_until_ms and not manifest.of(Table.IMPORTED, question.last):
        raise DayNotArchived(f"{question.last} is not in the archive yet: run the archive first (fraud archive)")
    since_ms = question.first.start_ms - variants.reach_ms
    wanted = list(days_between(Day.of(since_ms), question.last))
    days = [(day, (*manifest.of(Table.TRANSACTIONS, day), *manifest.of(Table.IMPORTED, day))) for day in wanted]
    if not any(files for day, files in days if day >= question.first):
        raise DayEmpty(f"the archive has no transaction from {question.first} to {question.last}")
    with_files = tuple((day, files) for day, files in days if files)
    return WhatIfWork(archive, with_files, schema, settings, variants, since_ms, question.first.start_ms)


def _windows(variants: Variants, fires: Fires) -> list[tuple[int, int]]:
    first = 1 + len(variants.limits)
    others = [(window_ms, fires.counts[first + i]) for i, window_ms in enumerate(variants.windows_ms)]
    return sorted([*others, (variants.draft.window_ms, fires.counts[0])]) if others else []


def _first(draft: Rule, fires: Fires) -> list[Fire]:
    order = sorted(range(len(fires.ids)), key=fires.times_ms.__getitem__)[:MOST_LISTED]
    return [Fire(fires.ids[i], fires.times_ms[i], _key(draft, fires.keys[i])) for i in order]


def _key(draft: Rule, key: Sequence[object]) -> dict[str, int | str | Decimal]:
    return dict(zip(draft.grouping, key, strict=True))  # type: ignore[arg-type]


def _overlap(
    archive: ArchiveStore, manifest: Manifest, days: Iterable[Day], fires: Fires, entries: Sequence[LogEntry]
) -> list[RuleOverlap]:
    """The overlap of each rule: its alerts after corrections, and those on transactions for which the draft fires."""
    fired = frozenset(fires.ids)
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
