"""A fresh installation under a real Airflow, before any other test uses it."""

from __future__ import annotations

import re
import sqlite3
import subprocess
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

from tests.installation.dags import DETECTOR, QUICK
from tests.support.processes.supervised import RUN_S, Supervised
from tests.support.waiting import until

CLEANED = ("task_instance", "log", "xcom")
KEPT = ("dag", "asset_watcher", "trigger", "serialized_dag", "dag_version")

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


@pytest.mark.usefixtures("requested")
def test_the_dags_start_the_detector_and_seed_its_rules(world: Supervised) -> None:
    intent = world.look().newest_intent
    assert intent is not None
    assert intent.intent.requested_by.startswith("start by scheduled__")
    for dag_id in ("fraud_topics", "fraud_seed_rules"):
        assert world.api.await_run(dag_id, world.api.newest_run(dag_id)["dag_run_id"]) == "success"
    run_id = world.api.newest_run(DETECTOR)["dag_run_id"]
    until(lambda: world.api.task_states(DETECTOR, run_id)["supervise"] == "deferred", "supervision is deferred", RUN_S)


def test_a_fresh_start_leaves_airflows_home_page_green(world: Supervised) -> None:
    """The first runs succeed, also those that the schedule starts later. No run is for a time before the start."""
    for dag_id in QUICK:
        first = [run["dag_run_id"] for run in world.api.runs(dag_id, order="run_after")][:1]
        assert world.api.await_run(dag_id, *(first or [world.api.trigger(dag_id)])) == "success"
    assert world.api.call("GET", "dags/~/dagRuns?state=failed")["dag_runs"] == []
    assert world.api.missed_deadlines() == []


def test_airflow_listens_on_loopback_only(world: Supervised) -> None:
    """A JVM names an IPv4 address as a mapped IPv6 address."""
    addresses = {ip for process in world.site.airflow.processes() for ip in listening(process)}
    assert {ip.removeprefix("::ffff:") for ip in addresses} == {"127.0.0.1"}


def listening(process: psutil.Process) -> set[str]:
    """The addresses on which a process listens; none if it has ended."""
    with suppress(psutil.NoSuchProcess):
        found = process.net_connections("inet")
        return {each.laddr.ip for each in found if each.status == psutil.CONN_LISTEN}
    return set()


@pytest.mark.long
def test_the_documented_clean_up_deletes_old_records_and_no_watcher(world: Supervised, tmp_path: Path) -> None:
    """The command of docs/managed.md, on a copy of the database, as if all records were old."""
    page = (world.context.project.root / "docs" / "managed.md").read_text(encoding="utf-8")
    command = re.search(r"^airflow db clean .*$", page, re.MULTILINE)
    assert command is not None
    copy, site = tmp_path / "airflow.db", world.site.airflow.site
    with (
        closing(sqlite3.connect(site.home / "airflow.db", timeout=60)) as database,
        closing(sqlite3.connect(copy)) as to,
    ):
        database.backup(to)
    before = rows(copy)
    environment = site.environment() | {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{copy}"}
    subprocess.run(command[0].replace("30 days ago", "now"), shell=True, env=environment, check=True)
    after = rows(copy)
    assert all(after[table] < before[table] for table in CLEANED)
    assert {table: after[table] for table in KEPT} == {table: before[table] for table in KEPT}
    assert before["asset_watcher"] > 0


def rows(path: Path) -> Counter[str]:
    """The number of rows of each table that the test names."""
    with closing(sqlite3.connect(path)) as database:
        count = "select count(*) from "
        return Counter({table: database.execute(count + table).fetchone()[0] for table in (*CLEANED, *KEPT)})
