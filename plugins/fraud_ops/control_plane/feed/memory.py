"""What the feed remembers: the newest of everything, within bounds of number and bytes. Safe for several threads."""

from __future__ import annotations

import heapq
import threading
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from fraud_ops.control_plane.feed.counts import MinuteCounts
from fraud_ops.control_plane.feed.events import (
    AlertSeen,
    CorrectionSeen,
    Event,
    LateSeen,
    OperationSeen,
    ProgressPassed,
    QuarantineSeen,
    RuleTouched,
)
from fraud_ops.control_plane.feed.place import Place, Position, Source
from fraud_rules.logs.rule_status import RuleOperation, newest_refused

__all__ = ["Bounds", "Edge", "FeedMemory", "Kept"]

_LISTED = 50


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is kept; of alerts also how many bytes."""

    alerts: int = 50_000
    alert_bytes: int = 67_108_864
    corrections: int = 20_000
    operations: int = 20_000
    progress: int = 20_000
    newest_progress: int = 500


@dataclass(frozen=True, slots=True)
class Edge:
    """Where memory ends for one topic: every alert from `offset` on is here, and what is not is before `bound`.

    `bound` is None while no alert of the topic has come. The topic began at `first` when it was read, so that from
    there to `offset` older ones may be.
    """

    offset: int = 0
    first: int = 0
    bound: Position | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """The alerts here, newest first, and where memory ends."""

    alerts: Sequence[AlertSeen]
    edges: Mapping[Source, Edge]


class FeedMemory:
    """Events are kept in the order in which they came, so that who has been away can be told what was missed."""

    def __init__(self, bounds: Bounds | None = None) -> None:
        self._bounds = bounds or Bounds()
        self._lock = threading.Lock()
        self._alerts: deque[AlertSeen] = deque()
        self._bytes = 0
        self._by_id: dict[str, AlertSeen] = {}
        self._corrections: OrderedDict[str, CorrectionSeen] = OrderedDict()
        self._corrected: deque[CorrectionSeen] = deque(maxlen=self._bounds.corrections)
        self._operations: deque[OperationSeen] = deque()
        self._by_version: dict[int, RuleOperation] = {}
        self._by_rule: dict[int, RuleOperation] = {}
        self._progress: deque[ProgressPassed] = deque(maxlen=self._bounds.newest_progress)
        self._points: deque[ProgressPassed] = deque(maxlen=self._bounds.progress)
        self.late: deque[LateSeen] = deque(maxlen=_LISTED)
        self.quarantine: deque[QuarantineSeen] = deque(maxlen=_LISTED)
        self.counts = MinuteCounts()
        self._floor = Place()
        self._edges: dict[Source, Edge] = {}

    def begin(self, source: Source, offset: int, first: int) -> None:
        """What is before this offset, from the topic's first one on, has never been read."""
        with self._lock:
            self._floor = self._floor.after(source, offset - 1)
            self._edges[source] = Edge(offset, first)

    @property
    def floor(self) -> Place:
        """From where on everything is here."""
        with self._lock:
            return self._floor

    def take(self, event: Event) -> None:
        """Keep an event."""
        with self._lock:
            match event:
                case AlertSeen():
                    self._take_alert(event)
                case CorrectionSeen():
                    self._take_correction(event)
                case OperationSeen():
                    self._take_operation(event)
                case ProgressPassed():
                    self._progress.append(event)
                    self._points.append(event)
                case RuleTouched():
                    pass

    def missed(self, since: Place, until: Place) -> list[Event] | None:
        """What came in between, in order; None when some of it is no longer, or has never been, here."""
        with self._lock:
            kept = (Source.ALERTS, Source.SHADOW, Source.CORRECTIONS, Source.OPERATIONS)
            if any(not self._floor.next[source] <= since.next[source] <= until.next[source] for source in kept):
                return None
            events: list[Event] = []
            for log in (self._alerts, self._corrected, self._operations):
                events += _between(log, since, until)
            return events

    def alert(self, alert_id: str) -> AlertSeen | None:
        """One that is remembered."""
        with self._lock:
            return self._by_id.get(alert_id)

    def alerts(self) -> list[AlertSeen]:
        """All of them, in the order in which they came."""
        with self._lock:
            return list(self._alerts)

    def kept(self) -> Kept:
        """All of them, newest first by append time, and where older ones begin."""
        with self._lock:
            alerts, edges = list(self._alerts), dict(self._edges)
        alerts.sort(key=attrgetter("position"), reverse=True)  # nearly sorted already: one pass
        return Kept(alerts, edges)

    def correction(self, alert_id: str) -> CorrectionSeen | None:
        """The newest word about an alert."""
        with self._lock:
            return self._corrections.get(alert_id)

    def retracted(self) -> list[str]:
        """The alerts that should not have been."""
        with self._lock:
            return [alert_id for alert_id, each in self._corrections.items() if each.kind == "RETRACTED"]

    def operation(self, version: int, rule_id: int | None = None) -> RuleOperation | None:
        """What was said of a record of the rule log; for the newest record of a rule it is always remembered."""
        with self._lock:
            found = self._by_version.get(version)
            if found is None and rule_id is not None:
                newest = self._by_rule.get(rule_id)
                found = newest if newest is not None and newest.rule_version == version else None
            return found

    def operations_after(self, version: int, most: int = 1_000) -> list[RuleOperation]:
        """What was said of the records after this one, by version."""
        with self._lock:
            return [
                self._by_version[each] for each in heapq.nsmallest(most, (v for v in self._by_version if v > version))
            ]

    def refused(self, most: int = 50) -> list[RuleOperation]:
        """The newest records of the rule log that the detector refused, newest first."""
        with self._lock:
            reports = list(self._by_version.values())
        return newest_refused(reports)[:most]

    def newest_progress(self) -> list[ProgressPassed]:
        """The last batches, in order."""
        with self._lock:
            return list(self._progress)

    def progress_since(self, since_ms: int) -> list[ProgressPassed]:
        """The batches since then, in order."""
        with self._lock:
            return [each for each in self._points if each.append_ms >= since_ms]

    def rates(self, now_ms: int) -> dict[int, float]:
        """By rule, alerts in the last minute."""
        with self._lock:
            return {rule_id: self.counts.rate(rule_id, now_ms) for rule_id in self.counts.rules()}

    def hour(self, rule_id: int, now_ms: int) -> list[int]:
        """A rule's alerts of the last hour, by minute, oldest first."""
        with self._lock:
            return self.counts.hour(rule_id, now_ms)

    def _take_alert(self, alert: AlertSeen) -> None:
        if alert.facts.alert_id in self._by_id:
            return  # a detector that was rebuilt may say a thing again: it is the same alert
        self._alerts.append(alert)
        self._by_id[alert.facts.alert_id] = alert
        self._bytes += alert.size
        edge = self._edges.get(alert.source, Edge())
        if edge.bound is None:
            self._edges[alert.source] = replace(edge, bound=_just_after(alert))
        if alert.added_ms is None:
            self.counts.add(alert.facts.rule_id, alert.append_ms)
        while len(self._alerts) > self._bounds.alerts or self._bytes > self._bounds.alert_bytes:
            old = self._alerts.popleft()
            self._bytes -= old.size
            del self._by_id[old.facts.alert_id]
            first = self._edges[old.source].first
            self._edges[old.source] = Edge(old.offset + 1, first, _just_after(old))
            if old.added_ms is None:
                self._floor = self._floor.after(old.source, old.offset)

    def _take_correction(self, correction: CorrectionSeen) -> None:
        if len(self._corrected) == self._corrected.maxlen:
            self._floor = self._floor.after(Source.CORRECTIONS, self._corrected[0].offset)
        self._corrected.append(correction)
        self._corrections[correction.alert_id] = correction
        self._corrections.move_to_end(correction.alert_id)
        if len(self._corrections) > self._bounds.corrections:
            self._corrections.popitem(last=False)
        if correction.alert is not None:
            self._take_alert(correction.alert)

    def _take_operation(self, seen: OperationSeen) -> None:
        operation = seen.operation
        self._operations.append(seen)
        self._by_version[operation.rule_version] = operation
        if operation.rule_id is not None:
            self._by_rule[operation.rule_id] = operation
        while len(self._operations) > self._bounds.operations:
            old = self._operations.popleft()
            self._by_version.pop(old.operation.rule_version, None)
            self._floor = self._floor.after(Source.OPERATIONS, old.offset)


def _just_after(alert: AlertSeen) -> Position:
    append_ms, source, offset = alert.position
    return append_ms, source, offset + 1


def _between(
    log: deque[AlertSeen] | deque[CorrectionSeen] | deque[OperationSeen], since: Place, until: Place
) -> Iterator[Event]:
    for event in log:
        if since.next[event.source] <= event.offset < until.next[event.source]:
            if isinstance(event, AlertSeen) and event.added_ms is not None:
                continue  # its correction says it
            yield event
