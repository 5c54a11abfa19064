"""The store on Postgres behind a real PgBouncer in transaction mode, as many installations of Airflow have it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import text

from fraud_control.domain.errors import Unavailable
from fraud_control.settings import ControlPlaneSettings
from fraud_control.store.database import SCHEMA, Database
from tests.support.control_plane.concurrent_edits import check_concurrent_edits
from tests.support.control_plane.leaders import check_leadership
from tests.support.control_plane.postgres import PgBouncer, Postgres, binaries
from tests.support.control_plane.scene import Scene
from tests.support.waiting import until


def opened(url: str) -> Database | None:
    try:
        return Database.open(url)
    except Unavailable:
        return None


@pytest.fixture
def scene() -> Iterator[Scene]:
    programs, program = binaries(), shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")
    if programs is None or program is None:
        pytest.skip("no Postgres or no PgBouncer is installed here")
    with tempfile.TemporaryDirectory(prefix="postgres-") as data, tempfile.TemporaryDirectory() as folder:
        server = Postgres(Path(data), programs)
        bouncer = PgBouncer(Path(folder), Path(program), server.port)
        server.start()
        bouncer.start()
        database = until(lambda: opened(bouncer.url), "PgBouncer accepts connections")
        yield Scene(database, ControlPlaneSettings(database=bouncer.url))
        database.close()
        bouncer.stop()
        server.stop()


def test_the_store_works_with_a_new_session_for_each_transaction(scene: Scene) -> None:
    other = Database.open(scene.settings.database)
    check_leadership(scene.database, other)
    with ExitStack() as held:
        for number in range(20):
            assert held.enter_context(scene.database.leadership(f"work {number}"))
        check_concurrent_edits(scene, 5)
    with other.reading() as session:
        shown = session.execute(text("SELECT current_setting('search_path'), current_setting('lock_timeout')")).one()
        assert tuple(shown) == (SCHEMA, "10s")
    other.close()
