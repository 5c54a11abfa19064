"""A store at an earlier version of its tables, which an upgrade brings to the newest one."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, select, text
from sqlalchemy.engine import Connection

from fraud_control.domain.lifecycle import StateName
from fraud_control.store import migrations
from fraud_control.store.database import Database
from fraud_control.store.models import OutboxRow
from fraud_control.sync.mirror import mark_published
from tests.support.control_plane.scene import PIA, RULE, Scene

_ALERT = """
    INSERT INTO alerts (alert_id, append_ms, source, record_offset, rule_id, severity_rank, shadow, key,
        entity_field, entity_value, json)
    VALUES (:id, :at, 0, :at, 1, :rank, :shadow, '{}', 'payeeId', :payer, :json)
"""
_MARK = "INSERT INTO marks (alert_id, rule_id, rule_version, verdict, who, at_ms) VALUES (:id, 1, 1, 'FRAUD', 'ann', 1)"


def upgrade_to(connection: Connection, version: str) -> None:
    """Run the migrations up to a version."""
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    config.attributes["connection"] = connection
    command.upgrade(config, version)


def fill_version_6(connection: Connection) -> None:
    """Add alerts to the index of version 6: payer 7 with a marked and an unmarked one, payer 8 with marked ones only,
    payer 9 with a shadow alert, and alerts without a key.
    """
    upgrade_to(connection, "6")
    for number, (payer, rank, marked, shadow) in enumerate(
        [
            ("7", 1, True, False),
            ("8", 4, True, False),
            ("7", 3, False, False),
            ("9", 2, False, True),
            (None, 2, False, False),
        ]
    ):
        values = {
            "id": f"a{number}",
            "at": 1_000 + number,
            "rank": rank,
            "shadow": shadow,
            "payer": payer,
            "json": b"x",
        }
        connection.execute(text(_ALERT), values)
        if marked:
            connection.execute(text(_MARK), {"id": f"a{number}"})


def cases_after_upgrade(connection: Connection) -> list[tuple[object, ...]]:
    """Upgrade to the newest version; return each case with the ids of its alerts."""
    upgrade_to(connection, "head")
    found = connection.execute(
        text("SELECT case_id, open_entity, urgency, alerts, first_alert_ms, last_alert_ms, updated_by FROM cases")
    )
    alerts = text("SELECT alert_id FROM alerts WHERE case_id = :case ORDER BY alert_id")
    return [(*row[1:], list(connection.execute(alerts, {"case": row[0]}).scalars())) for row in found.all()]


EXPECTED: list[tuple[object, ...]] = [("payeeId:7", 1, 2, 1_000, 1_002, None, ["a0", "a2"])]


_EARLIER = {
    "rules": "SELECT number AS rule_id, * FROM new.items WHERE kind = 'rule'",
    "revisions": "SELECT CAST(item_key AS INTEGER) AS rule_id, * FROM new.item_revisions WHERE kind = 'rule'",
    "approvals": "SELECT CAST(item_key AS INTEGER) AS rule_id, NULL AS list_name, * FROM new.approvals",
    "lists": "SELECT item_key AS name, state = 'DELETE' AS deleted, document ->> 'type' AS type,"
    " document ->> 'size' AS size, * FROM new.items WHERE kind = 'list'",
    "list_changes": "SELECT item_key AS name, document ->> 'operation' AS operation, operation AS record_operation,"
    " payload AS encoded, document ->> 'added' AS added, document ->> 'removed' AS removed, NULL AS expires_at_ms, *"
    " FROM new.item_revisions WHERE kind = 'list'",
}
"""The rows of the tables of earlier versions, from the newest tables."""


def copy_as_version(database: Database, file: Path, version: str) -> str:
    """Copy rules, lists and requests about rules into a new SQLite file with an earlier version of the tables; return
    its URL.
    """
    engine = create_engine(f"sqlite:///{file}")
    with engine.begin() as connection:
        upgrade_to(connection, version)
    with sqlite3.connect(file) as connection:
        connection.execute("ATTACH ? AS new", (str(database.file),))
        for table, rows in _EARLIER.items():
            columns = ", ".join(each[1] for each in connection.execute(f"PRAGMA table_info({table})"))
            if columns:
                connection.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM ({rows})")
    engine.dispose()
    return f"sqlite:///{file}"


_HUGE = 2**63 - 1
_HEAD = {
    "revision": 2, "source": "ui", "contributors": '["ann"]', "updated_at_ms": 20, "updated_by": "pat",
    "outbox_seq": None, "log_version": None, "approval_id": None,
}  # fmt: skip
_CHANGE = {
    "source": "ui", "author": "pat", "content_author": "ann", "at_ms": 20, "comment": "why", "outbox_seq": None,
    "log_version": None,
}  # fmt: skip
_REQUEST = {
    "revision": 2, "author": "ann", "contributors": '["ann"]', "requested_by": "ann", "requested_at_ms": 30,
    "comment": "why", "payload": None, "target": None,
}  # fmt: skip
_AUDIT: list[dict[str, Any]] = [
    {"action": "rule.create", "subject": "rule 7", "rule_id": 7},
    {"action": "list.change", "subject": "list mules", "list_name": "mules"},
    {"action": "control", "subject": "EXPORT_RULES_CURRENT"},
    {"action": "alert.mark", "subject": "alert a1", "rule_id": 7, "program": "ci"},
]


def fill_version_18(connection: Connection) -> None:
    """Add rules, lists, requests for approval, records in the outbox and rows of the audit log to version 18."""
    upgrade_to(connection, "18")

    def add(table: str, **columns: object) -> None:
        names = ", ".join(columns)
        values = ", ".join(f":{name}" for name in columns)
        connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({values})"), columns)

    for rule_id, state in ((7, "ACTIVE"), (8, "DRAFT"), (10, "DELETE"), (_HUGE, "SHADOW")):
        document = json.dumps({**RULE, "ruleId": rule_id, "ruleState": "SHADOW" if state == "DRAFT" else state})
        content = {"rule_id": rule_id, "state": state, "document": document}
        place = {"outbox_seq": 1, "log_version": 5} if rule_id == 7 else {}
        open_request = {"approval_id": 2} if rule_id == 7 else {}
        add("rules", **_HEAD | content | place | open_request, last_revision=3, search=str(rule_id), author="ann")
        for revision in (1, 2):
            add(
                "revisions",
                **_CHANGE | content | (place if revision == 2 else {}),
                revision=revision,
                contributors="[]",
            )
    add("lists", **_HEAD | {"outbox_seq": 3, "approval_id": 3}, name="mules", type="long", deleted=False, size=3)
    add("lists", **_HEAD | {"log_version": 9}, name="old", type="string", deleted=True, size=0)
    changes: list[tuple[str, int, int, str, str, str, str, int, dict[str, Any]]] = [
        ("mules", 1, 0, "SET", "SET", "long", "[1]", 1, {"log_version": 6}),
        ("mules", 2, 0, "SET", "SET", "long", "[1,2]", 2, {"outbox_seq": 2, "expires_at_ms": 2**45}),
        ("mules", 2, 1, "SET", "ADD", "long", "[3]", 0, {"outbox_seq": 3, "expires_at_ms": 2**45}),
        ("old", 1, 0, "SET", "SET", "string", '["a"]', 1, {"log_version": 8}),
        ("old", 2, 0, "DELETE", "DELETE", "string", "[]", 0, {"log_version": 9}),
    ]
    for name, revision, part, operation, record_operation, value_type, values, added, rest in changes:
        add(
            "list_changes", **{**_CHANGE, "expires_at_ms": None, **rest}, name=name, revision=revision, part=part,
            operation=operation, record_operation=record_operation, type=value_type, encoded=values.encode(),
            added=added, removed=0,
        )  # fmt: skip
    add("list_expiries", name="mules", value="3", at_ms=2**45)
    document = json.dumps({**RULE, "ruleId": 7, "ruleState": "ACTIVE", "limit": 30})
    decided = {"decision": "approved", "decided_by": "pia", "decided_at_ms": 40, "decision_comment": "ok"}
    change = json.dumps({"listName": "mules", "listOperation": "ADD", "values": ["4"], "count": 1})
    add("approvals", **_REQUEST | decided, id=1, rule_id=7, action="edit", document=document)
    add("approvals", **_REQUEST, id=2, rule_id=7, action="edit", document=document, basis='{"rule 7":2}')
    add(
        "approvals", **_REQUEST | {"payload": "[4]"}, id=3, list_name="mules", action="list", document=change,
        basis='{"list mules":2}',
    )  # fmt: skip
    for seq, named, key, value, log_version in (
        (1, {"rule_id": 7, "revision": 2}, b"7", b"{}", 5),
        (2, {"list_name": "mules", "revision": 2}, b"list:mules", b"{}", None),
        (3, {"list_name": "mules", "revision": 2}, b"list:mules", b"{}", None),
        (4, {}, b"control", b"{}", None),
    ):
        row = {"seq": seq, "key": key, "value": value, "log_version": log_version, **named}
        add("outbox", **row, wipes=False, audit="1:0", created_ms=20)
    previous = "0" * 64
    for seq, each in enumerate(_AUDIT, 1):
        row = {"seq": seq, "at_ms": seq, "who": "ann", "before": "null", "after": "{}", **each}
        members = {"atMs": seq, "previousHash": previous, "ruleId": each.get("rule_id")}
        members |= {name: row[name] for name in ("seq", "who", "action", "subject", "before", "after")}
        members |= {"listName": row["list_name"]} if "list_name" in each else {}
        members |= {"program": row["program"]} if "program" in each else {}
        canonical = json.dumps(members, sort_keys=True, separators=(",", ":")).encode()
        digest = hashlib.sha256(canonical).hexdigest()
        add("audit", **row, previous_hash=previous, hash=digest)
        previous = digest


def check_version_18(scene: Scene) -> None:
    """Check that an upgraded store has all that `fill_version_18` added, and goes on with it."""
    desk = scene.service
    rules = {row.rule_id: row for state in (None, StateName.DELETE) for row in desk.rules(state=state).items}
    assert [(rule_id, row.state, row.revision, row.log_version) for rule_id, row in rules.items()] == [
        (7, "ACTIVE", 2, 5), (8, "DRAFT", 2, None), (_HUGE, "SHADOW", 2, None), (10, "DELETE", 2, None),
    ]  # fmt: skip
    assert rules[7].document["limit"] == RULE["limit"]
    assert desk.rule(7).author == "ann"
    assert [(each.revision, each.author, each.log_version) for each in desk.revisions(7).items] == [
        (2, "pat", 5), (1, "pat", None),
    ]  # fmt: skip
    assert [(row.name, row.size, row.type, row.expiring, row.published) for row in desk.lists.lists()] == [
        ("mules", 3, "long", 1, False)
    ]
    assert [(each.value, each.expires_at_ms) for each in desk.lists.values("mules").items] == [
        ("1", None), ("2", None), ("3", 2**45),
    ]  # fmt: skip
    changes = {name: desk.lists.revisions(name).items for name in ("mules", "old")}
    assert [(each.operation, each.added, each.expires_at_ms, each.log_version) for each in changes["mules"]] == [
        ("SET", 2, 2**45, None), ("SET", 1, None, 6),
    ]  # fmt: skip
    assert [(each.operation, each.log_version) for each in changes["old"]] == [("DELETE", 9), ("SET", 8)]
    requests = desk.approvals(open_only=False).items
    assert [(each.id, each.rule_id, each.list_name, each.decision) for each in requests] == [
        (3, None, "mules", None), (2, 7, None, None), (1, 7, None, "APPROVED"),
    ]  # fmt: skip
    rows = desk.audit_rows().items
    assert [(row.rule_id, row.list_name, row.program) for row in reversed(rows)] == [
        (7, None, None), (None, "mules", None), (None, None, None), (7, None, "ci"),
    ]  # fmt: skip
    assert desk.verify_audit().whole
    with scene.store.unit_of_work() as work:
        assert [row.item.key for row in work.session.scalars(select(OutboxRow).order_by(OutboxRow.seq))] == [
            "7", "mules", "mules", "",
        ]  # fmt: skip
        for seq in (2, 3, 4):
            mark_published(work, seq, 10 + seq)
    assert desk.lists.list("mules").log_version == 13
    for request in (2, 3):
        desk.decide(PIA, request, approve=True)
    assert desk.rule(7).row.document["limit"] == 30
    assert [each.value for each in desk.lists.values("mules").items] == ["1", "2", "3", "4"]
    assert desk.verify_audit().whole
