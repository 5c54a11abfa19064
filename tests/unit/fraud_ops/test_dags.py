"""The DAG pages: they load quickly without a database, and each documents its use."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.sdk.definitions.deadline import DeadlineReference
from airflow.sdk.execution_time import macros
from airflow.serialization.encoders import coerce_to_core_timetable
from airflow.timetables import interval, trigger
from airflow.timetables.base import TimeRestriction
from airflow.utils.timezone import coerce_datetime
from croniter import croniter_range

from fraud_control.watch import flood_guard, prediction_watch, reader_watch
from fraud_control.watch.store_watch import StoreAlarm
from fraud_local.unpaused import UNPAUSED
from fraud_ops import alarms
from fraud_ops.runbooks import DAG_IDS, slug
from fraud_ops.verdicts.checkpoint import DRILL_OVERDUE, HISTORY_AT_RISK
from fraud_ops.verdicts.verdict import Health
from fraud_rules.configuration.project import Project
from fraud_rules.errors import error_name
from fraud_rules.monitoring.data_faults import DataVerdict
from fraud_rules_airflow.dags import archive, nightly_reevaluation, seed_rules, warm_up
from fraud_rules_airflow.dags.options import DEFAULTS, DagOptions
from fraud_rules_airflow.operators.archive_checks import DAYS_MISSED
from fraud_rules_airflow.operators.mixed_releases import MIXED_RELEASES

DAGS = {
    "fraud_archive",
    "fraud_backtest",
    "fraud_checkpoint_drill",
    "fraud_checkpoint_health",
    "fraud_detector",
    "fraud_detector_ops",
    "fraud_nightly_reevaluation",
    "fraud_retention",
    "fraud_seed_rules",
    "fraud_supervision",
    "fraud_topics",
    "fraud_warm_up",
}

PAUSED = {
    "fraud_archive",
    "fraud_checkpoint_drill",
    "fraud_detector",
    "fraud_nightly_reevaluation",
    "fraud_retention",
    "fraud_seed_rules",
    "fraud_topics",
    "fraud_warm_up",
}

TIMES_OF_DAY = ((0, 0), (3, 29), (3, 31), (5, 29), (12, 0), (23, 59))
INSTALLATIONS = [datetime(2026, 11, 23, *at, tzinfo=UTC) for at in TIMES_OF_DAY]

LOADED = """
import sys
import airflow.sdk, airflow.triggers.base, airflow.dag_processing.dagbag
sys.path.insert(0, sys.argv[1])
bag = airflow.dag_processing.dagbag.DagBag(sys.argv[2])
assert not bag.import_errors, bag.import_errors
print([name for name in ("pyspark", "numba", "pandas", "kafka") if name in sys.modules])
"""


@pytest.fixture(scope="module")
def bag(project: Project) -> DagBag:
    return DagBag(str(project.root / "dags"))


def dags(bag: DagBag) -> list[DAG]:
    return [bag.dags[dag_id] for dag_id in sorted(bag.dags)]


def test_every_page_loads(bag: DagBag) -> None:
    assert not bag.import_errors
    assert bag.dags.keys() >= DAGS == DAG_IDS


def test_the_one_file_of_the_image_makes_the_same_dags(project: Project) -> None:
    made = DagBag(str(project.config / "images" / "dags"))
    assert (made.import_errors, made.dags.keys()) == ({}, DAG_IDS)


def test_the_pages_import_nothing_heavy(project: Project) -> None:
    arguments = [str(project.root / "plugins"), str(project.root / "dags")]
    done = subprocess.run([sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_lost_run_does_not_prevent_the_next_supervision(bag: DagBag) -> None:
    """The limit leaves time for the deployment and for the whole window."""
    dag = bag.dags["fraud_detector"]
    assert dag.dagrun_timeout is not None
    needed = dag.get_task("deploy").execution_timeout + dag.get_task("supervise").window
    assert needed < dag.deadline[0].interval < dag.dagrun_timeout <= timedelta(hours=1)


def test_the_documented_runs_and_tasks_a_day_are_those_of_the_schedules(bag: DagBag, project: Project) -> None:
    page = (project.root / "docs" / "managed.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`fraud_.*`) \| (\d+) \| (\d+) \| [\d,]+ \|$", page, re.MULTILINE)
    shown = {name: (int(runs), int(tasks)) for names, runs, tasks in rows for name in re.findall(r"`(\w+)`", names)}
    computed = {each.dag_id: (runs_a_day(each), len(each.tasks) * runs_a_day(each)) for each in dags(bag)}
    assert shown == {name: (runs, tasks) for name, (runs, tasks) in computed.items() if runs}


def runs_a_day(dag: DAG) -> int:
    """The runs that a schedule starts in a day; a run of the detector's DAG lasts as long as its supervision."""
    timetable, day = dag.timetable, timedelta(days=1)
    if dag.dag_id == "fraud_detector":
        return day // dag.get_task("supervise").window
    if (delta := getattr(timetable, "delta", None)) is not None:
        return day // delta
    if (expression := getattr(timetable, "expression", None)) is None:
        return 0
    midnight = datetime(2026, 1, 1, tzinfo=UTC)
    return sum(1 for _ in croniter_range(midnight, midnight + day - timedelta(seconds=1), expression))


