"""The database file: concurrent opens, one writer, one leader, and its settings."""

from __future__ import annotations

import importlib
import os
import pkgutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import select

from fraud_control import store
from fraud_control.domain.errors import StoreBusy, StoreTooNew, Unavailable
from fraud_control.domain.roles import Role
from fraud_control.settings import ControlPlaneSettings
from fraud_control.store.database import Database
from fraud_control.store.facts import store_id
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


def test_an_empty_database_gets_the_tables_of_the_models_and_keeps_its_rows(scene: Scene) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    for module in pkgutil.iter_modules(store.__path__, f"{store.__name__}."):
        importlib.import_module(module.name)  # so that all models are known
    with scene.database.reading() as session:
        context = MigrationContext.configure(session.connection(), opts={"version_table": "fraud_control_version"})
        assert compare_metadata(context, Base.metadata) == []
    known = store_id(scene.database)
    again = Database.open(scene.settings.database)
    assert store_id(again) == known
    again.close()


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
def test_a_store_of_a_newer_release_and_one_of_before_the_first_release_are_refused_by_name(tmp_path: Path) -> None:
    url = empty_store(tmp_path)
    for version in ("999", "22"):
        with sqlite3.connect(tmp_path / "control.db") as connection:
            connection.execute(f"UPDATE fraud_control_version SET version_num = '{version}'")
        connection.close()
        with pytest.raises(StoreTooNew, match=rf"version {version} .* versions 23 \(the first .*\) to \d+: run the"):
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
