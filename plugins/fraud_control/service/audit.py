"""The audit log: one row for each change. A hash chains each row to the row before it.

`hash` is the SHA-256, in hex, of the canonical JSON of the row's members (`listName`, `mapName` and `program` only if
the row has one) and `previous_hash`; the first row's previous hash is 64 zeros. Computing the chain again finds a row
that was changed, removed or inserted. It cannot find that rows were cut off at the end. Therefore each record of the
rule log names the audit row of its change (see `outbox`), as evidence outside the database.

Only `prune` removes rows, the oldest ones. It keeps the hash of the last removed row as an anchor, at which the chain
then starts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Final

import msgspec
from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.orm import Session

from fraud_control.domain.canonical import canonical, encoded
from fraud_control.domain.errors import AuditBroken
from fraud_control.domain.item import NO_ITEM, RULE, ItemName
from fraud_control.domain.read_models import AuditRow, AuditState, AuditVerdict, Page
from fraud_control.service.ids import MAX_ID, storable_id
from fraud_control.store.database import Database
from fraud_control.store.models import AuditEntry, Fact
from fraud_control.store.privacy_models import AnchorRow

FIRST: Final = "0" * 64
_AT_ONCE: Final = 1_000
_START: Final = 0, FIRST
_PRUNED_AT_ONCE: Final = 50_000
_STATE: Final = "audit_scan"


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """A change for the audit log, with plain values before and after; None for no value."""

    who: str
    action: str
    subject: str
    before: object = None
    after: object = None
    item: ItemName = NO_ITEM


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """The filter of a list of rows; None selects every row.

    `action` is an action or the part of it before the point: `rule` selects `rule.edit` and `rule.state`. `since_ms` is
    inclusive, `until_ms` exclusive.
    """

    rule_id: int | None = None
    list_name: str | None = None
    map_name: str | None = None
    who: str | None = None
    action: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None


_EVERY_ROW: Final = AuditFilter()


class AuditChain:
    """The end of the audit log, in the transaction of the only writer.

    `end` is the number and the hash of the last row, None before the first append.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.end: tuple[int, str] | None = None

    def append(self, record: AuditRecord, at_ms: int, program: str | None = None) -> AuditEntry:
        """Append a row, in the writer's transaction. `program` made the change for the user, if it is not None."""
        seq, previous = self.end or self._read()
        entry = AuditEntry(
            seq=seq + 1,
            at_ms=at_ms,
            who=record.who,
            action=record.action,
            subject=record.subject,
            kind=record.item.kind,
            item_key=record.item.key,
            program=program,
            before=canonical(record.before).decode(),
            after=canonical(record.after).decode(),
            previous_hash=previous,
            hash="",
        )
        entry.hash = hash_of(entry)
        self._session.add(entry)
        self.end = entry.seq, entry.hash
        return entry

    def _read(self) -> tuple[int, str]:
        newest = select(AuditEntry.seq, AuditEntry.hash).order_by(AuditEntry.seq.desc()).limit(1)
        last = self._session.execute(newest).one_or_none()
        return anchor(self._session) if last is None else (last.seq, last.hash)


def anchor(session: Session) -> tuple[int, str]:
    """The number and hash of the last row that retention has removed; the start of the chain."""
    newest = select(AnchorRow.seq, AnchorRow.hash).order_by(AnchorRow.seq.desc()).limit(1)
    found = session.execute(newest).one_or_none()
    return _START if found is None else (found.seq, found.hash)


