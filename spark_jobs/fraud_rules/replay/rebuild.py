"""Recomputes a detector's state from its evaluated batches, with the same cuts, the same rules and the same engine.

The logs, the cuts and the pins determine the state, so the rebuilt state equals the original. A rebuild writes no
alerts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.replay.recording import RecordedTransaction
from fraud_rules.replay.replay import Replay

__all__ = ["EvaluatedBatch", "merge_batches", "rebuild_state"]

MOST_ROWS = 200_000


class EvaluatedBatch(Protocol):
    """One evaluated batch: the end of the rule log that it saw, and its records in any order."""

    @property
    def rules_end(self) -> int: ...

    @property
    def records(self) -> list[RecordedTransaction]: ...


def rebuild_state(
    batches: Iterable[EvaluatedBatch],
    rules_up_to: Callable[[int], RuleTimeline],
    schema: TransactionSchema,
    settings: DetectorSettings,
    reached: Callable[[int], None] = lambda done: None,
) -> Mapping[int, bytes]:
    """Compute the state after the batches: an image (see `statelog`) for each key group that has state.

    `rules_up_to` returns the rule log below an offset, without the refused rules. `reached` is called with the number
    of transactions evaluated so far.
    """
    run, done = Replay(schema, settings), 0
    for rules_end, records in merge_batches(batches):
        run.evaluate(records, rules_up_to(rules_end), 0)
        done += len(records)
        reached(done)
    return run.images()


def merge_batches(
    batches: Iterable[EvaluatedBatch], most_rows: int = MOST_ROWS
) -> Iterator[tuple[int, list[RecordedTransaction]]]:
    """Join batches for speed. Two batches are joined if they saw the same rules and all records of the first arrived
    before all records of the second, so that each transaction is evaluated against the same earlier transactions."""
    rules_end, joined, newest = 0, list[RecordedTransaction](), (0, 0, 0)
    for batch in batches:
        if not batch.records:
            continue
        if joined and (
            batch.rules_end != rules_end
            or min(map(_arrival, batch.records)) < newest
            or len(joined) + len(batch.records) > most_rows
        ):
            yield rules_end, joined
            joined = []
        rules_end = batch.rules_end
        joined.extend(batch.records)
        newest = max(map(_arrival, batch.records))
    if joined:
        yield rules_end, joined


def _arrival(record: RecordedTransaction) -> tuple[int, int, int]:
    return record.append_ms, record.partition, record.offset
