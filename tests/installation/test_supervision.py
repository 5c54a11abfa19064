"""The detector under a real Airflow. Its DAGs start it and replace it when it dies or hangs; failures of Airflow
itself do not affect it. The installation is under load. The last test checks every alert.

The default run omits the tests that take minutes: `pytest -m integration tests/installation/test_supervision.py`.
`make chaos` repeats each failure five times (FRAUD_TIMES).
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from fraud_local.airflow import Component
from fraud_ops.verdicts.verdict import Health
from fraud_rules.configuration.project import Project
from fraud_rules.deploy.attempt import AttemptPhase
from fraud_rules.model.day import Day
from fraud_rules.runtime.clock import now_ms
from tests.installation.dags import DETECTOR, QUICK, WITH_SPARK
from tests.support.processes.healthy import await_healthy
from tests.support.processes.lone_airflow import lone_airflow, unpause, with_dags
from tests.support.processes.signals import send_signal
from tests.support.processes.supervised import RUN_S, Supervised, demo_ports, restart
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

DECIDING = "airflow dags trigger"
TIMES = int(os.environ.get("FRAUD_TIMES", "1"))
OTHER_COMPONENTS = (Component.SCHEDULER, Component.DAG_PROCESSOR, Component.API_SERVER)


@pytest.mark.long
def test_the_dags_run_again(world: Supervised) -> None:
    """Some also have a scheduled run. Seeding again changes nothing; each new supervisor adopts the detector."""
    before, driver = world.attempt().status, world.driver().pid
    runs = {dag_id: [world.api.trigger(dag_id) for _ in range(4)] for dag_id in QUICK}
    for _ in range(4):
        end_supervision(world)
    states = {dag_id: [world.api.await_run(dag_id, each) for each in run_ids] for dag_id, run_ids in runs.items()}
    assert states == dict.fromkeys(QUICK, ["success"] * 4)
    assert [world.api.xcom("fraud_seed_rules", each, "apply") for each in runs["fraud_seed_rules"]] == [[]] * 4
    assert world.attempt().status.epoch == before.epoch
    assert world.driver().pid == driver


def test_a_driver_that_dies_is_replaced(world: Supervised, record_property: Callable[[str, object], None]) -> None:
    before = world.attempt().status
    killed_s = time.monotonic()
    send_signal(world.members(), signal.SIGKILL)
    seen = world.await_after(before.epoch)
    record_property("replaced_s", round(time.monotonic() - killed_s, 1))
    assert seen.deployment.attempts[before.attempt_id].status.phase is AttemptPhase.FAILED
    assert seen.newest_intent is not None
    assert seen.newest_intent.intent.requested_by == "supervisor"
    assert world.driver().is_running()


@pytest.mark.recovery
@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_driver_that_hangs_or_dies_is_replaced_and_writes_no_more(world: Supervised, number: signal.Signals) -> None:
    for _ in range(TIMES):
        world.lose_driver(number)


@pytest.mark.long
def test_a_changed_configuration_is_deployed_on_the_same_checkpoint(world: Supervised) -> None:
    before = world.attempt().status
    world.redeploy()
    seen = world.look()
    assert seen.newest_intent is not None
    assert seen.newest_intent.intent.requested_by.startswith("start by ")
    assert seen.deployment.attempts[before.attempt_id].status.phase is AttemptPhase.STOPPED
    assert world.driver().is_running()


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_the_dags_that_start_spark_run_four_times_in_a_row(world: Supervised) -> None:
    """The same driver continues in the same epoch meanwhile, also during the restore of a copy of its checkpoint."""
    before, driver = world.attempt().status, world.driver().pid
    runs = {dag_id: [world.api.trigger(dag_id) for _ in range(4)] for dag_id in WITH_SPARK}
    states = {dag_id: [world.api.await_run(dag_id, each) for each in run_ids] for dag_id, run_ids in runs.items()}
    assert states == dict.fromkeys(WITH_SPARK, ["success"] * 4)
    backtests = [world.api.trigger("fraud_backtest", rule="1", days=1) for _ in range(4)]
    nights = [world.api.trigger("fraud_nightly_reevaluation", day=str(Day.today()), requeue=False) for _ in range(4)]
    assert [world.api.await_run("fraud_backtest", each) for each in backtests] == ["success"] * 4
    assert [world.api.await_run("fraud_nightly_reevaluation", each) for each in nights] == ["success"] * 4
    world.await_batches(2)
    assert world.attempt().status.epoch == before.epoch
    assert world.driver().pid == driver


@pytest.mark.recovery
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(
    "component",
    [Component.TRIGGERER, *(pytest.param(each, marks=pytest.mark.long) for each in OTHER_COMPONENTS)],
)
def test_the_detector_is_unaffected_by_a_killed_component(world: Supervised, component: Component) -> None:
    before, driver = world.attempt().status, world.driver().pid
    for _ in range(TIMES):
        restart(world.site, component)
        since_ms = now_ms()
        world.await_batches(3)
        await_healthy(world.site.airflow)
        world.await_supervision(since_ms)
        assert world.driver().pid == driver
    assert world.attempt().status.epoch == before.epoch


@pytest.mark.long
def test_airflow_survives_a_write_that_takes_long(world: Supervised) -> None:
    """The scheduler ends if it cannot write in three attempts. SQLite's default wait would be 5 s for each."""
    path = world.site.airflow.site.home / "airflow.db"
    with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        time.sleep(20)  # the long write
        database.execute("ROLLBACK")
    assert world.api.await_run("fraud_topics", world.api.trigger("fraud_topics")) == "success"
    world.site.airflow.check()