def prune(session: Session, before_ms: int, at_ms: int) -> int:
    """Remove rows from before a time at the start of the chain, at most 50,000, in the writer's transaction, and return
    their number. The last row always stays. Raises AuditBroken, and removes nothing, if one of them was altered.
    """
    start = anchor(session)
    kept = session.scalar(select(func.min(AuditEntry.seq)).where(AuditEntry.at_ms >= before_ms))
    last = session.scalar(select(func.max(AuditEntry.seq))) or 0
    through = min((last if kept is None else kept) - 1, start[0] + _PRUNED_AT_ONCE)
    if through <= start[0]:
        return 0
    found = _verdict(session, start, through - start[0])
    if not found.whole:
        raise AuditBroken(f"the audit log is broken at row {found.broken_at}: no row was removed")
    session.add(AnchorRow(seq=through, hash=found.head, at_ms=at_ms))
    session.flush()  # the trigger of the database permits the deletion of rows up to the anchor
    session.execute(delete(AuditEntry).where(AuditEntry.seq <= through))
    return through - start[0]


def hash_of(entry: AuditEntry) -> str:
    """Compute the hash of a row. It covers the stored texts, so it does not depend on how they are parsed."""
    members = {
        "seq": entry.seq,
        "atMs": entry.at_ms,
        "who": entry.who,
        "action": entry.action,
        "subject": entry.subject,
        "ruleId": msgspec.Raw(entry.item_key.encode()) if entry.kind == RULE else None,
        "before": entry.before,
        "after": entry.after,
        "previousHash": entry.previous_hash,
    }
    if entry.kind not in ("", RULE):
        members[f"{entry.kind}Name"] = entry.item_key
    if entry.program is not None:
        members["program"] = entry.program
    return hashlib.sha256(canonical(members)).hexdigest()


def rows(
    session: Session, chosen: AuditFilter = _EVERY_ROW, *, before: int | None = None, limit: int = 200
) -> Page[AuditRow]:
    """List the rows below `before` that match a filter, newest first."""
    end = MAX_ID if before is None else storable_id(before)
    query = select(AuditEntry).where(AuditEntry.seq < end, *_conditions(session, chosen))
    newest = query.order_by(AuditEntry.seq.desc()).limit(limit + 1)
    if chosen.action is None:
        found = list(session.scalars(newest))
    else:
        # The index of actions gives each action in the order of the numbers, but not several.
        actions = _actions_within(session, chosen.action)
        found = [row for action in actions for row in session.scalars(newest.where(AuditEntry.action == action))]
        found.sort(key=attrgetter("seq"), reverse=True)
    shown = found[:limit]
    return Page(tuple(map(AuditRow.model_validate, shown)), str(shown[-1].seq) if len(found) > limit else None)


def _conditions(session: Session, chosen: AuditFilter) -> Iterator[ColumnElement[bool]]:
    if chosen.rule_id is not None:
        yield AuditEntry.concerns(ItemName.of_rule(storable_id(chosen.rule_id)))
    if chosen.list_name is not None:
        yield AuditEntry.concerns(ItemName.of_list(chosen.list_name))
    if chosen.map_name is not None:
        yield AuditEntry.concerns(ItemName.of_map(chosen.map_name))
    if chosen.who is not None:
        yield AuditEntry.who == chosen.who
    yield from _in_time(session, chosen)


def _in_time(session: Session, chosen: AuditFilter) -> Iterator[ColumnElement[bool]]:
    """The bounds of the time, and the range of numbers of their rows.

    Without the range, a database sorts all rows in time. The clock may have been set back, so the range can contain
    other rows.
    """
    bounds = []
    if chosen.since_ms is not None:
        bounds.append(AuditEntry.at_ms >= chosen.since_ms)
    if chosen.until_ms is not None:
        bounds.append(AuditEntry.at_ms < chosen.until_ms)
    if bounds:
        first, last = session.execute(select(func.min(AuditEntry.seq), func.max(AuditEntry.seq)).where(*bounds)).one()
        yield from bounds
        yield AuditEntry.seq.between(*((first, last) if first is not None else (0, -1)))


