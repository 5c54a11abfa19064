"""The database file: concurrent opens, one writer, one leader, and its settings."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import signal
import sqlite3
import subprocess
import sys
import zlib
from contextlib import ExitStack
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, select
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session

from fraud_control import store
from fraud_control.domain.errors import StoreBusy, StoreTooNew, Unavailable
from fraud_control.domain.roles import Role
from fraud_control.service.audit import AuditChain, AuditRecord, verify
from fraud_control.settings import ControlPlaneSettings
from fraud_control.store import migrations
from fraud_control.store.alert_models import AlertPaymentRow, AlertRow
from fraud_control.store.case_models import CaseRow
from fraud_control.store.database import Database
from fraud_control.store.facts import store_id
from fraud_control.store.label_models import LabelRow
from fraud_control.store.models import Base, Fact
from fraud_rules.configuration.project import Project
from fraud_rules.errors import ConfigError
from tests.support.control_plane.concurrent_edits import check_concurrent_edits, opened_at_once
from tests.support.control_plane.scene import ADA, Scene, empty_store, rule_input


def test_many_open_a_new_file_at_once(tmp_path: Path) -> None:
    opened = opened_at_once(f"sqlite:///{tmp_path}/new/control.db")
    assert len({store_id(database) for database in opened}) == 1
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "new").iterdir()} == {0}
    for database in opened:
        database.close()


def test_the_migrations_make_the_tables_of_the_models(scene: Scene) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    for module in pkgutil.iter_modules(store.__path__, f"{store.__name__}."):
        importlib.import_module(module.name)  # so that all models are known
    with scene.database.reading() as session:
        context = MigrationContext.configure(session.connection(), opts={"version_table": "fraud_control_version"})
        assert compare_metadata(context, Base.metadata) == []


def test_a_store_of_version_20_keeps_its_rows_and_gets_the_payments_of_its_alerts(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/control.db"
    engine = create_engine(url)
    with engine.begin() as connection:
        fill_version_20(connection)
    engine.dispose()
    database = Database.open(url)
    with database.reading() as session:
        payments = session.scalars(select(AlertPaymentRow).order_by(AlertPaymentRow.alert_id)).all()
        assert len(payments) == len(session.scalars(select(AlertRow)).all()) == ALERTS
        shown = [
            (each.transaction_id, each.rule_id, each.rule_version, each.append_ms, each.amount, each.shadow)
            for each in payments
        ]
        assert shown == [(f"p{number}", 1, 3, number, 12.5, number == 1) for number in range(ALERTS)]
        assert [each.in_effect for each in payments[:3]] == [True, True, False]
        case = session.scalars(select(CaseRow)).one()
        assert (case.entity_value, case.assignee, case.handed_by) == ("4711", "ann", None)
        label = session.scalars(select(LabelRow)).one()
        assert (label.transaction_id, label.verdict, label.origin, label.saved_ms) == ("p0", "FRAUD", "", 0)
        found = verify(session)
        assert (found.whole, found.rows) == (True, 2)
    with database.writing() as session:
        chain = AuditChain(session)
        chain.append(AuditRecord("ada", "alert.mark", "alert a", None, {"verdict": "FRAUD"}), 9)
    with database.reading() as session:
        assert verify(session).rows == 3, "the chain goes on"
    database.close()


ALERTS = 1001
"""More than one part of the migration."""


def fill_version_20(connection: Connection) -> None:
    """Make the tables of version 20, with alerts, a case, a label and audit rows."""
    config = Config()
    config.set_main_option("script_location", str(Path(str(migrations.__file__)).parent))
    config.attributes["connection"] = connection
    command.upgrade(config, "20")
    for number in range(ALERTS):
        alert = {"ruleVersion": 3, "triggeringEvent": {"transactionId": f"p{number}"}}
        connection.exec_driver_sql(
            "INSERT INTO alerts VALUES (?, ?, 0, ?, 1, 2, 12.5, ?, '{}', ?, NULL, NULL, ?)",
            (f"a{number:04}", number, number, number == 1, "RETRACTED" if number == 2 else None,
             zlib.compress(json.dumps(alert).encode())),
        )  # fmt: skip
    connection.exec_driver_sql(
        "INSERT INTO cases VALUES"
        " (1, 'payeeId', '4711', 'payeeId:4711', 'OPEN', 0, NULL, 'ann', 1, 2, 1, 2, 1, 3, 'ann')"
    )
    connection.exec_driver_sql("INSERT INTO labels VALUES ('p0', 'FRAUD', 'file', 'ada', 5)")
    with Session(connection) as session:
        chain = AuditChain(session)
        chain.end = (0, "0" * 64)  # version 20 has no anchors
        for at_ms in (1, 2):
            chain.append(AuditRecord("ada", "labels.upload", "file a", None, {"saved": 1}), at_ms)
        session.commit()


def test_writers_take_turns_and_lose_nothing(scene: Scene) -> None:
    other = Scene(Database.open(scene.settings.database), scene.settings, scene.clock)
    check_concurrent_edits(5, scene, other)
    other.database.close()


_WRITES = """
import sys, time
from fraud_control.store.database import Database