def test_a_page_names_its_owner_and_its_deadline(bag: DagBag) -> None:
    for dag in dags(bag):
        assert dag.doc_md, dag.dag_id
        assert dag.description, dag.dag_id
        assert "fraud" in dag.tags, dag.dag_id
        assert dag.deadline, dag.dag_id
        assert dag.max_active_runs == 1, dag.dag_id
        assert not dag.catchup, dag.dag_id
        for task in dag.tasks:
            assert task.owner == "fraud-platform", task.task_id
            assert task.doc_md, task.task_id


@pytest.mark.parametrize("installed_at", INSTALLATIONS, ids=str)
def test_a_new_installation_has_missed_no_deadline(
    bag: DagBag, installed_at: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run of a DAG is not about a time before Airflow knew the DAG, or its deadline counts from now."""
    for timetables in (trigger, interval):
        monkeypatch.setattr(timetables, "utcnow", lambda: coerce_datetime(installed_at))
    for dag in dags(bag):
        assert_misses_no_deadline(dag, installed_at)


def assert_misses_no_deadline(dag: DAG, installed_at: datetime) -> None:
    restriction = TimeRestriction(coerce_datetime(dag.start_date), None, dag.catchup)
    timetable = coerce_to_core_timetable(dag.timetable)
    first = timetable.next_dagrun_info(last_automated_data_interval=None, restriction=restriction)
    if first is not None and not timetable.partitioned:
        second = timetable.next_dagrun_info(last_automated_data_interval=first.data_interval, restriction=restriction)
        assert second.logical_date > first.logical_date, f"{dag.dag_id}: no second run about the same time"
    of_logical_date = dag.deadline[0].reference == DeadlineReference.DAGRUN_LOGICAL_DATE
    assert first is None or not of_logical_date or first.logical_date >= installed_at, dag.dag_id


@pytest.mark.parametrize(
    ("dag_id", "wait"),
    [
        ("fraud_detector", timedelta(0)),
        ("fraud_seed_rules", timedelta(0)),
        ("fraud_topics", timedelta(0)),
        ("fraud_supervision", timedelta(seconds=40)),
        ("fraud_checkpoint_health", timedelta(minutes=1, seconds=40)),
        ("fraud_archive", timedelta(minutes=6, seconds=40)),
    ],
)
def test_the_checks_and_the_archive_leave_the_start_to_the_detector(
    bag: DagBag, dag_id: str, wait: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new installation runs at once only the DAGs that the first alert needs."""
    installed_at = coerce_datetime(datetime(2026, 11, 23, 12, 3, 20, tzinfo=UTC))
    for timetables in (trigger, interval):
        monkeypatch.setattr(timetables, "utcnow", lambda: installed_at)
    timetable = coerce_to_core_timetable(bag.dags[dag_id].timetable)
    restriction = TimeRestriction(None, None, catchup=False)
    first = timetable.next_dagrun_info(last_automated_data_interval=None, restriction=restriction)
    assert first is not None
    assert first.run_after - installed_at == wait


def test_dags_that_change_something_by_themselves_start_paused(bag: DagBag) -> None:
    """The others check, or act only on a request. The pages decide, whatever Airflow's own default is."""
    assert {dag.dag_id for dag in dags(bag) if dag.is_paused_upon_creation} == PAUSED
    assert all(dag.is_paused_upon_creation is not None for dag in dags(bag))


@pytest.mark.parametrize("page", ["docs/run.md", "config/images/init.sh"])
def test_the_documented_command_and_compose_unpause_these_dags_by_name(page: str, project: Project) -> None:
    text = (project.root / page).read_text(encoding="utf-8")
    (names,) = re.findall(r"airflow dags unpause --yes --treat-dag-id-as-regex '\^fraud_\((.+)\)\$'", text)
    assert {f"fraud_{name}" for name in names.split("|")} == PAUSED - {"fraud_retention"} == set(UNPAUSED)


def test_every_task_ends_some_time(bag: DagBag) -> None:
    """By its own timeout, by that of its deferral, or, where a person is asked, by that of the answer."""
    for task in (task for dag in dags(bag) for task in dag.tasks):
        limits = [getattr(task, name, None) for name in ("execution_timeout", "response_timeout", "window")]
        assert any(isinstance(limit, timedelta) for limit in limits) or getattr(task, "timeout", 0) > 0, task.task_id


def test_the_environment_names_pool_and_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not {"pool", "queue"} & DEFAULTS.default_args().keys()
    monkeypatch.setenv("FRAUD_POOL", "fraud")
    monkeypatch.setenv("FRAUD_QUEUE", "fast")
    assert {name: DEFAULTS.default_args()[name] for name in ("pool", "queue")} == {"pool": "fraud", "queue": "fast"}


def test_the_supervisor_continues_when_the_deployment_has_failed(bag: DagBag) -> None:
    supervise = bag.dags["fraud_detector"].get_task("supervise")
    assert supervise.trigger_rule == "all_done"
    assert [task.task_id for task in supervise.upstream_list] == ["deploy"]


def test_a_manual_action_has_a_reason(bag: DagBag) -> None:
    params = bag.dags["fraud_detector_ops"].params
    assert params.get_param("action").schema["enum"] == ["start", "drain", "restart", "roll back", "rebuild"]
    reason = params.get_param("reason")
    assert not reason.has_value
    assert reason.schema["minLength"] > 0


def test_pages_hold_no_logic(project: Project) -> None:
    """A page creates its DAG with the defaults, so that its module in the provider is the only declaration."""
    for path in sorted((project.root / "dags").glob("*.py")):
        name = path.stem.removeprefix("fraud_")
        code = path.read_text(encoding="utf-8").split("\n\n", 1)[1]
        assert code == f"from fraud_rules_airflow.dags import {name}\n\n{name}.create_dag()\n"


def test_the_functions_apply_the_options_of_an_installation() -> None:
    options = DagOptions("payments_kafka", "payments_spark", "risk", ("risk",), retries=7, pool="p", queue="q")
    dag = nightly_reevaluation.create_dag(options, dag_id="risk_nights", schedule="0 3 * * *")
    assert (dag.dag_id, dag.tags) == ("risk_nights", {"risk", "nightly"})
    for task in dag.tasks:
        assert (task.owner, task.retries, task.pool, task.queue) == ("risk", 7, "p", "q")
    job = dag.get_task("reevaluate")
    assert (job.kafka_conn_id, job.spark_conn_id) == ("payments_kafka", "payments_spark")
    assert [each.kafka_conn_id for each in job.on_failure_callback] == ["payments_kafka"]
    assert [each.callback.kwargs["kafka_conn_id"] for each in dag.deadline] == ["payments_kafka"]
    assert warm_up.create_dag(options).get_task("warm_up").kafka_conn_id == "payments_kafka"
    assert seed_rules.create_dag(options).get_task("apply").kafka_conn_id == "payments_kafka"


def test_another_operator_runs_the_batch_jobs() -> None:
    """The arguments are those of the entry scripts, which read the templates of an empty run as yesterday's."""
    jobs: dict[str, list[str]] = {}

    def elsewhere(script: str, arguments: list[str], **task: Any) -> EmptyOperator:
        jobs[script] = arguments
        return EmptyOperator(**task)

    options = DagOptions("payments", batch_operator=elsewhere)
    for module in (archive, nightly_reevaluation, warm_up):
        dag = module.create_dag(options)
        assert not [each for each in dag.tasks if isinstance(each, SparkSubmitOperator)]
    run = SimpleNamespace(run_after=datetime(2026, 11, 30, 0, 5, tzinfo=UTC))
    known = SimpleNamespace(extra_dejson={"bootstrap.servers": "kafka:9092"})
    context = {
        "conn": {"payments": known}, "var": {"value": {"fraud_archive": "s3://fraud/a"}}, "dag_run": run,
        "params": {"day": "", "report_only": False}, "partition_key": None, "macros": macros,
    }  # fmt: skip
    task = EmptyOperator(task_id="any")
    common = ["--bootstrap=kafka:9092", "--archive=s3://fraud/a"]
    assert {name: task.render_template(each, context) for name, each in jobs.items()} == {
        "archive": common, "warm_up": common,
        "reevaluate": [*common, "--day=2026-11-29", "--allow-empty", "--no-report-only"],
    }  # fmt: skip


RUNBOOKS = {
    *Health, *DataVerdict, *StoreAlarm, *alarms._WARNINGS, HISTORY_AT_RISK, DRILL_OVERDUE, "CRASH_LOOP", "TASK_FAILED",
    "DEADLINE", "AIRFLOW_DEAD", DAYS_MISSED, MIXED_RELEASES, flood_guard.ALARM, prediction_watch.ALARM,
    reader_watch.ALARM, *(error_name(code) for code in (7, 10, 18, *range(21, 33), 40)),
}  # fmt: skip
"""The verdicts, the alarms, and the errors of the nights."""


@pytest.mark.parametrize("name", sorted(map(str, RUNBOOKS)))
def test_every_verdict_alarm_and_error_of_the_nights_has_a_runbook(name: str, project: Project) -> None:
    page = f"{slug(name)}.md"
    text = (project.root / "docs" / "runbooks" / page).read_text(encoding="utf-8")
    title = text.partition("\n")[0].removeprefix("# ")
    assert slug(name) in map(slug, title.split(", "))
    assert [part for part in ("## Meaning", "## Action") if part not in text] == []
    assert f"({page})" in (project.root / "docs" / "runbooks" / "README.md").read_text(encoding="utf-8")
