"""The newest decisions of the feed, with the scores that corrections have given their transactions since."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

_INT64: Final = 2**63 - 1
_EXACT: Final = 2**53
_Id: TypeAlias = Annotated[int, msgspec.Meta(ge=-_INT64, le=_INT64)]
_Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=-_EXACT, le=_EXACT)]

OutcomeName: TypeAlias = Literal["DECLINE", "REVIEW", "NOTE"]


class DecidedAlert(msgspec.Struct, frozen=True, rename="camel"):
    """An alert of a decision, with the weight of its rule."""

    rule_id: _Id
    rule_version: _Whole
    alert_id: str
    weight: _Whole


class _Decision(msgspec.Struct, frozen=True, rename="camel"):
    transaction_id: _Id | str
    score: _Whole
    outcome: OutcomeName
    alerts: list[DecidedAlert]
    event_time: _Whole


class CorrectedScore(msgspec.Struct, frozen=True, rename="camel"):
    """The score and the outcome of a transaction with all corrections of a run."""

    score: _Whole
    outcome: OutcomeName


@dataclass(frozen=True, slots=True)
class FeedDecision:
    """A decision, with the offset and the append time of its record."""

    offset: int
    append_ms: int
    transaction_id: int | str
    score: int
    outcome: OutcomeName
    alerts: Sequence[DecidedAlert]
    event_ms: int


@dataclass(frozen=True, slots=True)
class DecisionFilter:
    """The filter of a list of decisions. `transaction` is text in the transactionId. `outcome` is the corrected
    outcome, if there is one."""

    outcome: OutcomeName | None = None
    transaction: str = ""
    rule_id: int | None = None

    def accepts(self, decision: FeedDecision, corrected: CorrectedScore | None) -> bool:
        """Whether the list has the decision."""
        outcome = decision.outcome if corrected is None else corrected.outcome
        return (
            self.outcome in (None, outcome)
            and self.transaction.lower() in str(decision.transaction_id).lower()
            and (self.rule_id is None or any(alert.rule_id == self.rule_id for alert in decision.alerts))
        )


_decode = msgspec.json.Decoder(_Decision).decode


def read_decision(offset: int, append_ms: int, value: bytes) -> FeedDecision:
    """Decode a decision. Raises one of UNDECODABLE for any other record."""
    found = _decode(value)
    return FeedDecision(
        offset, append_ms, found.transaction_id, found.score, found.outcome, found.alerts, found.event_time
    )


class DecisionMemory:
    """Keeps the newest `most` decisions and corrected scores. Several threads may use it."""

    def __init__(self, most: int = 20_000) -> None:
        self._lock = threading.Lock()
        self._most = most
        self._decisions: deque[FeedDecision] = deque(maxlen=most)
        self._corrected: OrderedDict[int | str, CorrectedScore] = OrderedDict()

    def add(self, decision: FeedDecision) -> None:
        """Store a decision."""
        with self._lock:
            self._decisions.append(decision)

    def correct(self, transaction_id: int | str, score: CorrectedScore) -> None:
        """Store the corrected score of a transaction."""
        with self._lock:
            self._corrected[transaction_id] = score
            self._corrected.move_to_end(transaction_id)
            if len(self._corrected) > self._most:
                self._corrected.popitem(last=False)

    def of_transactions(self, ids: Collection[str]) -> list[tuple[FeedDecision, CorrectedScore | None]]:
        """List the decisions about these transactions, with ids as text, newest first, with their corrected scores."""
        with self._lock:
            return [
                (each, self._corrected.get(each.transaction_id))
                for each in reversed(self._decisions)
                if str(each.transaction_id) in ids
            ]

    def page(
        self, chosen: DecisionFilter, before: int | None, limit: int
    ) -> tuple[list[tuple[FeedDecision, CorrectedScore | None]], int | None]:
        """List at most `limit` decisions, newest first, with their corrected scores; and the `before` of the next page.

        `before` is an offset. The second result is None at the end of memory.
        """
        found: list[tuple[FeedDecision, CorrectedScore | None]] = []
        with self._lock:
            for decision in reversed(self._decisions):
                corrected = self._corrected.get(decision.transaction_id)
                if (before is not None and decision.offset >= before) or not chosen.accepts(decision, corrected):
                    continue
                if len(found) == limit:
                    return found, found[-1][0].offset
                found.append((decision, corrected))
        return found, None
