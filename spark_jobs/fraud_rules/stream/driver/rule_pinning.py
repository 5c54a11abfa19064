"""Pins rules on the driver: decides the pin of a batch, and lists the entries that the pin makes live."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.budget import ObservedTraffic, RetainedState, over_budget
from fraud_rules.engine.cpu_cost import CpuLoad, over_cpu_budget
from fraud_rules.engine.event_rate import EventRate
from fraud_rules.engine.mapping_limit import LINUX_MAPPINGS, over_mapping_limit
from fraud_rules.errors import Reason
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.logs.rule_log import RuleLog
from fraud_rules.logs.warm_up_log import WarmUpResult
from fraud_rules.model.rule import Control, ControlType, Rule
from fraud_rules.model.ruleset import LogEntry, RuleSet, RuleTimeline
from fraud_rules.stream.driver.warm_ups import WarmUpWatch
from fraud_rules.stream.pins import NO_PIN, Pin, PinStore

_NO_OFFSETS: Final[Mapping[str, int]] = {}


@dataclass(frozen=True, slots=True)
class BatchRules:
    """The pin of a batch, the rule log up to the pin, the entries that earlier batches did not have, and the warm-ups
    that end with this batch."""

    pin: Pin
    timeline: RuleTimeline
    new: Sequence[LogEntry]
    warm_ups: Sequence[WarmUpResult] = ()


class RulePinner:
    """Decides the pins of batches, one after the other."""

    def __init__(
        self,
        settings: DetectorSettings,
        log: RuleLog,
        reader: TopicReader,
        pins: PinStore,
        rate: EventRate | None = None,
        warm_ups: WarmUpWatch | None = None,
        mappings: int = LINUX_MAPPINGS,
    ) -> None:
        """`reader` reads the topic of rules, `rate` is the last known rate. Without `warm_ups`, no warm-up ends.
        `mappings` is the number that the system allows a worker.
        Starts at the newest existing pin."""
        self._settings = settings
        self._log = log
        self._reader = reader
        self._pins = pins
        self._warm_ups = warm_ups
        self.rate = rate or EventRate()
        self._retained = RetainedState()
        self._mappings = mappings
        self._load = CpuLoad()
        self._loaded: RuleSet | None = None
        self._newest = max(pins.batches(), default=NO_PIN.batch_id)
        # A checkpoint that did not start at the beginning of the topics has a pin before its first batch.
        self._last = pins.read(NO_PIN.batch_id) or NO_PIN

    def stopped_at(self) -> int | None:
        """The offset of the last CLEAR_STATE_ALL_STOP that a pin includes."""
        pin = self._pins.read(self._newest) or NO_PIN
        return self._log.up_to(pin.rules_end, pin.reasons(), pin.digest).latest.stopped_at

    def newest_pin(self) -> Pin:
        """The pin of the newest batch."""
        return self._pins.read(self._newest) or self._last

    def rules_of(self, batch_id: int, starts: Mapping[str, int] = _NO_OFFSETS) -> BatchRules:
        """The rules of a batch: those of its first attempt, else all current rules, pinned durably.

        `starts` are the offsets of the transactions at which the batch starts, by partition (as text).
        """
        previous = self._last if self._last.batch_id == batch_id - 1 else self._pins.read(batch_id - 1) or NO_PIN
        pin = self._pins.read(batch_id) if batch_id <= self._newest else None
        if pin is None:
            pin = self._pins.create(self._decide(batch_id, previous, starts))
        self._newest, self._last = max(self._newest, batch_id), pin
        timeline = self._log.up_to(pin.rules_end, pin.reasons(), pin.digest)
        start = bisect_left(timeline.entries, previous.rules_end, key=lambda entry: entry.version)
        return BatchRules(pin, timeline, timeline.entries[start:], self._ended_warm_ups(pin))

    def _ended_warm_ups(self, pin: Pin) -> list[WarmUpResult]:
        if self._warm_ups is None:
            return []
        ended = sorted(int(version) for version, ref in pin.warm_ups.items() if ref.batch_id == pin.batch_id)
        return [self._warm_ups.result(version, pin.warm_ups[str(version)]) for version in ended]

    def record_batch(self, rows: int, event_span_ms: tuple[int, int] | None, retained: RetainedState) -> None:
        """Record a batch: its transactions, their span of event time (None without any), and the state after it."""
        if event_span_ms is not None:
            self.rate = self.rate.after(rows, *event_span_ms)
        self._retained = retained

    def _decide(self, batch_id: int, previous: Pin, starts: Mapping[str, int]) -> Pin:
        _, end = self._reader.ends()
        # Earlier batches have reported the reasons of these records.
        refused = previous.earlier_refusals()
        if end > previous.rules_end:
            for offset, reasons in self._over_budget(previous, end):
                refused[str(offset)] = [(reason.field, reason.message) for reason in reasons]
        end = max(end, previous.rules_end)
        warm_ups = {version: ref.short() for version, ref in previous.warm_ups.items()}
        if self._warm_ups is not None:
            warm_ups |= self._warm_ups.joining(batch_id, starts, end, previous.warm_ups)
        return Pin(batch_id, end, refused, self._log.digest(end), warm_ups)

    def cpu_ns(self, in_force: RuleSet) -> int:
        """The estimated CPU time of the rules in force for each transaction, in ns."""
        if self._loaded is not in_force:
            self._load.follow(in_force.rules)
            self._loaded = in_force
        return self._load.total_ns

    def _over_budget(self, previous: Pin, end: int) -> list[tuple[int, list[Reason]]]:
        """The new records whose rules would exceed the budget of state or of CPU time, or the mappings of a worker,
        with the reasons."""
        settings = self._settings
        lateness_ms = settings.max_out_of_orderness_ms
        traffic = ObservedTraffic(self.rate, settings.state_bytes_per_event, lateness_ms, self._retained)
        found = []
        timeline = self._log.up_to(previous.rules_end, previous.reasons(), previous.digest)
        self.cpu_ns(timeline.latest)
        before: list[LogEntry] = []
        for entry in self._log.entries(previous.rules_end, end, {}):
            reasons: list[Reason] = []
            if isinstance(entry.change, Rule):
                timeline = timeline.extended(before)
                self._follow(timeline.latest, before)
                before = []
                limits = (
                    over_budget(entry.change, timeline.latest, traffic, settings.state_budget_bytes),
                    over_cpu_budget(entry.change, self._load, settings.cpu_budget_ns),
                    over_mapping_limit(entry.change, timeline.latest, settings.key_groups, self._mappings),
                )
                reasons = [reason for reason in limits if reason is not None]
            if reasons:
                found.append((entry.version, reasons))
            before.append(entry.refused(reasons) if reasons else entry)
        return found

    def _follow(self, in_force: RuleSet, entries: Sequence[LogEntry]) -> None:
        """Bring the load to the rules in force after these entries."""
        if any(entry.change == Control(ControlType.DELETE_RULES_ALL) for entry in entries):
            self._load.follow(in_force.rules)
        else:
            self._load.follow(in_force.rules, [each.rule_id for each in entries if each.rule_id is not None])
        self._loaded = in_force
