"""Pins rules on the driver: decides the pin of a batch, and lists the entries that the pin makes live."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.admission.budget import ObservedTraffic, RetainedState, StateLoad, over_budget
from fraud_rules.engine.admission.cpu_cost import CpuLoad, over_cpu_budget
from fraud_rules.engine.admission.event_rate import EventRate
from fraud_rules.engine.admission.mapping_limit import LINUX_MAPPINGS, over_mapping_limit
from fraud_rules.errors import Reason
from fraud_rules.logs.rule_log import RuleLog
from fraud_rules.logs.warm_up_log import WarmUpRef, WarmUpResult
from fraud_rules.model.rule import Control, ControlType, Rule
from fraud_rules.model.ruleset import GrowingRules, LogEntry, RuleSet, RuleTimeline
from fraud_rules.model.warm_up import request_at, shortest_reaches_ms
from fraud_rules.runtime import clock
from fraud_rules.runtime.zones_release import zones_release
from fraud_rules.stream.driver.warm_ups import WarmUpWatch
from fraud_rules.stream.pins import NO_PIN, Pin

_NO_OFFSETS: Final[Mapping[str, int]] = {}
APPEND_TIME: Final = "appendTime"
"""The member that a rejection names if the append time of a record is too far in the future."""


@dataclass(frozen=True, slots=True)
class BatchRules:
    """The pin of a batch, the rule log up to the pin, and the warm-ups that end with this batch.

    `decided` has the entries that the batch is the first to report: those of its pin that are rejected, and those that
    have become live. `live` is the rule set without the entries that are not live yet.
    """

    pin: Pin
    timeline: RuleTimeline
    decided: Sequence[LogEntry]
    live: RuleSet
    warm_ups: Sequence[WarmUpResult] = ()


class RulePinner:
    """Decides the pins of batches, one after the other."""

    def __init__(
        self,
        settings: DetectorSettings,
        log: RuleLog,
        pin: Pin = NO_PIN,
        rate: EventRate | None = None,
        warm_ups: WarmUpWatch | None = None,
        mappings: int = LINUX_MAPPINGS,
        now_ms: Callable[[], int] = clock.now_ms,
    ) -> None:
        """`pin` is the pin of the last written batch, `rate` the last known rate. Without `warm_ups`, no warm-up ends.
        `mappings` is the number that the system allows a worker. `now_ms` is the detector's clock."""
        self._settings = settings
        self._log = log
        self._warm_ups = warm_ups
        self._now_ms = now_ms
        self.rate = rate or EventRate()
        self._retained = RetainedState()
        self._mappings = mappings
        self._load = CpuLoad()
        self._state = StateLoad()
        self._loaded: RuleSet | None = None
        self._last = pin

    def live(self) -> RuleSet:
        """The rules that are live after the batch of the newest pin."""
        pin = self._last
        timeline = self._log.up_to(pin.rules_end, pin.reasons(), pin.digest)
        return timeline.rule_set(timeline.position_of(pin.reported_end))

    def newest_pin(self) -> Pin:
        """The pin of the newest batch."""
        return self._last

    def rules_of(self, batch_id: int, rules_end: int, starts: Mapping[str, int] = _NO_OFFSETS) -> BatchRules:
        """Pin the rules up to the offset `rules_end` for a batch, which follows the batch of the newest pin.

        `starts` are the offsets of the transactions at which the batch starts, by partition (as text).
        """
        watch, previous = self._warm_ups, self._last
        pin, admitted = self._decide(batch_id, previous, rules_end, starts)
        self._last = pin
        timeline = self._log.up_to(pin.rules_end, pin.reasons(), pin.digest, admitted)
        return BatchRules(
            pin,
            timeline,
            _decided(timeline, previous, pin),
            timeline.rule_set(timeline.position_of(pin.reported_end)),
            [] if watch is None else [watch.result(version, ref) for version, ref in pin.ending().items()],
        )

    def record_batch(self, rows: int, event_span_ms: tuple[int, int] | None, retained: RetainedState) -> None:
        """Record a batch: its transactions, their span of event time (None without any), and the state after it."""
        if event_span_ms is not None:
            self.rate = self.rate.after(rows, *event_span_ms)
        self._retained = retained

    def _decide(
        self, batch_id: int, previous: Pin, rules_end: int, starts: Mapping[str, int]
    ) -> tuple[Pin, RuleTimeline]:
        """The pin of a batch, and the log up to this pin."""
        end = max(rules_end, previous.rules_end)
        now_ms = self._now_ms()
        # Earlier batches have reported the reasons of these records.
        rejected = previous.earlier_rejections()
        timeline = self._log.up_to(previous.rules_end, previous.reasons(), previous.digest)
        if end > previous.rules_end:
            timeline, new = self._admitted(timeline, end, now_ms)
            rejected |= {str(version): [(each.field, each.message) for each in why] for version, why in new.items()}
        warm_ups, warm_ups_end = previous.warm_ups, previous.warm_ups_end
        if self._warm_ups is not None:
            ready, warm_ups_end = self._warm_ups.ending(previous, starts, end)
            if ready or end > previous.rules_end or warm_ups_end > previous.warm_ups_end or previous.ending():
                warm_ups = warm_ups_after(previous, timeline, ready)
        pin = Pin(
            batch_id,
            end,
            rejected,
            self._log.digest(end),
            warm_ups,
            warm_ups_end,
            _live_end(timeline, previous, now_ms),
            zones_release(),
        )
        return pin, timeline

    def cpu_ns(self, in_force: RuleSet) -> int:
        """The estimated CPU time of the rules in force for each transaction, in ns."""
        self._follow(in_force)
        return self._load.total_ns

    def _admitted(
        self, timeline: RuleTimeline, end: int, now_ms: int
    ) -> tuple[RuleTimeline, dict[int, Sequence[Reason]]]:
        """The log up to offset `end`, and the reasons for the new records that this rejects, by offset: their time is
        too far in the future, or their rules would exceed the budget of state or of CPU time, or the mappings of a
        worker."""
        settings = self._settings
        lateness_ms = settings.max_out_of_orderness_ms
        traffic = ObservedTraffic(self.rate, settings.state_bytes_per_event, lateness_ms, self._retained)
        found: dict[int, Sequence[Reason]] = {}
        self._follow(timeline.latest)
        growing, entries = GrowingRules(timeline), list[LogEntry]()
        self._loaded = None
        for entry in self._log.entries(timeline.end, end, {}):
            reasons: list[Reason] = []
            if entry.append_ms > now_ms + settings.future_tolerance_ms:
                reasons = [_in_the_future(entry.append_ms, now_ms, settings.future_tolerance_ms)]
            elif isinstance(entry.change, Rule):
                limits = (
                    over_budget(entry.change, self._state, traffic, settings.state_budget_bytes),
                    over_cpu_budget(entry.change, self._load, settings.cpu_budget_ns),
                    over_mapping_limit(entry.change, self._state.groupings, settings.key_groups, self._mappings),
                )
                reasons = [reason for reason in limits if reason is not None]
            if reasons:
                found[entry.version] = reasons
            entries.append(entry.rejected_by_pin(reasons) if reasons else entry)
            growing.add(entries[-1])
            all_ended = entry.change == Control(ControlType.DELETE_RULES_ALL)
            for load in (self._load, self._state):
                load.follow(growing.rules, None if all_ended else [entry.rule_id or 0])
        return timeline.extended(entries, end), found

    def _follow(self, in_force: RuleSet) -> None:
        """Bring the loads to these rules."""
        if self._loaded is not in_force:
            for load in (self._load, self._state):
                load.follow(in_force.rules)
            self._loaded = in_force