@pytest.mark.long
def test_a_supervising_run_that_is_failed_cleared_paused_or_deleted_harms_nothing(world: Supervised) -> None:
    before, driver = world.attempt().status, world.driver().pid

    def adopted(harm: str) -> None:
        since_ms = now_ms()
        world.await_batches(2)
        world.await_supervision(since_ms)
        assert world.attempt().status.epoch == before.epoch, harm
        assert world.driver().pid == driver, harm

    run_id = world.api.newest_run(DETECTOR)["dag_run_id"]
    world.api.call("PATCH", f"dags/{DETECTOR}/dagRuns/{run_id}/taskInstances/supervise", new_state="failed")
    adopted("marked as failed")
    run_id = world.api.newest_run(DETECTOR)["dag_run_id"]
    world.api.call("POST", f"dags/{DETECTOR}/dagRuns/{run_id}/clear", dry_run=False)
    adopted("cleared")
    world.api.call("PATCH", f"dags/{DETECTOR}", is_paused=True)
    run_id = world.api.newest_run(DETECTOR)["dag_run_id"]
    world.api.call(
        "PATCH", f"dags/{DETECTOR}/dagRuns/{run_id}", state="failed"
    )  # Airflow does not delete a run that is running
    world.api.call("DELETE", f"dags/{DETECTOR}/dagRuns/{run_id}")
    world.await_batches(2)
    world.api.call("PATCH", f"dags/{DETECTOR}", is_paused=False)
    adopted("paused and deleted")


@pytest.mark.long
def test_a_drained_detector_stays_drained_until_a_start(world: Supervised) -> None:
    run_id = world.api.trigger("fraud_detector_ops", action="drain", reason="a test of stopping")
    assert world.api.await_run("fraud_detector_ops", run_id) == "success"
    seen = world.await_health(Health.STOPPED)
    assert seen.newest_intent is not None
    assert seen.newest_intent.intent.reason == "a test of stopping"
    assert seen.newest_intent.intent.requested_by == "drain by admin"
    world.await_supervision(now_ms())
    assert world.verdict().health is Health.STOPPED
    run_id = world.api.trigger("fraud_detector_ops", action="start", reason="a test of starting")
    assert world.api.await_run("fraud_detector_ops", run_id) == "success"
    world.await_health(Health.HEALTHY)


@pytest.mark.long
def test_manual_operations_work_four_times_in_a_row(world: Supervised) -> None:
    before = world.attempt().status.epoch
    runs = [world.api.trigger("fraud_detector_ops", action="restart", reason="a test") for _ in range(4)]
    assert [world.api.await_run("fraud_detector_ops", each) for each in runs] == ["success"] * 4
    assert world.attempt().status.epoch == before + 4


@pytest.mark.long
def test_another_airflow_with_the_same_detector_reports_and_changes_nothing(world: Supervised, tmp_path: Path) -> None:
    before, driver = world.attempt().status, world.driver().pid
    with_dags(world.context.project.root, tmp_path, DETECTOR)
    here = world.site.airflow.site
    site = replace(here, home=tmp_path / "airflow", project=Project(tmp_path), port=demo_ports()[2])
    with lone_airflow(site) as there:
        run_id = until(lambda: there.runs(DETECTOR), "the other Airflow supervises", RUN_S, 0.5)[0]["dag_run_id"]
        until(
            lambda: there.task_states(DETECTOR, run_id)["supervise"] == "deferred",
            "the other Airflow has observed the detector",
            RUN_S,
            0.5,
        )
        assert there.xcom(DETECTOR, run_id, "deploy")["health"] == Health.DUPLICATE
        assert there.xcom(DETECTOR, run_id, "supervise", "_link_Runbook").endswith("/duplicate")
        since_ms = now_ms()
        world.await_batches(3)
        world.await_supervision(since_ms)
    seen = world.look()
    assert seen.deployment.supervision is not None
    assert here.url in seen.deployment.supervision[1].supervisor
    assert world.attempt().status.epoch == before.epoch
    assert world.driver().pid == driver


