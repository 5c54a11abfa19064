"""The list of alerts, newest first: the alerts in memory, then older ones from the topics."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

from fraud_control.domain.alert_search import AlertSearch
from fraud_control.domain.snoozing import Snoozing
from fraud_control.feed.events import FeedAlert
from fraud_control.feed.memory import AlertsInMemory, Edge, FeedMemory
from fraud_control.feed.past import PastAlerts, PastRecord, Search, SearchCut
from fraud_control.feed.place import FeedSource, Position


@dataclass(frozen=True, slots=True)
class AlertPage:
    """A page of alerts, newest first. The next page starts before `next`, if it is set.

    `searched_to_ms` is set if the search ended before the page was full: it reached back to this time, in epoch ms.
    If the list ends, `lost` names the topics whose oldest alerts retention has deleted.
    """

    alerts: Sequence[FeedAlert]
    next: Position | None = None
    searched_to_ms: int | None = None
    lost: Sequence[str] = ()


class AlertList:
    """Several threads may use it."""

    def __init__(self, memory: FeedMemory, past: PastAlerts, snoozing: Callable[[], Snoozing]) -> None:
        self._memory = memory
        self._past = past
        self._snoozing = snoozing

    def page(self, chosen: AlertSearch, before: Position | None, limit: int, key: str = "") -> AlertPage:
        """List at most `limit` alerts before a position. If memory lacks some, read the topics, which may raise
        BrokerUnavailable.

        The search must not need the index. `key` is text in a value of the key.
        """
        selection, sources = _Selection(self._memory, chosen, key, self._snoozing()), _sources(chosen.shadow)
        kept, found, last = self._memory.kept(), list[FeedAlert](), before
        with self._past.searching() as search:
            try:
                for position, alert in _merged(kept, search, sources, before):
                    if alert is not None and selection.accepts(alert):
                        if len(found) == limit:
                            return AlertPage(found, found[-1].position)
                        found.append(alert)
                    last = position
            except SearchCut:
                assert last is not None  # a search reads at least one record before it ends
                return AlertPage(found, last, last[0])
        return AlertPage(found, lost=self._lost(kept, search, sources))

    def alert(self, alert_id: str, position: Position | None = None) -> FeedAlert | None:
        """Read an alert from memory, else from its position in the topics. Raises BrokerUnavailable."""
        found = self._memory.alert(alert_id)
        if found is None and position is not None:
            found = self._past.at(position)
        return found if found is not None and found.facts.alert_id == alert_id else None

    def _lost(self, kept: AlertsInMemory, search: Search, sources: Sequence[FeedSource]) -> Sequence[str]:
        begun_later = {each for each in sources if kept.edges.get(each, Edge()).first > 0}
        return [self._past.topic(each) for each in sorted(begun_later | search.lost)]


def _sources(shadow: bool | None) -> Sequence[FeedSource]:
    """The topics that can hold alerts, shadow alerts only (true) or others only (false)."""
    everywhere = (FeedSource.ALERTS, FeedSource.SHADOW, FeedSource.CORRECTIONS)
    if shadow is None:
        return everywhere
    return [each for each in everywhere if each is not (FeedSource.ALERTS if shadow else FeedSource.SHADOW)]


def _merged(
    kept: AlertsInMemory, search: Search, sources: Sequence[FeedSource], before: Position | None
) -> Iterator[PastRecord]:
    """Merge the alerts of memory and topics before a position, newest first."""
    return heapq.merge(
        _remembered(kept, sources, before),
        *(_older(search, source, kept.edges.get(source, Edge()), before) for source in sources),
        key=itemgetter(0),
        reverse=True,
    )


def _remembered(kept: AlertsInMemory, sources: Sequence[FeedSource], before: Position | None) -> Iterator[PastRecord]:
    for alert in kept.alerts:
        edge = kept.edges.get(alert.source, Edge())
        if alert.source in sources and alert.offset >= edge.offset and (before is None or alert.position < before):
            yield alert.position, alert


def _older(search: Search, source: FeedSource, edge: Edge, before: Position | None) -> Iterator[PastRecord]:
    """Yield the alerts of a topic that memory lacks. The first request to the broker waits until the list reaches
    them.
    """
    if edge.offset <= edge.first:
        return
    if edge.bound is not None and (before is None or edge.bound < before):
        yield edge.bound, None
    yield from search.older(source, edge.offset, before)


class _Selection:
    """Selects the alerts that match the filter, each once."""

    def __init__(self, memory: FeedMemory, chosen: AlertSearch, key: str, snoozing: Snoozing) -> None:
        self._memory = memory
        self._filter = chosen
        self._key = key.lower()
        self._snoozing = snoozing
        self._seen: set[str] = set()

    def accepts(self, alert: FeedAlert) -> bool:
        if not self._is_selected(alert) or self._is_again(alert):
            return False
        self._seen.add(alert.facts.alert_id)
        return True

    def _is_again(self, alert: FeedAlert) -> bool:
        """Whether the alert is a repetition: a rebuilt detector may publish an alert again."""
        here = self._memory.alert(alert.facts.alert_id)
        return alert.facts.alert_id in self._seen or (here is not None and here.position > alert.position)

    def _is_selected(self, alert: FeedAlert) -> bool:
        chosen, facts = self._filter, alert.facts
        if chosen.rule_id not in (None, facts.rule_id) or chosen.shadow not in (None, facts.shadow):
            return False
        if self._key and not any(self._key in str(value).lower() for value in facts.key.values()):
            return False
        if not chosen.snoozed and self._snoozing.covers(facts.rule_id, facts.key):
            return False
        if chosen.corrections is None:
            return True
        return chosen.corrections == (self._memory.correction(facts.alert_id) is not None)
