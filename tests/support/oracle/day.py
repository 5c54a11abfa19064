"""What a completed day must answer, computed the slow and obvious way, written from the specification alone.

The transactions that the detector accepted, in the order (event time, arrival), judged by the brute-force oracle's own
court: each under the rules that its own batch saw at its own append time. What differs from the running detector is the
order, and so what is known when a row is judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fraud_rules.model.schema import TransactionSchema
from tests.support.oracle.evaluation import MINUTE_MS, _Judge
from tests.support.oracle.stream import Document, Grouping, Row, arrivals, parse, read_rule_log

Alert = Mapping[str, Any]


class _DayCourt(_Judge):
    """The court, taking rows in by event time.

    There a row may come after one that was judged later, by a batch that had seen more of the rule log. A boundary that
    the row's own batch did not see has not come yet for the row: what was judged behind it is not in its windows.
    """

    def connected(self, x: Row, e: Row, grouping: Grouping) -> bool:
        known = self._standings[e.rules_seen].boundaries(grouping)
        behind = [each for each in self._standings[x.rules_seen].boundaries(grouping) if each not in known]
        return not behind and super().connected(x, e, grouping)


def completed(document: Document, schema: TransactionSchema) -> list[Alert]:
    """Every alert there would be with all data known, live and shadow."""
    settings = document.get("settings", {})
    log = read_rule_log(document, schema)
    court = _DayCourt(schema, log, document.get("keyGroups", 1), settings.get("maxOutOfOrdernessMs", 5 * MINUTE_MS))
    accepted = list(_accepted(document, schema, len(log), settings.get("futureToleranceMs", 5 * MINUTE_MS)))
    for position, row in enumerate(sorted(accepted, key=lambda row: (row.event_ms, row.arrival))):
        row.arrival = position
        court.take_everywhere(row)
    return court.alerts


def _accepted(document: Document, schema: TransactionSchema, pin: int, tolerance_ms: int) -> Iterator[Row]:
    for row in arrivals(document, pin):
        values = parse(row.tx, row.append_ms, schema, tolerance_ms)
        if values is not None:
            row.values = values
            yield row


def identity(alert: Alert) -> tuple[Any, ...]:
    """What makes two alerts the same one."""
    return alert["ruleId"], alert["ruleVersion"], tuple(sorted(alert["key"].items())), alert["transactionId"]
