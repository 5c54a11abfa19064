"""The memory of the feed: the newest events, bounded in number and bytes. Several threads may use it."""

from __future__ import annotations

import heapq
import threading
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from msgspec import structs

from fraud_control.domain.item import NO_ITEM, ItemName
from fraud_control.feed.counts import MinuteCounts
from fraud_control.feed.day_figures import DayFigures
from fraud_control.feed.decisions import DecisionMemory
from fraud_control.feed.events import (
    Event,
    FeedAlert,
    FeedBatch,
    FeedCorrection,
    FeedLateTransaction,
    FeedOperation,
    FeedQuarantine,
    FeedRuleChange,
)
from fraud_control.feed.place import FeedPlace, FeedSource, Position
from fraud_rules.logs.rule_status import RuleOperation, newest_rejected

_LISTED = 50
_MOST_OPERATIONS = 1_000


@dataclass(frozen=True, slots=True)
class MemoryBounds:
    """The largest number of events of each kind, and the largest size of all alerts in bytes."""

    alerts: int = 50_000
    alert_bytes: int = 67_108_864
    corrections: int = 20_000
    operations: int = 20_000
    collections: int = 1_000
    progress: int = 20_000
    newest_progress: int = 500


@dataclass(frozen=True, slots=True)
class Edge:
    """The lower end of memory for one topic: memory has all alerts from `offset` on, and others are before `bound`.

    `bound` is None until the first alert of the topic arrives. `first` was the first offset of the topic when it was
    read, so older alerts may be between `first` and `offset`.
    """

    offset: int = 0
    first: int = 0
    bound: Position | None = None


@dataclass(frozen=True, slots=True)
class AlertsInMemory:
    """The alerts in memory, newest first, and the lower end of memory by topic."""

    alerts: Sequence[FeedAlert]
    edges: Mapping[FeedSource, Edge]


