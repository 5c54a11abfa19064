"""The correct alerts of a completed day, computed by brute force and written from the specification alone.

The oracle evaluates the transactions that the detector accepted in the order (event time, arrival). Each transaction is
evaluated under the rules that its own batch saw at its own append time. Only the order differs from the running
detector, and with the order the rows that are known at each evaluation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from fraud_rules.model.schema import TransactionSchema
from tests.support.oracle.evaluation import _Evaluator, retention_of
from tests.support.oracle.retention import Retention
from tests.support.oracle.rules.log import read_rule_log
from tests.support.oracle.stream import (
    Document,
    Grouping,
    Row,
    WarmUp,
    arrivals,
    batches,
    parse,
    records,
)

Alert = Mapping[str, Any]


class _DayRetention(Retention):
    """The rows of a day, accepted by event time.

    In this order a row may follow a row of a later batch that had seen more of the rule log. A boundary that the row's
    own batch had not seen lies in the row's future: rows after the boundary are not in its windows.
    """

    def connected(self, x: Row, e: Row, grouping: Grouping) -> bool:
        known = self.standings[e.rules_seen].boundaries(grouping)
        behind = [each for each in self.standings[x.rules_seen].boundaries(grouping) if each not in known]
        return not behind and super().connected(x, e, grouping)


def completed(document: Document, schema: TransactionSchema) -> list[Alert]:
    """Every alert, live and shadow, that follows from the complete data."""
    return _evaluated(document, schema).alerts


def completed_decisions(document: Document, schema: TransactionSchema) -> list[Mapping[str, Any]]:
    """Every decision that follows from the complete data."""
    return list(_evaluated(document, schema).decisions)


def _evaluated(document: Document, schema: TransactionSchema) -> _Evaluator:
    settings = document.get("settings", {})
    log = read_rule_log(document, schema)
    court = _Evaluator(log, retention_of(document, schema, log, _DayRetention))
    accepted = list(_accepted(document, schema, len(log), settings))
    waiting = deque(sorted(_added(document, len(log)), key=lambda each: (each[0], each[1].version)))
    for position, row in enumerate(sorted(accepted, key=lambda row: (row.event_ms, row.arrival))):
        while waiting and waiting[0][0] <= row.event_ms:
            past = [(each, parse(each.tx, each.append_ms, schema, settings)) for each in records(document)]
            court.retention.add_history(waiting.popleft()[1], past)
        row.arrival = position
        court.accept_everywhere(row)
    return court


def _added(document: Document, pin: int) -> Iterator[tuple[int, WarmUp]]:
    """The warm-ups that batches added, each with the append time of the last transaction that the batch or an earlier
    one read: the day counts the added history from this event time on.
    """
    newest_ms = 0
    for batch in batches(document, pin):
        newest_ms = max([newest_ms, *(row.append_ms for row in batch.rows)])
        for warm_up in batch.warm_ups:
            yield newest_ms, warm_up


def _accepted(document: Document, schema: TransactionSchema, pin: int, settings: Document) -> Iterator[Row]:
    for row in arrivals(document, pin):
        values = parse(row.tx, row.append_ms, schema, settings)
        if values is not None:
            row.values = values
            yield row


def identity(alert: Alert) -> tuple[Any, ...]:
    """The members that identify an alert."""
    return (
        alert["ruleId"],
        alert["ruleVersion"],
        tuple(sorted(alert["key"].items())),
        alert["transactionId"],
        alert.get("role"),
    )
