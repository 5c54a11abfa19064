"""Whether the store and the rule log say the same of every rule.

They are compared at one point of the log. What is on its way there, or has not been taken in from there yet, is not a
difference; a rule that neither is and still differs is one, and its runbook is `drift`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from fraud_ops.control_plane.canonical import canonical, document_of
from fraud_ops.control_plane.lifecycle import State
from fraud_ops.control_plane.mirror import NAME
from fraud_ops.control_plane.store.database import Database
from fraud_ops.control_plane.store.models import OutboxRow, PositionRow, RuleHead
from fraud_ops.control_plane.views import Document
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import Record, TopicReader
from fraud_rules.kafka.rule_log import RuleLog
from fraud_rules.limits import RuleLimits
from fraud_rules.rule import Control, ControlType
from fraud_rules.ruleset import LogEntry, RuleSet
from fraud_rules.schema import TransactionSchema

__all__ = ["Drift", "DriftCheck", "RuleDrift", "Side", "StoreSide", "compare", "store_side"]


@dataclass(frozen=True, slots=True)
class Side:
    """A rule as one of the two has it."""

    version: int | None
    document: Document


@dataclass(frozen=True, slots=True)
class RuleDrift:
    """A rule they disagree about; None where one has it not in force."""

    rule_id: int
    store: Side | None
    log: Side | None


@dataclass(frozen=True, slots=True)
class StoreSide:
    """The rules the store takes to be in force, and how far it has come.

    `position` is how much of the log it has taken in, `reached` the offset after the last of its own records there.
    `moving` are the rules with a record on its way, `all_moving` whether one for all rules is.
    """

    rules: Mapping[int, Side]
    position: int
    reached: int
    moving: frozenset[int]
    all_moving: bool
    pending: int
    oldest_pending_ms: int | None


@dataclass(frozen=True, slots=True)
class Drift:
    """What a check found. Offsets are the log's; `settled` is false while a change of all rules is on its way."""

    differences: tuple[RuleDrift, ...]
    settled: bool
    log_end: int
    store_position: int
    pending: int
    oldest_pending_ms: int | None

    @property
    def in_step(self) -> bool:
        """Whether they agree."""
        return not self.differences


class DriftCheck:
    """One a process: it keeps the log it has read."""

    def __init__(
        self, database: Database, kafka: KafkaConnection, topic: str, schema: TransactionSchema, limits: RuleLimits
    ) -> None:
        self._database = database
        self._kafka = kafka
        self._topic = topic
        self._log = RuleLog(self._records, schema, limits)

    def read(self) -> Drift:
        """Compare them as they are now. Raises BrokerUnavailable, Unavailable."""
        with self._database.reading() as session:
            store = store_side(session)
        with TopicReader(self._kafka, self._topic) as reader:
            _, log_end = reader.ends()
        timeline = self._log.up_to(min(max(store.position, store.reached), log_end), {})
        ahead = [entry for entry in timeline.entries if entry.version >= store.position]
        settled = not store.all_moving and not any(map(_is_wipe, ahead))
        differences = compare(store, timeline.latest, ahead) if settled else ()
        return Drift(differences, settled, log_end, store.position, store.pending, store.oldest_pending_ms)

    def _records(self, start: int, end: int) -> list[Record]:
        with TopicReader(self._kafka, self._topic) as reader:
            return list(reader.read(start, end))


def store_side(session: Session) -> StoreSide:
    """What the store says, at one moment."""
    position = session.get(PositionRow, NAME)
    in_log = [state.value for state in State if state.in_log]
    heads = session.scalars(select(RuleHead).where(RuleHead.state.in_(in_log)))
    waiting = session.execute(
        select(OutboxRow.rule_id, OutboxRow.wipes, OutboxRow.created_ms).where(OutboxRow.log_version.is_(None))
    ).all()
    return StoreSide(
        rules={head.rule_id: Side(head.log_version, document_of(head.document)) for head in heads},
        position=0 if position is None else position.offset,
        reached=(session.scalar(select(func.max(OutboxRow.log_version))) or -1) + 1,
        moving=frozenset(row.rule_id for row in waiting if row.rule_id is not None),
        all_moving=any(row.wipes for row in waiting),
        pending=len(waiting),
        oldest_pending_ms=min((row.created_ms for row in waiting), default=None),
    )


def compare(store: StoreSide, in_force: RuleSet, ahead: Iterable[LogEntry] = ()) -> tuple[RuleDrift, ...]:
    """Where they differ, by rule; `ahead` are entries of the log that the store has not taken in yet."""
    moving = store.moving | {entry.rule_id for entry in ahead if entry.rule_id is not None}
    log = {rule_id: Side(each.version, each.rule.document) for rule_id, each in in_force.rules.items()}
    return tuple(
        RuleDrift(rule_id, store.rules.get(rule_id), log.get(rule_id))
        for rule_id in sorted(store.rules.keys() | log.keys())
        if rule_id not in moving and not _same(store.rules.get(rule_id), log.get(rule_id))
    )


def _same(first: Side | None, second: Side | None) -> bool:
    if first is None or second is None:
        return first is second
    return first.version == second.version and canonical(dict(first.document)) == canonical(dict(second.document))


def _is_wipe(entry: LogEntry) -> bool:
    return isinstance(entry.change, Control) and entry.change.type is ControlType.DELETE_RULES_ALL