class FeedMemory:
    """Keeps events in their order of arrival, so that a page that reconnects gets the events that it missed."""

    def __init__(self, bounds: MemoryBounds | None = None) -> None:
        self._bounds = bounds or MemoryBounds()
        self._lock = threading.Lock()
        self._alerts: deque[FeedAlert] = deque()
        self._bytes = 0
        self._by_id: dict[str, FeedAlert] = {}
        self._corrections: OrderedDict[str, FeedCorrection] = OrderedDict()
        self._corrected: deque[FeedCorrection] = deque(maxlen=self._bounds.corrections)
        self._operations: deque[FeedOperation] = deque()
        self._by_version: dict[int, RuleOperation] = {}
        self._by_rule: dict[int, RuleOperation] = {}
        self._by_collection: dict[ItemName, RuleOperation] = {}
        self._progress: deque[FeedBatch] = deque(maxlen=self._bounds.newest_progress)
        self._points: deque[FeedBatch] = deque(maxlen=self._bounds.progress)
        self._rule_cpu: Mapping[int, float] = {}
        self.late: deque[FeedLateTransaction] = deque(maxlen=_LISTED)
        self.quarantine: deque[FeedQuarantine] = deque(maxlen=_LISTED)
        self.counts = MinuteCounts()
        self.decisions = DecisionMemory()
        self.day = DayFigures()
        self._floor = FeedPlace()
        self._edges: dict[FeedSource, Edge] = {}

    def begin(self, source: FeedSource, offset: int, first: int) -> None:
        """Record that reading starts at `offset` of a topic whose first offset is `first`."""
        with self._lock:
            self._floor = self._floor.after(source, offset - 1)
            self._edges[source] = Edge(offset, first)

    @property
    def floor(self) -> FeedPlace:
        """The place from which on memory has all events."""
        with self._lock:
            return self._floor

    def add(self, event: Event) -> None:
        """Store an event."""
        with self._lock:
            match event:
                case FeedAlert():
                    self._add_alert(event)
                case FeedCorrection():
                    self._add_correction(event)
                case FeedOperation():
                    self._add_operation(event)
                case FeedRuleChange():
                    pass

    def add_batch(self, batch: FeedBatch) -> None:
        """Store the progress of a batch."""
        with self._lock:
            if batch.progress.rule_cpu:
                self._rule_cpu = {each.rule_version: each.cpu_ns for each in batch.progress.rule_cpu}
                batch = FeedBatch(batch.append_ms, structs.replace(batch.progress, rule_cpu=[]))
            self._progress.append(batch)
            self._points.append(batch)

    def missed(self, since: FeedPlace, until: FeedPlace) -> list[Event] | None:
        """List the events between two places, in order; None if memory lacks some of them."""
        with self._lock:
            kept = (FeedSource.ALERTS, FeedSource.SHADOW, FeedSource.CORRECTIONS, FeedSource.OPERATIONS)
            if any(not self._floor.next[source] <= since.next[source] <= until.next[source] for source in kept):
                return None
            events: list[Event] = []
            for log in (self._alerts, self._corrected, self._operations):
                events += _between(log, since, until)
            return events

    def alert(self, alert_id: str) -> FeedAlert | None:
        """Find an alert in memory."""
        with self._lock:
            return self._by_id.get(alert_id)

    def newest_payment(self) -> str | None:
        """The payment of the newest alert, as JSON; None without an alert."""
        with self._lock:
            newest = self._alerts[-1] if self._alerts else None
        return None if newest is None else newest.payment

    def alerts(self) -> list[FeedAlert]:
        """List the alerts in their order of arrival."""
        with self._lock:
            return list(self._alerts)

    def kept(self) -> AlertsInMemory:
        """List the alerts, newest first by append time, with the lower end of memory by topic."""
        with self._lock:
            alerts, edges = list(self._alerts), dict(self._edges)
        alerts.sort(key=attrgetter("position"), reverse=True)  # nearly sorted already: one pass
        return AlertsInMemory(alerts, edges)

    def correction(self, alert_id: str) -> FeedCorrection | None:
        """Find the newest correction of an alert."""
        with self._lock:
            return self._corrections.get(alert_id)

    def retracted(self) -> list[str]:
        """List the ids of retracted alerts."""
        with self._lock:
            return [alert_id for alert_id, each in self._corrections.items() if each.kind == "RETRACTED"]

    def operation(self, version: int, item: ItemName = NO_ITEM) -> RuleOperation | None:
        """Find the detector's report about a record of the rule log. The newest report of each item always stays in
        memory.
        """
        with self._lock:
            found = self._by_version.get(version)
            if found is None:
                newest = self._by_collection.get(item) if item.rule_id is None else self._by_rule.get(item.rule_id)
                found = newest if newest is not None and newest.rule_version == version else None
            return found

    def operations_after(self, version: int) -> list[RuleOperation]:
        """List the reports about records after this version, by version, at most a thousand."""
        with self._lock:
            later = heapq.nsmallest(_MOST_OPERATIONS, (each for each in self._by_version if each > version))
            return [self._by_version[each] for each in later]

    def rejected(self, most: int = 50) -> list[RuleOperation]:
        """List the newest records of the rule log that the detector rejected, newest first."""
        with self._lock:
            reports = list(self._by_version.values())
        return newest_rejected(reports)[:most]

    def newest_progress(self) -> list[FeedBatch]:
        """List the last batches, in order."""
        with self._lock:
            return list(self._progress)

    def progress_since(self, since_ms: int) -> list[FeedBatch]:
        """List the batches since `since_ms`, in order."""
        with self._lock:
            return [each for each in self._points if each.append_ms >= since_ms]

    def rule_cpu_ns(self, log_version: int | None) -> float | None:
        """The CPU time of a version of a rule for each transaction, as the detector's newest report has it."""
        with self._lock:
            return None if log_version is None else self._rule_cpu.get(log_version)

    def rates(self, now_ms: int) -> dict[int, float]:
        """Count the alerts of the last minute by rule."""
        with self._lock:
            return {rule_id: self.counts.rate(rule_id, now_ms) for rule_id in self.counts.rules()}

    def hour(self, rule_id: int, now_ms: int) -> list[int]:
        """Count a rule's alerts of the last hour by minute, oldest first."""
        with self._lock:
            return self.counts.hour(rule_id, now_ms)

    def _add_alert(self, alert: FeedAlert) -> None:
        if alert.facts.alert_id in self._by_id:
            return  # a rebuilt detector may publish an alert again
        self._alerts.append(alert)
        self._by_id[alert.facts.alert_id] = alert
        self._bytes += alert.size
        edge = self._edges.get(alert.source, Edge())
        if edge.bound is None:
            self._edges[alert.source] = replace(edge, bound=_just_after(alert))
        if alert.added_ms is None:
            self.counts.add(alert.facts.rule_id, alert.append_ms)
            self.day.add_alert(alert)
        while len(self._alerts) > self._bounds.alerts or self._bytes > self._bounds.alert_bytes:
            old = self._alerts.popleft()
            self._bytes -= old.size
            del self._by_id[old.facts.alert_id]
            first = self._edges[old.source].first
            self._edges[old.source] = Edge(old.offset + 1, first, _just_after(old))
            if old.added_ms is None:
                self._floor = self._floor.after(old.source, old.offset)

    def _add_correction(self, correction: FeedCorrection) -> None:
        if len(self._corrected) == self._corrected.maxlen:
            self._floor = self._floor.after(FeedSource.CORRECTIONS, self._corrected[0].offset)
        self._corrected.append(correction)
        if correction.transaction_id is not None and correction.corrected is not None:
            self.decisions.correct(correction.transaction_id, correction.corrected)
        self._corrections[correction.alert_id] = correction
        self._corrections.move_to_end(correction.alert_id)
        if len(self._corrections) > self._bounds.corrections:
            self._corrections.popitem(last=False)
        if correction.alert is not None:
            self._add_alert(correction.alert)

    def _add_operation(self, seen: FeedOperation) -> None:
        # A further report on a warm-up has no other news about its record.
        operation = seen.operation.after(self._by_version.get(seen.operation.rule_version))
        self._operations.append(replace(seen, operation=operation))
        self._by_version[operation.rule_version] = operation
        if operation.rule_id is not None:
            self._by_rule[operation.rule_id] = operation
        named = (ItemName.of_list(operation.list_name or ""), ItemName.of_map(operation.map_name or ""))
        for item in (each for each in named if each.key):
            self._by_collection[item] = operation
            while len(self._by_collection) > self._bounds.collections:
                del self._by_collection[next(iter(self._by_collection))]
        while len(self._operations) > self._bounds.operations:
            old = self._operations.popleft()
            if self._by_version.get(old.operation.rule_version) is old.operation:
                del self._by_version[old.operation.rule_version]
            self._floor = self._floor.after(FeedSource.OPERATIONS, old.offset)


def _just_after(alert: FeedAlert) -> Position:
    append_ms, source, offset = alert.position
    return append_ms, source, offset + 1


def _between(
    log: deque[FeedAlert] | deque[FeedCorrection] | deque[FeedOperation], since: FeedPlace, until: FeedPlace
) -> Iterator[Event]:
    for event in log:
        if since.next[event.source] <= event.offset < until.next[event.source]:
            if isinstance(event, FeedAlert) and event.added_ms is not None:
                continue  # the event of its correction carries it
            yield event
