"""The store on Postgres behind a real PgBouncer in transaction mode, as many installations of Airflow have it."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import text

from fraud_ops.control_plane.domain.errors import Unavailable
from fraud_ops.control_plane.settings import ControlPlaneSettings
from fraud_ops.control_plane.store.database import SCHEMA, Database
from tests.support.control_plane.leaders import check_leadership
from tests.support.control_plane.postgres import PgBouncer, Postgres, binaries
from tests.support.control_plane.scene import ADA, Scene, rule_input
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
        database = until(lambda: opened(bouncer.url), "PgBouncer accepts connections", 30)
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

        def write(rule_id: int) -> None:
            detail = scene.service.create(ADA, rule_input(ruleId=rule_id))
            for limit in range(1, 6):
                detail = scene.service.edit(ADA, rule_id, detail.row.revision, rule_input(limit=limit))

        threads = [threading.Thread(target=write, args=(rule_id,)) for rule_id in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    verdict = scene.service.verify_audit()
    assert (verdict.whole, verdict.rows) == (True, 8 * 6)
    with other.reading() as session:
        shown = session.execute(text("SELECT current_setting('search_path'), current_setting('lock_timeout')")).one()
        assert tuple(shown) == (SCHEMA, "10s")
    other.close()
