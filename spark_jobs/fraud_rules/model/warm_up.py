"""Warm-ups: which past transactions a rule with `warmUp` adds to the history of its grouping.

The rule log alone determines a request, so the detector, the job and a replay derive the same one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from fraud_rules.model.log_entry import LogEntry, RecordOutcome
from fraud_rules.model.rule import Control, Rule
from fraud_rules.model.ruleset import Grouping, RuleTimeline
from fraud_rules.model.transaction import TransactionBatch

__all__ = ["BatchWarmUp", "WarmUpRequest", "covering", "is_current", "request_at", "requests_of"]

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
    the record. `reach_ms` is the longest reach of the grouping's rules at the record.
    """

    version: int
    rule_id: int
    fields: Grouping
    since_ms: int
    until_ms: int
    reach_ms: int

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
    for position, entry in enumerate(timeline.entries):
        if entry.version == version:
            return _request(timeline, position, entry)
    return None


def requests_of(timeline: RuleTimeline, start: int) -> list[WarmUpRequest]:
    """The requests of the records from offset `start` on, in order."""
    found = [
        _request(timeline, position, entry) for position, entry in enumerate(timeline.entries) if entry.version >= start
    ]
    return [request for request in found if request is not None]


def is_current(request: WarmUpRequest, timeline: RuleTimeline) -> bool:
    """Whether the history that the request concerns still counts: the grouping has not ended and no clear followed."""
    grouping = timeline.latest.groupings.get(request.fields)
    return grouping is not None and grouping.epoch <= request.version


def covering(version: int, timeline: RuleTimeline, added: Iterable[int]) -> int | None:
    """The version of an earlier request whose history already contains the history of this one.

    `added` are the versions of the requests whose histories were added. So an edit of a warm rule needs no warm-up,
    unless the rule reaches further back, or has reached less far in between. None if there is none.
    """
    request = request_at(timeline, version)
    if request is None or not is_current(request, timeline):
        return None
    for each in sorted((other for other in added if other < version), reverse=True):
        earlier = request_at(timeline, each)
        if earlier is not None and earlier.fields == request.fields and is_current(earlier, timeline):
            return each if _least_reach_ms(timeline, each, request) >= request.reach_ms else None
    return None


def _least_reach_ms(timeline: RuleTimeline, version: int, request: WarmUpRequest) -> int:
    """The shortest reach that the request's grouping has had since the record `version`."""
    positions = [
        position + 1 for position, entry in enumerate(timeline.entries) if version <= entry.version <= request.version
    ]
    return min(timeline.rule_set(each).groupings[request.fields].widest_window_ms for each in positions)


def _request(timeline: RuleTimeline, position: int, entry: LogEntry) -> WarmUpRequest | None:
    rule = entry.change
    if not isinstance(rule, Rule) or not rule.warm_up:
        return None
    grouping = timeline.rule_set(position + 1).groupings[rule.grouping]
    since_ms = _last_clear_ms(timeline, position)
    return WarmUpRequest(entry.version, rule.rule_id, rule.grouping, since_ms, entry.time_ms, grouping.widest_window_ms)


def _last_clear_ms(timeline: RuleTimeline, position: int) -> int:
    """The rule time of the last clear before this entry, 0 without one."""
    newest_ms = 0
    for entry in islice(timeline.entries, position):
        content = entry.content
        change = content.change if isinstance(content, RecordOutcome) else None
        if isinstance(change, Control) and change.type.clears_state:
            newest_ms = entry.time_ms
    return newest_ms
