"""Warm-ups: which past transactions a rule with `warmUp` adds to the history of its grouping.

The rule log alone determines a request, so the detector, the job and a replay derive the same one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from fraud_rules.model.log_entry import LogEntry
from fraud_rules.model.rule import Control, ControlType, Rule, RuleDeletion
from fraud_rules.model.ruleset import Grouping, RuleInForce, RuleTimeline
from fraud_rules.model.transaction import TransactionBatch

_Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class BatchWarmUp(msgspec.Struct, frozen=True, rename="camel"):
    """A warm-up that joined the state at the start of a batch: the version of its rule record, the offset of its result
    in `warm-ups`, the digest of the result, and the offsets after the last transactions read, by partition."""

    version: _Whole
    offset: _Whole
    digest: str
    ends: dict[str, _Whole] = {}


@dataclass(frozen=True, slots=True)
class WarmUpRequest:
    """The request of the rule record `version` to fill the history of a grouping.

    It concerns the transactions with append times in [`since_ms`, `until_ms`): those after the last clear and before
    the record. `reach_ms` is the longest reach of the grouping's rules at the record, and `retained_ms` the longest
    time for which they keep single rows. `long_rule` is the rule of the record if its series begins there: the history
    of any other series is not filled. The grouping has rows since `began_ms`, and its rules since then have kept them
    for at most `longest_retained_ms`.
    """

    version: int
    rule_id: int
    fields: Grouping
    since_ms: int
    until_ms: int
    reach_ms: int
    retained_ms: int
    long_rule: RuleInForce | None = None
    began_ms: int = 0
    longest_retained_ms: int = 0

    def concerns(self, rows: TransactionBatch) -> NDArray[np.bool_]:
        """Whether each row was appended in the time of the request, and has a value in each field of the grouping."""
        chosen: NDArray[np.bool_] = (rows.append_ms >= self.since_ms) & (rows.append_ms < self.until_ms)
        for name in self.fields:
            valid = rows.columns[name].valid
            if valid is not None:
                chosen &= valid
        return chosen


def request_at(timeline: RuleTimeline, version: int) -> WarmUpRequest | None:
    """The request of the record at this offset. None if the record requests no warm-up or is not in force."""
    position = timeline.position_of(version)
    entry = timeline.entries[position] if position < len(timeline) else None
    if entry is None or entry.version != version or not isinstance(entry.change, Rule) or not entry.change.warm_up:
        return None
    rule, after = entry.change, timeline.rule_set(position + 1)
    grouping, in_force = after.groupings[rule.grouping], after.rules[rule.rule_id]
    since = timeline.entries[timeline.position_of(grouping.incarnation) : position + 1]
    return WarmUpRequest(
        version,
        rule.rule_id,
        rule.grouping,
        after.cleared_ms,
        entry.time_ms,
        max(each.rule.reach_ms for each in grouping.rules),
        grouping.widest_window_ms,
        in_force if in_force.series == version else None,
        since[0].time_ms,
        _longest_retained_ms(since, rule.grouping),
    )


def _longest_retained_ms(entries: Iterable[LogEntry], fields: Grouping) -> int:
    """The longest time for which a rule of these entries keeps single rows in a grouping."""
    changes = (each.change for each in entries if each.grouping == fields)
    return max((change.retained_ms for change in changes if isinstance(change, Rule)), default=0)


def is_current(request: WarmUpRequest, timeline: RuleTimeline) -> bool:
    """Whether the history that the request concerns still counts: the grouping has not ended and no clear followed."""
    return timeline.grouping_to_warm(request.fields, request.version) is not None


def grouping_warmed_by(version: int, timeline: RuleTimeline) -> Grouping | None:
    """The grouping whose history includes the result of the request `version`, if the result was added. None if the
    grouping has ended since, or a clear followed."""
    position = timeline.position_of(version)
    fields = timeline.entries[position].grouping if position < len(timeline) else None
    if fields is None or timeline.entries[position].version != version:
        return None
    return None if timeline.grouping_to_warm(fields, version) is None else fields


def shortest_reaches_ms(timeline: RuleTimeline, start: int, versions: Mapping[int, Grouping]) -> dict[int, int]:
    """For each of these records with a grouping, the shortest reach that the grouping has had since the record.

    Only the entries from position `start` on count. A record whose grouping has not changed since then has no value.
    """
    if not versions:
        return {}
    watched: dict[Grouping, list[int]] = {}
    for version, fields in versions.items():
        watched.setdefault(fields, []).append(version)
    reaches = _Reaches(timeline, start, watched)
    shortest: dict[int, int] = {}
    for entry in timeline.entries[start:]:
        for fields in reaches.apply(entry):
            reach_ms = reaches.of(fields)
            for version in watched[fields]:
                if version <= entry.version:
                    shortest[version] = min(reach_ms, shortest.get(version, reach_ms))
    return shortest


class _Reaches:
    """The reaches of the rules of some groupings, entry by entry. Unlike a fold, it ignores all other groupings."""

    def __init__(self, timeline: RuleTimeline, start: int, watched: Mapping[Grouping, object]) -> None:
        in_force = timeline.rule_set(start).groupings
        self._by_grouping: dict[Grouping, dict[int, int]] = {
            fields: {each.rule.rule_id: each.rule.reach_ms for each in in_force[fields].rules}
            if fields in in_force
            else {}
            for fields in watched
        }
        self._groupings = {rule_id: fields for fields, rules in self._by_grouping.items() for rule_id in rules}

    def of(self, fields: Grouping) -> int:
        """The longest reach of a grouping's rules; 0 without rules."""
        return max(self._by_grouping[fields].values(), default=0)

    def apply(self, entry: LogEntry) -> set[Grouping]:
        """Apply an entry, and return the groupings that it may have changed."""
        fields = entry.grouping
        if fields is not None and fields not in self._by_grouping and entry.content.rule_id not in self._groupings:
            return set()
        match entry.change:
            case Rule() as rule:
                changed = self._remove(rule.rule_id)
                if rule.grouping in self._by_grouping:
                    self._by_grouping[rule.grouping][rule.rule_id] = rule.reach_ms
                    self._groupings[rule.rule_id] = rule.grouping
                    changed.add(rule.grouping)
                return changed
            case RuleDeletion(rule_id):
                return self._remove(rule_id)
            case Control(ControlType.DELETE_RULES_ALL):
                return {fields for rule_id in list(self._groupings) for fields in self._remove(rule_id)}
        return set()

    def _remove(self, rule_id: int) -> set[Grouping]:
        fields = self._groupings.pop(rule_id, None)
        if fields is None:
            return set()
        del self._by_grouping[fields][rule_id]
        return {fields}
