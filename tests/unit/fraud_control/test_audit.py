"""The audit chain: the verification finds every manipulated row."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.exc import IntegrityError

from fraud_control.domain.item import NO_ITEM, ItemName
from fraud_control.domain.lifecycle import StateName
from fraud_control.service.audit import FIRST, AuditChain, AuditFilter, AuditRecord, AuditScan
from tests.support.control_plane.scene import ABE, ANN, Scene, rule_input

TRIGGERS = ("audit_no_update", "audit_no_delete")

COPIED = """
INSERT INTO audit SELECT 0, at_ms, who, action, subject, program, before, after, previous_hash, hash, kind, item_key
FROM audit WHERE seq = 1
"""


def three_changes(scene: Scene) -> None:
    scene.service.create(ANN, rule_input())
    scene.service.change_state(ANN, 1, 1, StateName.SHADOW, "look")
    scene.service.edit(ANN, 1, 2, rule_input(limit=30))


def behind_its_back(scene: Scene, statement: str) -> None:
    with scene.database.writing() as session:
        for trigger in TRIGGERS:
            session.execute(text(f"DROP TRIGGER IF EXISTS {trigger}"))
        session.execute(text(statement))


def test_an_intact_chain_can_be_recomputed_independently(scene: Scene) -> None:
    three_changes(scene)
    verdict = scene.service.verify_audit()
    assert (verdict.whole, verdict.rows, verdict.broken_at) == (True, 3, None)
    newest, _, first = scene.service.audit_rows().items
    assert verdict.head == newest.hash
    assert first.previous_hash == FIRST
    with scene.database.reading() as session:
        stored = session.execute(text("SELECT before, after FROM audit WHERE seq = 1")).one()
    members = {
        "seq": 1,
        "atMs": scene.clock(),
        "who": "ann",
        "action": "rule.create",
        "subject": "rule 1",
        "ruleId": 1,
        "before": stored.before,
        "after": stored.after,
        "previousHash": FIRST,
    }
    text_of = json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert hashlib.sha256(text_of.encode()).hexdigest() == first.hash


def test_a_scan_checks_new_rows_and_then_every_row_again_in_parts(scene: Scene) -> None:
    def step() -> tuple[bool, int, int | None]:
        """A step of a new process."""
        with scene.database.writing() as session:
            AuditScan(most=2).step(session, scene.clock()).save(session)
        found = scene.service.audit_state()
        return found.whole, found.rows, found.broken_at

    three_changes(scene)
    assert step() == (True, 2, None)
    assert step() == (True, 3, None), "the new row, and rows 1 and 2 again"
    behind_its_back(scene, "UPDATE audit SET who = 'eve' WHERE seq = 1")
    scene.service.edit(ANN, 1, 3, rule_input(limit=31))
    assert step() == (True, 4, None), "rows 3 and 4"
    assert step() == (False, 4, 1)
    behind_its_back(scene, "UPDATE audit SET who = 'ann' WHERE seq = 1")
    assert step() == (False, 4, 1), "rows 3 and 4"
    assert step() == (True, 4, None)


def test_the_state_of_the_scan_says_which_rows_were_verified_and_when(scene: Scene) -> None:
    three_changes(scene)
    unknown = scene.service.audit_state()
    assert (unknown.rows, unknown.total, unknown.verified_at_ms) == (0, 3, None)
    checked = scene.service.scan_audit()
    assert (checked.whole, checked.rows, checked.total, checked.verified_at_ms) == (True, 3, 3, scene.clock())
    scene.service.edit(ANN, 1, 3, rule_input(limit=31))
    behind_its_back(scene, "UPDATE audit SET who = 'eve' WHERE seq = 1")
    told = scene.service.audit_state()
    assert (told.whole, told.rows, told.total) == (True, 3, 4), "the request checks no row"


def test_rows_have_user_action_time_before_and_after(scene: Scene) -> None:
    three_changes(scene)
    edited = scene.service.audit_rows(AuditFilter(rule_id=1), limit=1).items[0]
    assert (edited.who, edited.action, edited.subject, edited.at_ms) == ("ann", "rule.edit", "rule 1", scene.clock())
    assert isinstance(edited.before, dict)
    assert isinstance(edited.after, dict)
    assert (edited.before["document"]["limit"], edited.after["document"]["limit"]) == (20, 30)
    page = scene.service.audit_rows(limit=2)
    assert [row.seq for row in page.items] == [3, 2]
    assert page.next == "2"
    assert [row.seq for row in scene.service.audit_rows(before=2).items] == [1]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (AuditFilter(), [4, 3, 2, 1]),
        (AuditFilter(who="abe"), [4]),
        (AuditFilter(who="ABE"), []),
        (AuditFilter(action="rule"), [4, 3, 2, 1]),
        (AuditFilter(action="rule.state"), [2]),
        (AuditFilter(action="rul"), []),
        (AuditFilter(action="rule%"), []),
        (AuditFilter(rule_id=2), [4]),
        (AuditFilter(rule_id=1, action="rule.edit"), [3]),
    ],
)
def test_a_filter_selects_rows(scene: Scene, wanted: AuditFilter, expected: list[int]) -> None:
    three_changes(scene)
    scene.service.create(ABE, rule_input(ruleId=2))
    assert [row.seq for row in scene.service.audit_rows(wanted).items] == expected


def test_a_filter_selects_times_from_the_first_to_before_the_last(scene: Scene) -> None:
    began_ms = scene.clock()
    three_changes(scene)
    scene.clock.now_ms += 1_000
    scene.service.create(ANN, rule_input(ruleId=2))
    rows = scene.service.audit_rows
    assert [row.seq for row in rows(AuditFilter(since_ms=began_ms + 1_000)).items] == [4]
    assert [row.seq for row in rows(AuditFilter(since_ms=began_ms, until_ms=began_ms + 1_000)).items] == [3, 2, 1]
    assert rows(AuditFilter(since_ms=began_ms + 1_001)).items == ()


ACTIONS = ("alert.mark", "rule.create", "rule.edit", "rules.import", "snooze")
ITEMS = (NO_ITEM, ItemName.of_rule(1), ItemName.of_rule(2), ItemName.of_list("mules"))
FILTERS = [
    AuditFilter(who="ann"),
    AuditFilter(rule_id=2),
    AuditFilter(list_name="mules"),
    AuditFilter(action="rule"),
    AuditFilter(action="rule", who="ben", since_ms=30),
    AuditFilter(since_ms=20, until_ms=70),
    AuditFilter(until_ms=20),
    AuditFilter(rule_id=1, action="alert.mark", until_ms=50),
]


def many_rows(scene: Scene) -> list[AuditRecord]:
    """Append rows whose clock was set back again and again. Row n has the time n * 37 % 100."""
    records = [
        AuditRecord(("ann", "ben")[n % 2], ACTIONS[n % 5], "", item=ITEMS[n % 7 % len(ITEMS)]) for n in range(300)
    ]
    with scene.database.writing() as session:
        chain = AuditChain(session)
        for n, record in enumerate(records):
            chain.append(record, n * 37 % 100)
    return records


def selects(wanted: AuditFilter, record: AuditRecord, at_ms: int) -> bool:
    return (
        wanted.who in {None, record.who}
        and wanted.rule_id in {None, record.item.rule_id}
        and wanted.list_name in {None, record.item.list_name}
        and (wanted.action is None or f"{record.action}.".startswith(f"{wanted.action}."))
        and (wanted.since_ms is None or at_ms >= wanted.since_ms)
        and (wanted.until_ms is None or at_ms < wanted.until_ms)
    )


@pytest.mark.parametrize("wanted", FILTERS)
def test_pages_have_each_selected_row_once_after_the_clock_was_set_back(scene: Scene, wanted: AuditFilter) -> None:
    records = many_rows(scene)
    found: list[int] = []
    before = None
    while True:
        page = scene.service.audit_rows(wanted, before=before, limit=7)
        found += [row.seq for row in page.items]
        if page.next is None:
            break
        before = int(page.next)
    expected = [n + 1 for n, record in enumerate(records) if selects(wanted, record, n * 37 % 100)]
    assert found == expected[::-1]


@pytest.mark.parametrize("wanted", FILTERS)
def test_a_filter_reads_an_index_and_sorts_nothing(scene: Scene, wanted: AuditFilter) -> None:
    many_rows(scene)
    plans: list[str] = []

    def explain(connection: Connection, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if statement.startswith("SELECT") and "FROM audit" in statement:
            rows = connection.connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans.extend(row[3] for row in rows)

    event.listen(Engine, "before_cursor_execute", explain)
    try:
        scene.service.audit_rows(wanted, limit=7)
    finally:
        event.remove(Engine, "before_cursor_execute", explain)
    assert plans
    assert not [plan for plan in plans if "TEMP B-TREE" in plan or (plan.startswith("SCAN") and "INDEX" not in plan)]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit SET who = 'bob'",
        "DELETE FROM audit WHERE seq = 3",
        "INSERT OR REPLACE INTO audit SELECT * FROM audit WHERE seq = 3",
        "UPDATE OR REPLACE audit SET seq = 2 WHERE seq = 3",
    ],
)
def test_the_database_itself_refuses_changes(scene: Scene, statement: str) -> None:
    three_changes(scene)
    with pytest.raises(IntegrityError, match="append-only"), scene.database.writing() as session:
        session.execute(text(statement))
    assert scene.service.verify_audit().rows == 3


@pytest.mark.parametrize(
    ("statement", "broken_at"),
    [
        ("UPDATE audit SET who = 'bob' WHERE seq = 2", 2),
        ("UPDATE audit SET at_ms = at_ms + 1 WHERE seq = 1", 1),
        ("UPDATE audit SET after = replace(after, '30', '31') WHERE seq = 3", 3),
        ("UPDATE audit SET item_key = '2' WHERE seq = 2", 2),
        ("UPDATE audit SET kind = 'list' WHERE seq = 2", 2),
        ("UPDATE audit SET hash = previous_hash WHERE seq = 2", 2),
        ("DELETE FROM audit WHERE seq = 1", 1),
        ("DELETE FROM audit WHERE seq = 2", 2),
        ("UPDATE audit SET seq = 7 WHERE seq = 3", 3),
        (COPIED, 0),
    ],
)
def test_a_manipulated_row_is_found(scene: Scene, statement: str, broken_at: int) -> None:
    three_changes(scene)
    behind_its_back(scene, statement)
    verdict = scene.service.verify_audit()
    assert (verdict.whole, verdict.broken_at) == (False, broken_at)
