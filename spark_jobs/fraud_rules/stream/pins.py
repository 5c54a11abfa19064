"""Pins. A pin fixes the end of the rule log for one batch before the batch is evaluated.

A pin becomes durable with the outputs of its batch, in the marker of the same transaction. An attempt without a
commit leaves no visible output, so the next attempt may have another pin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from fraud_rules.errors import Reason
from fraud_rules.logs.offset_runs import runs_of
from fraud_rules.logs.warm_up_log import WarmUpRef
from fraud_rules.model.ruleset import Grouping, RuleTimeline
from fraud_rules.model.warm_up import grouping_warmed_by


class Pin(msgspec.Struct, frozen=True, rename="camel"):
    """The rules of a batch: the log below offset `rules_end`, without the rejected records.

    `live_end` is the offset of the first record whose rule time the detector's clock had not reached; None if it had
    reached all. `rejected` has the records that the driver rejected because of a budget or of their append time, by
    offset (as text). It has all of them so far, so the newest pin suffices. The [field, message] pairs of a record are
    in the first pin that has it; later pins keep only the offset, and consecutive offsets as `first-last`. A later
    record of the same rule ends no refusal: past transactions are still evaluated without the rejected record, in a
    partition that lags, in a rebuild and in a re-evaluation. `digest` is the digest of the records below `rules_end`,
    empty if an earlier version wrote the pin. `warm_ups` has the results of warm-ups that end with this batch, and for
    each grouping the newest one that its history includes, by the version of the rule record (as text). Every result
    below the offset `warm_ups_end` of its topic has ended. `time_zones` is the release of the time zones, empty if an
    earlier version wrote the pin.
    """

    batch_id: int
    rules_end: int
    rejected: dict[str, list[tuple[str, str]]] = msgspec.field(name="refused", default_factory=dict)
    digest: str = ""
    warm_ups: dict[str, WarmUpRef] = {}
    warm_ups_end: int = 0
    live_end: int | None = None
    time_zones: str = ""

    @property
    def reported_end(self) -> int:
        """The offset after the last record that this batch or an earlier one reported as live."""
        return self.rules_end if self.live_end is None else self.live_end

    def reasons(self) -> Mapping[int, list[Reason]]:
        """The reasons for rejected records, by offset."""
        return {
            offset: [Reason(*pair) for pair in pairs]
            for text, pairs in self.rejected.items()
            for first, _, last in [text.partition("-")]
            for offset in range(int(first), int(last or first) + 1)
        }

    def earlier_rejections(self) -> dict[str, list[tuple[str, str]]]:
        """The `rejected` of the next pin if it has no new ones."""
        return {f"{first}-{last}" if first < last else str(first): [] for first, last in runs_of(self.reasons())}

    def ending(self) -> Mapping[int, WarmUpRef]:
        """The results that end with this batch, by the version of the rule record, ascending."""
        return {version: ref for version, ref in self._by_version() if ref.ends_with(self.batch_id)}

    def joining(self) -> Mapping[int, WarmUpRef]:
        """The results that join the state at the start of the batch, by the version of the rule record, ascending."""
        return {version: ref for version, ref in self.ending().items() if not ref.fault}

    def warmed(self, timeline: RuleTimeline) -> Mapping[Grouping, tuple[int, WarmUpRef]]:
        """The newest result that each grouping's history includes, with the version of its rule record.

        `timeline` is the rule log below `rules_end`.
        """
        found: dict[Grouping, tuple[int, WarmUpRef]] = {}
        for version, ref in self._by_version():
            fields = None if ref.fault else grouping_warmed_by(version, timeline)
            if fields is not None:
                found[fields] = version, ref
        return found

    def _by_version(self) -> list[tuple[int, WarmUpRef]]:
        refs = ((int(version), ref) for version, ref in self.warm_ups.items())
        return sorted(refs, key=lambda each: each[0])


NO_PIN: Final = Pin(-1, 0)
"""The pin before the first batch, with no rules."""
