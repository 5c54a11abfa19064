"""Recomputes a detector's state from the batches it has judged: the same cuts, the same rules, the same engine.

A state follows from the logs, the cuts and the pins alone, so it comes out as it was; alerts are not written again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from fraud_rules.recording import RecordedTransaction
from fraud_rules.replay import Replay
from fraud_rules.ruleset import RuleTimeline
from fraud_rules.schema import TransactionSchema
from fraud_rules.settings import DetectorSettings

__all__ = ["Judged", "merged", "rebuild_state"]

MOST_ROWS = 200_000


class Judged(Protocol):
    """One batch: the end of the rule log it saw, and its records in any order."""

    @property
    def rules_end(self) -> int: ...

    @property
    def records(self) -> list[RecordedTransaction]: ...


def rebuild_state(
    batches: Iterable[Judged],
    rules_up_to: Callable[[int], RuleTimeline],
    schema: TransactionSchema,
    settings: DetectorSettings,
    reached: Callable[[int], None] = lambda done: None,
) -> Mapping[int, bytes]:
    """The state after the batches, an image for each key group that has one (see `statelog`).

    `rules_up_to` gives the rule log below an offset, without what was refused. `reached` gets the number of
    transactions evaluated so far.
    """
    run, done = Replay(schema, settings), 0
    for rules_end, records in merged(batches):
        run.take(records, rules_up_to(rules_end), 0)
        done += len(records)
        reached(done)
    return run.images()


def merged(batches: Iterable[Judged], most_rows: int = MOST_ROWS) -> Iterator[tuple[int, list[RecordedTransaction]]]:
    """The same in fewer batches, for speed: those are joined that saw the same rules, where all that arrived in the
    one arrived before anything in the other, so that no transaction meets another one than it did."""
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