@pytest.mark.long
def test_the_detector_and_the_rules_outlive_the_loss_of_airflows_database(world: Supervised) -> None:
    """The database is lost under the running components. A new one has no run, and its supervisor adopts the
    detector."""
    before, driver, rules = world.attempt().status, world.driver().pid, stored_rules(world)
    assert rules
    for path in world.site.airflow.site.home.glob("airflow.db*"):
        path.unlink()
    world.await_batches(3)
    world.site.airflow.stop()
    world.await_batches(3)
    since_ms = now_ms()
    world.site.airflow.prepare()
    world.site.airflow.start()
    await_healthy(world.site.airflow)
    unpause(world.site.airflow.site)
    world.await_supervision(since_ms)
    assert world.api.call("GET", f"dags/{DETECTOR}/dagRuns")["total_entries"] == 1
    world.await_rules()
    assert stored_rules(world) == rules, "the control plane has its own database, and seeding again changes nothing"
    assert world.verdict().health is Health.HEALTHY
    assert world.attempt().status.epoch == before.epoch
    assert world.driver().pid == driver


@pytest.mark.long
@pytest.mark.parametrize("deciding", [False, True])
def test_every_command_of_the_runbooks_works(world: Supervised, project: Project, *, deciding: bool) -> None:
    """Commands that write intents create a run. Its DAG is paused, so the run does not start."""
    found = {each for path in (project.root / "docs" / "runbooks").glob("*.md") for each in commands_of(path)}
    commands = sorted(each for each in found if each.startswith(DECIDING) is deciding)
    assert len(commands) >= 10
    world.api.call("PATCH", "dags/fraud_detector_ops", is_paused=True)
    failed = {}
    for command in commands:
        done = run_in(world, command)
        if done.returncode != 0:
            failed[command] = (done.stdout + done.stderr)[-600:]
    assert not failed, failed
    for run in world.api.call("GET", "dags/fraud_detector_ops/dagRuns?state=queued")["dag_runs"]:
        world.api.call("DELETE", f"dags/fraud_detector_ops/dagRuns/{run['dag_run_id']}")
    world.api.call("PATCH", "dags/fraud_detector_ops", is_paused=False)


@pytest.mark.recovery
@pytest.mark.long
def test_every_alert_of_the_installation_is_right(world: Supervised) -> None:
    verdict = world.check_run()
    assert verdict.right, verdict.faults


def stored_rules(world: Supervised) -> dict[int, int]:
    """The revision of each rule in the control plane."""
    items = world.api.fetch("/fraud/control/api/rules?limit=1000").json()["items"]
    return {each["ruleId"]: each["revision"] for each in items}


def end_supervision(world: Supervised) -> None:
    """End the supervising run, and return once the next run supervises."""
    run_id = world.api.newest_run(DETECTOR)["dag_run_id"]
    until(
        lambda: world.api.task_states(DETECTOR, run_id).get("supervise") == "deferred",
        "the run supervises",
        RUN_S,
        0.25,
    )
    world.api.call("PATCH", f"dags/{DETECTOR}/dagRuns/{run_id}/taskInstances/supervise", new_state="success")

    def next_run_supervises() -> bool:
        newest = world.api.newest_run(DETECTOR)["dag_run_id"]
        return newest != run_id and world.api.task_states(DETECTOR, newest).get("supervise") == "deferred"

    until(next_run_supervises, "the next run supervises", RUN_S, 0.25)


def commands_of(page: Path) -> list[str]:
    blocks = re.findall(r"^```\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def run_in(world: Supervised, command: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a user in the installation's folder."""
    home = world.context.project.root
    environ = {**world.site.airflow.site.environment(), "FRAUD_BOOTSTRAP": world.site.broker.bootstrap}
    words = shlex.split(command)
    return subprocess.run(words, cwd=home, env={**os.environ, **environ}, capture_output=True, text=True, check=False)
