"""The database file: opened by many at once, one writer, one leader, what the settings say."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from fraud_ops.control_plane.errors import Unavailable
from fraud_ops.control_plane.roles import Role
from fraud_ops.control_plane.settings import ControlPlaneSettings
from fraud_ops.control_plane.store.database import Database
from fraud_ops.control_plane.store.facts import store_id
from fraud_ops.control_plane.store.models import Base, Fact
from fraud_rules.errors import ConfigError
from fraud_rules.project import Project
from tests.control.desks import ADA, Scene, given


def test_many_open_a_new_file_at_once(tmp_path: Path) -> None:
    url, opened = f"sqlite:///{tmp_path}/new/control.db", list[Database]()
    threads = [threading.Thread(target=lambda: opened.append(Database.open(url))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({store_id(database) for database in opened}) == 1
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "new").iterdir()} == {0}
    for database in opened:
        database.close()


def test_the_migrations_make_the_tables_of_the_models(scene: Scene) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with scene.database.reading() as session:
        context = MigrationContext.configure(session.connection(), opts={"version_table": "fraud_control_version"})
        assert compare_metadata(context, Base.metadata) == []


def test_writers_take_turns_and_lose_nothing(scene: Scene) -> None:
    other = Scene(Database.open(scene.settings.database), scene.settings, scene.clock)

    def write(desk: Scene, rule_id: int) -> None:
        detail = desk.desk.create(ADA, given(ruleId=rule_id))
        for limit in range(1, 6):
            detail = desk.desk.edit(ADA, rule_id, detail.row.revision, given(limit=limit))

    threads = [threading.Thread(target=write, args=((scene, other)[each % 2], each)) for each in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    verdict = scene.desk.verify_audit()
    assert (verdict.whole, verdict.rows) == (True, 48)
    other.database.close()


def test_one_leads_at_a_time(scene: Scene) -> None:
    other = Database.open(scene.settings.database)
    ours, theirs = scene.database.leadership("publisher"), other.leadership("publisher")
    with ours as first, theirs as second, other.leadership("mirror") as third:
        assert (first, second, third) == (True, False, True)
    with other.leadership("publisher") as again:
        assert again
    other.close()


def test_an_error_takes_everything_back(scene: Scene) -> None:
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
def test_a_url_that_is_none_is_named_without_its_secrets(url: str) -> None:
    with pytest.raises(ConfigError, match="database"):
        Database.open(url)


def test_a_file_that_is_no_database_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "control.db").mkdir()
    with pytest.raises(Unavailable, match="database"):
        Database.open(f"sqlite:///{tmp_path}/control.db")


def test_the_settings_file_is_valid_and_overridden_by_the_environment(project: Project) -> None:
    settings = ControlPlaneSettings.load(project, {})
    assert settings.bindings == {"admin": Role.ADMIN}
    assert not settings.four_eyes
    assert settings.database == f"sqlite:///{project.var / 'control-plane.db'}"
    overridden = {
        "FRAUD_CONTROL_FOUR_EYES": "true",
        "FRAUD_CONTROL_FLOOD_ALERTS_PER_MINUTE": "7",
        "FRAUD_CONTROL_DATABASE": "postgresql+psycopg2://u:secret@h/d",
    }
    settings = ControlPlaneSettings.load(project, overridden)
    assert (settings.four_eyes, settings.flood.alerts_per_minute) == (True, 7)
    assert "secret" not in repr(settings)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([], "must be a mapping"),
        ({"four_eyes": "maybe", "colour": 1}, "colour is not a setting.*four_eyes must be true or false"),
        ({"bounds": {"page": 0}}, "bounds.page must be a whole number from 1"),
        ({"bindings": {"eve": "root"}}, "bindings.eve must be one of viewer"),
        ({"bindings": {"e\nve": "admin"}}, "is not a user's name"),
        ({"database": "mysql://u:secret@h/d"}, "database must be a SQLite or Postgres URL$"),
    ],
)
def test_wrong_settings_are_named(document: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ControlPlaneSettings.parse(document, Path("var"), {})