def _actions_within(session: Session, group: str) -> list[str]:
    """The actions in the log that a filter selects. Each step finds the next action in the index."""
    found: list[str] = []
    action = session.scalar(select(func.min(AuditEntry.action)))
    while action is not None:
        if action == group or action.startswith(f"{group}."):
            found.append(action)
        action = session.scalar(select(func.min(AuditEntry.action)).where(AuditEntry.action > action))
    return found


def verify(session: Session) -> AuditVerdict:
    """Check the hash of every row, in the order of the chain. Memory stays bounded."""
    return _verdict(session, anchor(session), None)


class AuditScan:
    """Verifies the audit log in parts of bounded size: each step checks the new rows, and then some earlier rows in
    turn, from the first one on. So every row is checked again and again, however long the log is.

    The store keeps the state, so another process continues after the last checked row.
    """

    def __init__(self, most: int = 10_000) -> None:
        """`most` rows take about a third of a second of CPU time."""
        self._most = most

    def check(self, database: Database, at_ms: int) -> AuditState:
        """Check the next part, and save the state. Raises Unavailable."""
        with database.reading() as session:
            state = self.step(session, at_ms)
        with database.writing() as session:
            state.save(session)
            return state.shown(session)

    def step(self, session: Session, at_ms: int) -> ScanState:
        """Check the next part. The caller saves the state."""
        known, start = scan_state(session), anchor(session)
        newest = max(known.newest, start)
        found = _verdict(session, newest, self._most)
        broken_at = _first_fault(known.broken_at, newest, found)
        turn = max(known.turn, start)
        if newest != start:
            earlier = _verdict(session, turn, min(self._most, found.rows - turn[0]))
            broken_at = _first_fault(broken_at, turn, earlier)
            turn = (earlier.rows, earlier.head) if earlier.rows < found.rows else start
        return ScanState((found.rows, found.head), turn, broken_at, at_ms)


@dataclass(frozen=True, slots=True)
class ScanState:
    """The number and the hash of the last row that was checked, and of the last one that was checked again."""

    newest: tuple[int, str] = _START
    turn: tuple[int, str] = _START
    broken_at: int | None = None
    at_ms: int | None = None

    def save(self, session: Session) -> None:
        """Save the state, in the writer's transaction."""
        session.merge(Fact(name=_STATE, value=encoded(asdict(self))))

    def shown(self, session: Session) -> AuditState:
        """The state for users. It reads no row of the log but the last one."""
        rows, head = self.newest
        return AuditState(
            whole=self.broken_at is None, rows=rows, broken_at=self.broken_at, head=head, verified_at_ms=self.at_ms,
            total=session.scalar(select(func.max(AuditEntry.seq))) or 0,
        )  # fmt: skip


def scan_state(session: Session) -> ScanState:
    """Read the saved state."""
    found = session.get(Fact, _STATE)
    return ScanState() if found is None else msgspec.json.decode(found.value, type=ScanState)


def _first_fault(known: int | None, start: tuple[int, str], found: AuditVerdict) -> int | None:
    """The first fault after a part was checked. A part without a fault ends the report about its rows."""
    if found.broken_at is not None:
        return min(found.broken_at, known or found.broken_at)
    return None if known is not None and start[0] < known <= found.rows else known


def _verdict(session: Session, start: tuple[int, str], most: int | None) -> AuditVerdict:
    """Check at most `most` rows after the row with this number and hash."""
    rows, previous = start
    broken_at = None
    query = select(AuditEntry).order_by(AuditEntry.seq).limit(most)
    if start != anchor(session):  # the first part also has rows that were inserted before the first one
        query = query.where(AuditEntry.seq > rows)
    for entry in session.execute(query.execution_options(yield_per=_AT_ONCE)).scalars():
        rows += 1
        fits = entry.seq == rows and entry.previous_hash == previous and entry.hash == hash_of(entry)
        if not fits and broken_at is None:
            broken_at = min(entry.seq, rows)
        previous = entry.hash
    return AuditVerdict(whole=broken_at is None, rows=rows, broken_at=broken_at, head=previous)
