"""The store on a real Postgres: tables, one writer at a time, leadership, the audit chain."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.exc import DBAPIError

from fraud_control.domain.case_models import CaseOutcome, CaseSearch, CaseStatus
from fraud_control.domain.errors import LimitReached, StoreBusy, Unavailable
from fraud_control.domain.lifecycle import StateName
from fraud_control.service.alarm_log import recent_alarms, record_alarm
from fraud_control.service.alerts.index import AlertIndex
from fraud_control.service.labels.snapshot import LabelFile
from fraud_control.service.retention import remove_expired
from fraud_control.service.whatif import WhatIfQuestion, WhatIfs
from fraud_control.settings import ControlPlaneSettings, Retention
from fraud_control.store import database as database_module
from fraud_control.store.database import SCHEMA, Database
from fraud_control.sync.drift import compare, store_side
from fraud_ops.alarms import Alarm, RaisedAlarm
from fraud_rules.batch.whatif.labels import read_label_lines
from fraud_rules.model.day import DAY_MS
from tests.support.control_plane.alerts import alert
from tests.support.control_plane.concurrent_edits import check_concurrent_edits, opened_at_once
from tests.support.control_plane.leaders import check_leadership, lease_end
from tests.support.control_plane.memory_log import MemoryLog
from tests.support.control_plane.postgres import Postgres, binaries
from tests.support.control_plane.scene import ADA, ANN, REASON, RULE, Scene, rule_input
from tests.support.rules import SCHEMA as ALERT_SCHEMA
from tests.support.waiting import until


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    programs = binaries()
    if programs is None:
        pytest.skip("no Postgres is installed here")
    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        server = Postgres(Path(folder), programs)
        server.start()
        yield server
        server.stop()


@pytest.fixture
def scene(postgres: Postgres) -> Iterator[Scene]:
    engine = create_engine(postgres.url)
    with engine.begin() as connection:
        connection.execute(text(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE"))
    engine.dispose()
    database = Database.open(postgres.url)
    yield Scene(database, ControlPlaneSettings(database=postgres.url))
    database.close()


def test_the_tables_are_created_once_in_their_schema(scene: Scene, postgres: Postgres) -> None:
    opened = opened_at_once(postgres.url)
    with scene.database.reading() as session:
        found = session.execute(text("SELECT DISTINCT schemaname FROM pg_tables WHERE tablename = 'items'")).scalars()
        assert list(found) == [SCHEMA]
    for database in opened:
        database.close()


def test_a_user_without_the_right_to_create_schemas_opens_the_store(scene: Scene, postgres: Postgres) -> None:
    engine = create_engine(postgres.url)
    with engine.begin() as connection:
        connection.execute(text("CREATE ROLE fewer LOGIN"))
        connection.execute(text(f"GRANT USAGE ON SCHEMA {SCHEMA} TO fewer"))
        connection.execute(text(f"GRANT ALL ON ALL TABLES IN SCHEMA {SCHEMA} TO fewer"))
    try:
        Database.open(postgres.url.replace("fraud@", "fewer@")).close()
    finally:
        with engine.begin() as connection:
            connection.execute(text("DROP OWNED BY fewer"))
            connection.execute(text("DROP ROLE fewer"))
        engine.dispose()


def test_a_rule_has_transitions_and_the_mirror_applies_them(scene: Scene) -> None:
    log = MemoryLog(scene)
    log.write(ruleId=7, ruleState="ACTIVE")
    scene.service.create(ANN, rule_input(name="Käse ünd Brot"))
    scene.service.change_state(ANN, 1, 1, StateName.SHADOW)
    scene.service.edit(ADA, 1, 2, rule_input(limit=30))
    log.publish()
    log.apply_record()
    with scene.database.reading() as session:
        assert compare(store_side(session, scene.store.contents), log.timeline()) == ()
    assert [row.rule_id for row in scene.service.rules(query="1").items] == [1]
    with pytest.raises(DBAPIError, match="append-only"), scene.database.writing() as session:
        session.execute(text("TRUNCATE audit"))
    scene.clock.now_ms += 8 * DAY_MS
    scene.service.edit(ADA, 1, 3, rule_input(limit=31))
    old = scene.service.audit_rows().items[1:]
    with scene.another(retention=Retention(audit_days=7)).store.change(ADA) as work:
        assert remove_expired(work, ADA).audit_rows == len(old), "the anchor permits this deletion"
    with pytest.raises(DBAPIError, match="append-only"), scene.database.writing() as session:
        session.execute(text("DELETE FROM audit"))
    assert scene.service.verify_audit().whole


def test_cases_are_listed_changed_and_marked(scene: Scene) -> None:
    cases = scene.service.cases
    with scene.database.writing() as session:
        AlertIndex(ALERT_SCHEMA).add(session, [alert(number, key={"payeeId": number % 2}) for number in range(1, 8)])
    search = CaseSearch(statuses=frozenset({CaseStatus.OPEN, CaseStatus.IN_WORK}))
    first, second = cases.page(search, 9).cases
    assert cases.page(CaseSearch(text=second.entity_value), 9).cases == [second]
    assert cases.page(search, 1, after=first.case_id).cases == [second]
    assert cases.mark_case(ANN, first.case_id, "FRAUD", alert(3).position).marked == 2
    cases.change_status(ANN, first.case_id, 1, CaseStatus.CLOSED, CaseOutcome.FRAUD, alert(3).position)
    following = cases.page(search, 9).cases[-1]
    assert (following.entity_value, following.alerts) == (first.entity_value, 2)
    assert [each.case_id for each in cases.detail(following.case_id).same_entity] == [first.case_id]


def test_labels_and_alarms_are_saved(scene: Scene, tmp_path: Path) -> None:
    with scene.database.writing() as session:
        AlertIndex(ALERT_SCHEMA).add(session, [alert(1, shadow=True)])
        for _ in range(2):
            record_alarm(session, RaisedAlarm(Alarm("STALLED", "detector", "no batch", part="")), scene.clock())
    assert [(row.name, row.count) for row in recent_alarms(scene.database)] == [("STALLED", 2)]
    scene.service.mark(ANN, alert(1).facts.alert_id, 1, 3, "FRAUD")
    lines = "".join(f"{number},FRAUD\n" for number in (7, *range(1, 3_000), 7))
    for _ in range(2):
        scene.clock.now_ms += 1_000
        assert scene.service.labels.upload(ANN, "x.csv", "csv", "transactionId,label\n" + lines).fraud == 2_999
    assert [each.fraud for each in scene.service.labels.counts()] == [1, 2_999, 0]
    file = LabelFile(scene.database, tmp_path).refresh()
    assert file is not None
    read = read_label_lines(file, ALERT_SCHEMA)
    assert [line.source.value for line in read.lines[:2]] == ["mark", "file"]
    assert len(read.lines) == 3_000


def test_an_approver_sees_the_newest_verdict_of_a_shadow_alert(scene: Scene) -> None:
    detail = scene.service.create(ANN, rule_input(ruleId=1))
    detail = scene.service.change_state(ANN, 1, detail.row.revision, StateName.SHADOW)
    found = alert(scene.clock.now_ms // 1_000 + 1, 1, shadow=True, triggeringEvent={"transactionId": 11})
    with scene.database.writing() as session:
        AlertIndex(ALERT_SCHEMA).add(session, [found])
    scene.service.mark(ANN, found.facts.alert_id, 1, 3, "NOT_FRAUD")
    scene.clock.now_ms += 10_000
    scene.service.labels.upload(ANN, "x.csv", "csv", "transactionId,label\n11,FRAUD\n")
    scene.another(four_eyes=True).change_state(ANN, 1, detail.row.revision, StateName.ACTIVE, comment=REASON)
    _, shadow, _ = scene.service.approval_figures(scene.service.approvals().items[0].id)
    assert shadow is not None and (shadow.alerts, shadow.fraud, shadow.not_fraud) == (1, 1, 0)


def test_what_ifs_wait_in_order_and_each_server_reads_them(scene: Scene, postgres: Postgres, tmp_path: Path) -> None:
    other = Database.open(postgres.url)
    ours, theirs = (WhatIfs(each, tmp_path, scene.clock) for each in (scene.database, other))
    question = WhatIfQuestion(b"{}", 7)
    ours.request(1, question)
    first = theirs.start(question, "ann", 1)
    with pytest.raises(LimitReached):
        ours.start(question, "ann", 1)
    runs = [ours.next_run(), theirs.next_run(), ours.next_run()]
    assert [run and run.rule_id for run in runs] == [None, 1, None]
    ours.end(first, b"7", None)
    assert theirs.get(first.id).result == b"7"
    theirs.fail_interrupted()
    assert not ours.is_requested(1)
    other.close()


def test_many_rules_arrive_at_once(scene: Scene) -> None:
    for limit in (20, 30):
        many = [{**RULE, "ruleId": rule_id, "limit": limit} for rule_id in range(1, 301)]
        assert scene.service.import_rules(ADA, json.dumps(many)).applied
    verdict = scene.service.verify_audit()
    assert (verdict.whole, verdict.rows) == (True, 600)


def test_writers_take_turns(scene: Scene) -> None:
    check_concurrent_edits(14, scene)


def test_one_process_leads_at_a_time_and_none_holds_a_connection(scene: Scene, postgres: Postgres) -> None:
    other = Database.open(postgres.url)
    check_leadership(scene.database, other)
    with ExitStack() as held:
        for number in range(30):
            assert held.enter_context(scene.database.leadership(f"work {number}"))
        assert scene.database._engine.pool.checkedout() == 0  # type: ignore[attr-defined]
        with scene.database.writing() as session:
            session.execute(text("SELECT 1"))
    other.close()


def test_a_long_write_costs_no_leadership(scene: Scene) -> None:
    """The writer's turn is the leader's own. The thread that renews does not wait for it."""
    with scene.database.leadership("mirror"), scene.database.writing():
        before = lease_end(scene.database, "mirror")
        scene.database.renew_leases()
        assert lease_end(scene.database, "mirror") > before


def test_a_standby_process_opens_no_connections(scene: Scene, postgres: Postgres) -> None:
    other, opened = Database.open(postgres.url), list[object]()
    with scene.database.leadership("mirror") as lead:
        assert lead
        with other.leadership("mirror") as standby:
            assert not standby
        event.listen(other._engine, "connect", lambda connection, record: opened.append(connection))
        for _ in range(5):
            with other.leadership("mirror") as standby:
                assert not standby
    assert opened == []
    other.close()


def test_a_stopped_writer_makes_other_writers_fail_by_name_and_the_server_ends_it(
    scene: Scene, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "_IDLE_TRANSACTION_S", 1)
    stopped, quick = Database.open(postgres.url), Database.open(postgres.url, wait_s=0.1)

    def write() -> bool:
        try:
            with quick.writing():
                return True
        except StoreBusy:
            return False

    def stops_and_continues() -> None:
        with stopped.writing() as session:
            with pytest.raises(StoreBusy, match="lock timeout"), quick.writing():
                pass
            until(write, "the server ends the transaction of the stopped writer")
            session.execute(text("SELECT 1"))

    with pytest.raises(Unavailable):
        stops_and_continues()
    for database in (stopped, quick):
        database.close()


def test_an_unreachable_server_raises_an_error_until_it_is_back(scene: Scene, postgres: Postgres) -> None:
    scene.service.create(ANN, rule_input())
    postgres.stop()
    with pytest.raises(Unavailable, match="database"):
        scene.service.rule(1)
    with pytest.raises(Unavailable, match="database"):
        scene.service.create(ANN, rule_input())
    postgres.start()
    assert scene.service.rule(1).row.rule_id == 1