with Database.open(sys.argv[1]).writing():
    print("writes", flush=True)
    time.sleep(600)
"""


@pytest.mark.recovery
def test_a_store_of_a_newer_release_is_refused_by_name(tmp_path: Path) -> None:
    url = empty_store(tmp_path)
    connection = sqlite3.connect(tmp_path / "control.db")
    connection.execute("UPDATE fraud_control_version SET version_num = '999'")
    connection.commit()
    connection.close()
    with pytest.raises(StoreTooNew, match=r"version 999 .* versions \d+ to \d+: run the release that has written it"):
        Database.open(url)


def test_a_writer_that_is_stopped_makes_the_others_fail_by_name(scene: Scene) -> None:
    quick = Scene(Database.open(scene.settings.database, wait_s=0.1), scene.settings, scene.clock)
    command = [sys.executable, "-c", _WRITES, scene.settings.database]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ) as writer:
        try:
            assert writer.stdout is not None and writer.stdout.readline() == b"writes\n"
            writer.send_signal(signal.SIGSTOP)
            with pytest.raises(StoreBusy, match=f"process {writer.pid} has held control.db.writer.lock"):
                quick.service.create(ADA, rule_input())
        finally:
            writer.kill()
    assert quick.service.create(ADA, rule_input()).row.rule_id == 1
    quick.database.close()


def test_a_change_that_takes_long_makes_those_of_other_threads_fail_by_name(scene: Scene) -> None:
    quick = Database.open(scene.settings.database, wait_s=0.1)
    with quick.writing(), pytest.raises(StoreBusy, match="another change"), quick.writing():
        pass
    with quick.writing():
        pass
    quick.close()


def test_connections_that_are_all_in_use_are_named(scene: Scene) -> None:
    quick = Database.open(scene.settings.database, wait_s=0.1)
    with ExitStack() as held:
        for _ in range(20):
            session = held.enter_context(quick.reading())
            session.execute(select(Fact))
        with pytest.raises(StoreBusy, match="connections"), quick.reading() as session:
            session.execute(select(Fact))
    quick.close()


def test_an_error_rolls_back_the_whole_change(scene: Scene) -> None:
    before = store_id(scene.database)

    def half_done() -> None:
        with scene.database.writing() as session:
            session.delete(session.get_one(Fact, "store"))
            session.flush()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half_done()
    assert store_id(scene.database) == before


@pytest.mark.parametrize("url", ["", "nonsense", "mysql://x/y", "sqlite://", "sqlite:///:memory:"])
def test_an_invalid_url_is_named_without_its_secrets(url: str) -> None:
    with pytest.raises(ConfigError, match="database"):
        Database.open(url)


def test_a_file_that_is_no_database_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "control.db").mkdir()
    with pytest.raises(Unavailable, match="database"):
        Database.open(f"sqlite:///{tmp_path}/control.db")


def test_the_settings_file_is_valid_and_overridden_by_the_environment(project: Project) -> None:
    settings = ControlPlaneSettings.load(project, {})
    assert settings.bindings == {}, "a name alone gives no role"
    assert not settings.four_eyes
    assert settings.database == f"sqlite:///{project.var / 'control-plane.db'}"
    overridden = {
        "FRAUD_CONTROL_FOUR_EYES": "true",
        "FRAUD_CONTROL_FLOOD_ALERTS_PER_MINUTE": "7",
        "FRAUD_CONTROL_DATABASE": "postgresql+psycopg2://u:secret@h/d",
        "FRAUD_ADMIN_USER": "ada",
    }
    settings = ControlPlaneSettings.load(project, overridden)
    assert settings.bindings == {"ada": Role.ADMIN}
    bound = ControlPlaneSettings.parse({"bindings": {"ada": "viewer"}}, project.var, overridden)
    assert bound.bindings == {"ada": Role.VIEWER}, "the file binds the first admin, too"
    assert (settings.four_eyes, settings.flood.alerts_per_minute) == (True, 7)
    assert "secret" not in repr(settings)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([], "must be a mapping"),
        ({"four_eyes": "maybe", "colour": 1}, "colour is not a setting.*four_eyes must be true or false"),
        ({"bounds": {"rules": 0}}, "bounds.rules must be a whole number from 1"),
        ({"bounds": {"page": 9}}, "bounds.page is not a setting"),
        ({"bindings": {"eve": "root"}}, "bindings.eve must be one of viewer"),
        ({"bindings": {"e\nve": "admin"}}, "is not a user name"),
        ({"bindings": {"log:eve": "admin"}}, "is not a user name"),
        ({"bindings": {"system:cdc": "admin"}}, "is not a user name"),
        ({"database": "mysql://u:secret@h/d"}, "database must be a SQLite or Postgres URL$"),
    ],
)
def test_wrong_settings_are_named(document: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ControlPlaneSettings.parse(document, Path("var"), {})