def _decided(timeline: RuleTimeline, previous: Pin, pin: Pin) -> list[LogEntry]:
    """The entries whose effect a batch is the first to know: the rejected ones of its pin, and those that have become
    live."""
    known, live = timeline.position_of(previous.rules_end), timeline.position_of(pin.reported_end)
    first = timeline.position_of(previous.reported_end)
    return [
        entry
        for position, entry in enumerate(timeline.entries[first:], first)
        if (position >= known if entry.change is None else position < live)
    ]


def _live_end(timeline: RuleTimeline, previous: Pin, now_ms: int) -> int | None:
    """The offset of the first entry whose rule time the clock has not reached; None if it has reached all.

    A record that a batch has reported as live stays live when the clock steps back.
    """
    reached = bisect_right(timeline.entries, now_ms, key=lambda entry: entry.time_ms)
    reached = max(reached, timeline.position_of(previous.reported_end))
    return timeline.entries[reached].version if reached < len(timeline) else None


def _in_the_future(append_ms: int, now_ms: int, tolerance_ms: int) -> Reason:
    ahead_s = (append_ms - now_ms) / clock.MS_PER_S
    message = (
        f"is {ahead_s:,.0f} s ahead of the detector's clock, and at most {tolerance_ms / clock.MS_PER_S:,.0f} s are "
        "allowed: compare the clocks of the broker and of the detector's host, correct the wrong one, and write the "
        "record again"
    )
    return Reason(APPEND_TIME, message)


def warm_ups_after(previous: Pin, timeline: RuleTimeline, ready: Mapping[int, WarmUpRef]) -> dict[str, WarmUpRef]:
    """The `warm_ups` of the pin after `previous`. `timeline` is its rule log, and `ready` has the results that end with
    it, by version.

    The pin drops a result that is in the history of no grouping, or of one with a newer result. A result at or above
    `warm_ups_end` stays, because the topic still shows it as new.
    """
    warmed = previous.warmed(timeline)
    kept = {version: fields for fields, (version, _) in warmed.items()}
    requests = {version: request_at(timeline, version) for version in ready}
    joined = {version: request.fields for version, request in requests.items() if request is not None}
    start = timeline.position_of(min([previous.rules_end, *joined]))
    reaches = shortest_reaches_ms(timeline, start, kept | joined)
    after = {
        version: ref.later(reaches.get(int(version)))
        for version, ref in previous.warm_ups.items()
        if int(version) in kept or ref.offset >= previous.warm_ups_end
    }
    return after | {
        str(version): msgspec.structs.replace(ref, reach_ms=reaches.get(version, 0)) for version, ref in ready.items()
    }
