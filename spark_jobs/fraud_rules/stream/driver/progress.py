"""The detector's progress record, which each batch writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from fraud_rules.logs.detector_status import (
    BatchLatency,
    BatchMode,
    BatchProgress,
    ReasonCount,
    RuleCpu,
    TrafficCounts,
    ViewCounts,
)
from fraud_rules.logs.offset_runs import runs_of
from fraud_rules.model.lost_records import LostRecords
from fraud_rules.model.output import KeyGroupOutput, ViewRefresh
from fraud_rules.model.warm_up import BatchWarmUp
from fraud_rules.runtime import clock
from fraud_rules.stream.checkpoint.marker import Marker
from fraud_rules.stream.worker.state_log import StateDelta
from fraud_rules.stream.worker.wire import SideOutput, UnreadableRecord, merged_quantile_ms

_MOST_DETAIL: Final = 200
"""The most characters of a detail in a progress record."""


@dataclass(frozen=True, slots=True)
class BatchOutputs:
    """The outputs of all workers for a batch."""

    groups: Sequence[KeyGroupOutput]
    side_outputs: Sequence[SideOutput]
    states: Sequence[StateDelta] = ()

    @property
    def rows(self) -> int:
        """The number of accepted transactions."""
        return sum(each.rows for each in self.side_outputs)

    @property
    def rejected(self) -> int:
        """The number of quarantined records."""
        return sum(len(each.rejected) for each in self.side_outputs)

    @property
    def quarantine_reasons(self) -> dict[str, ReasonCount]:
        """The quarantined records by reason."""
        found: dict[str, ReasonCount] = {}
        for record in sorted((each for side in self.side_outputs for each in side.rejected), key=_place):
            count = found[record.reason].count if record.reason in found else 0
            found[record.reason] = ReasonCount(count + 1, record.detail[:_MOST_DETAIL])
        return found

    @property
    def ignored(self) -> int:
        """The number of ignored tombstones."""
        return sum(each.ignored for each in self.side_outputs)

    @property
    def late(self) -> int:
        """The number of transactions that were late in at least one grouping."""
        return len({(record.partition, record.offset) for group in self.groups for record in group.late})

    @property
    def duplicates(self) -> int:
        """The number of transactions that were duplicates in at least one grouping."""
        return len({(record.partition, record.offset) for group in self.groups for record in group.duplicates})

    @property
    def conflicting_duplicates(self) -> int:
        """The number of duplicates with other content than the retained transaction of at least one grouping."""
        found = (record for group in self.groups for record in group.duplicates if record.conflicting)
        return len({(record.partition, record.offset) for record in found})

    @property
    def null_keys(self) -> int:
        """The number of transactions with a null in a field of a grouping in force."""
        return sum(each.null_keys for each in self.side_outputs)

    @property
    def views(self) -> ViewCounts:
        """The views that were not current at the start of the batch."""
        refreshed = [group.refreshed for group in self.groups]
        return ViewCounts(refreshed.count(ViewRefresh.CATCH_UP), refreshed.count(ViewRefresh.REBUILD))

    def append_ms(self, q: float) -> int | None:
        """A quantile of the append times of the accepted transactions."""
        return merged_quantile_ms(((each.rows, each.append_quantiles_ms) for each in self.side_outputs), q)

    @property
    def append_total_ms(self) -> int:
        """The sum of the append times of the accepted transactions."""
        return sum(each.append_total_ms for each in self.side_outputs)

    @property
    def event_span_ms(self) -> tuple[int, int] | None:
        """The event times between which 90% of the accepted transactions are. None without transactions."""
        tasks = [(each.rows, each.event_quantiles_ms) for each in self.side_outputs]
        first_ms, last_ms = merged_quantile_ms(tasks, 0.05), merged_quantile_ms(tasks, 0.95)
        return None if first_ms is None or last_ms is None else (first_ms, last_ms)


@dataclass(slots=True)
class RunTotals:
    """The totals of this start: the state, by the newest output of each key group, the traffic, and the views that
    were not current."""

    traffic: TrafficCounts
    groups: dict[int, KeyGroupOutput] = field(default_factory=dict)
    views: ViewCounts = field(default_factory=lambda: ViewCounts(0, 0))

    def add(self, outputs: BatchOutputs) -> None:
        """Add a batch."""
        before = self.traffic
        self.traffic = TrafficCounts(
            before.since_ms,
            before.rows + outputs.rows,
            before.late + outputs.late,
            before.quarantined + outputs.rejected,
            before.duplicates + outputs.duplicates,
            before.conflicting_duplicates + outputs.conflicting_duplicates,
            before.null_keys + outputs.null_keys,
        )
        found = outputs.views
        self.views = ViewCounts(self.views.catch_ups + found.catch_ups, self.views.rebuilds + found.rebuilds)
        for output in outputs.groups:
            bare = msgspec.structs.replace(
                output, alerts=[], late=[], duplicates=[], evaluations=[], costs=[], matches=[]
            )
            self.groups[output.key_group] = bare

    @property
    def retained_events(self) -> int:
        """The number of retained events, counted once per grouping."""
        return sum(group.retained_events for group in self.groups.values())

    @property
    def retained_marks(self) -> int:
        """The number of marks of alerts, counted once per rule and key."""
        return sum(group.retained_marks for group in self.groups.values())

    @property
    def retained_bytes(self) -> int:
        """The memory of the views."""
        return sum(group.retained_bytes for group in self.groups.values())

    @property
    def string_bytes(self) -> int:
        """The memory of the strings in the views."""
        return sum(group.string_bytes for group in self.groups.values())

    @property
    def watermark_ms(self) -> int | None:
        """The newest watermark of a key group. Others can be far behind: a key group or grouping without payments keeps
        its watermark."""
        known = [group.watermark_ms for group in self.groups.values() if group.watermark_ms is not None]
        return max(known, default=None)


@dataclass(frozen=True, slots=True)
class RulesInForce:
    """The rules at the end of a batch: their number, their estimated CPU time for each transaction in ns, and a report
    of measured times if one is due."""

    count: int
    cpu_ns: int = 0
    costs: Sequence[RuleCpu] = ()


def batch_progress(
    marker: Marker,
    outputs: BatchOutputs,
    totals: RunTotals,
    rules: RulesInForce,
    *,
    attempt: str | None = None,
    lost: Sequence[LostRecords] = (),
    lag: int | None = None,
    previous: BatchLatency | None = None,
    mode: BatchMode | None = None,
) -> BatchProgress:
    """The progress of a batch with this marker. `lost` are the accepted losses that it reports."""
    pin = marker.pin
    return BatchProgress(
        query_id=marker.query_id,
        batch_id=marker.batch_id,
        end_offsets={topic: dict(ends) for topic, ends in marker.end_offsets.items()},
        rules_end=pin.rules_end,
        rules_rejected=[[first, last] if first < last else first for first, last in runs_of(pin.reasons())],
        rows=outputs.rows,
        quarantined=outputs.rejected,
        tombstones=outputs.ignored,
        alerts=sum(not alert.shadow for group in outputs.groups for alert in group.alerts),
        shadow_alerts=sum(alert.shadow for group in outputs.groups for alert in group.alerts),
        late=sum(len(group.late) for group in outputs.groups),
        duplicates=outputs.duplicates,
        conflicting_duplicates=outputs.conflicting_duplicates,
        null_keys=outputs.null_keys,
        lag=lag,
        rules_in_force=rules.count,
        retained_events=totals.retained_events,
        retained_bytes=totals.retained_bytes,
        retained_marks=totals.retained_marks,
        watermark=totals.watermark_ms,
        newest_append_time=outputs.append_ms(1.0),
        quarantine_reasons=outputs.quarantine_reasons,
        previous=previous,
        mode=mode,
        attempt=attempt,
        late_transactions=outputs.late,
        since_start=totals.traffic,
        lost=list(lost),
        view_catch_ups=outputs.views.catch_ups,
        view_rebuilds=outputs.views.rebuilds,
        views_since_start=totals.views,
        warm_ups=[BatchWarmUp(version, ref.offset, ref.digest, ref.ends) for version, ref in pin.joining().items()],
        cpu_ns=rules.cpu_ns,
        rule_cpu=list(rules.costs),
        time=clock.now_ms(),
        time_zones=pin.time_zones,
    )


def _place(record: UnreadableRecord) -> tuple[int, int, int]:
    return record.append_ms, record.partition, record.offset
