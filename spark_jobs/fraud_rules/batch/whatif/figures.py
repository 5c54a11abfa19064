"""The figures of a what-if about labels: caught frauds, false alerts, and suggestions for the limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fraud_rules.batch.archive.manifest import Manifest
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.reevaluation.published import PublishedAlerts, view_of
from fraud_rules.batch.whatif.coverage import Coverage
from fraud_rules.batch.whatif.evaluate import Fires
from fraud_rules.batch.whatif.labels import (
    FRAUD,
    NOT_FRAUD,
    Labels,
    TransactionId,
    ids_of,
    read_label_lines,
    source_counts,
)
from fraud_rules.batch.whatif.limit_grid import CountedLimits
from fraud_rules.batch.whatif.result import LabelFigures, Suggestion
from fraud_rules.errors import InputInvalid
from fraud_rules.model.day import Day
from fraud_rules.model.schema import TransactionSchema

MOST_MISSED = 200


@dataclass(frozen=True, slots=True)
class FoundLabels:
    """The labels of a source, and the number of its skipped lines by reason."""

    labels: Labels = field(default_factory=Labels)
    skipped: Counter[str] = field(default_factory=Counter)


def find_labels(
    path: Path | None, archive: ArchiveStore, manifest: Manifest, days: Sequence[Day], schema: TransactionSchema
) -> FoundLabels:
    """Read labels. Labels of alerts apply to the transactions of the archived alerts of the days.

    Raises InputInvalid, ArchiveDamaged.
    """
    if path is None:
        return FoundLabels()
    read = read_label_lines(path, schema)
    reviewed = read.alert_ids
    labels, replaced = Labels.of_lines(read.lines, dict(_alerts(archive, manifest, days, reviewed)) if reviewed else {})
    skipped = read.skipped + Counter({"replaced by a later label": replaced})  # without zeros
    return FoundLabels(labels, skipped)


def _alerts(
    archive: ArchiveStore, manifest: Manifest, days: Sequence[Day], ids: Collection[str]
) -> Iterator[tuple[str, TransactionId]]:
    """The transactions of these alerts, of live and shadow alerts and of those that a correction added."""
    for day in days:
        published = PublishedAlerts.archived(archive, manifest, day)
        for alerts in (published.live, published.shadow, published.added):
            for alert_id in alerts.keys() & ids:
                yield alert_id, view_of(alerts[alert_id]).transaction_id


def figures_of(found: FoundLabels, fires: Fires, shown: CountedLimits) -> LabelFigures:
    """The labelled transactions of the days, and the fires on them."""
    labels = found.labels
    inside = fires.found
    _, caught, false_alerts = shown.counts
    return LabelFigures(
        fraud=labels.count(FRAUD, inside),
        not_fraud=labels.count(NOT_FRAUD, inside),
        outside=int((~inside).sum()) + labels.elsewhere,
        skipped=dict(found.skipped),
        caught=labels.count(FRAUD, fires.caught),
        false_alerts=labels.count(NOT_FRAUD, fires.caught),
        suppressed=labels.count(FRAUD, fires.held & ~fires.caught),
        missed=ids_of(labels, inside & ~fires.caught & (labels.classes == FRAUD), MOST_MISSED),
        by_limit=list(zip(caught.tolist(), false_alerts.tolist(), strict=True)),
        sources=source_counts(labels, inside),
    )


def suggestions_of(
    alerts_per_day: float | None,
    precision: float | None,
    counted: CountedLimits,
    labels: Labels,
    fires: Fires,
    coverage: Coverage,
) -> list[Suggestion]:
    """The limits for the wishes. Raises InputInvalid for a precision without labelled frauds."""
    found: list[Suggestion] = []
    if alerts_per_day is not None:
        at = counted.within(coverage.total(alerts_per_day))
        found.append(_suggestion("ALERTS_PER_DAY", alerts_per_day, counted, at, coverage))
    if precision is not None:
        if not labels.count(FRAUD, fires.found):
            raise InputInvalid("a precision needs labels: no fraud among the labels of these days")
        labelled = labels.count(NOT_FRAUD, fires.found) > 0
        goal = "PRECISION" if labelled else "PRECISION_OF_ALL"
        at = counted.precise(precision, labelled=labelled)
        found.append(_suggestion(goal, precision, counted, at, coverage))
    return found


def _suggestion(goal: str, target: float, counted: CountedLimits, at: int | None, coverage: Coverage) -> Suggestion:
    if at is None:
        return Suggestion(goal, target, None, None, None, None, None)
    _, caught, false_alerts = counted.counts[:, at].tolist()
    fires = int(counted.fires[at])
    return Suggestion(goal, target, counted.limits[at], fires, coverage.per_day(fires), caught, false_alerts)
