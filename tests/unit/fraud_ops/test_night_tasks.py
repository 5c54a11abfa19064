"""The tasks of a night over an archive of late frauds. The job runs in this process, without Spark.

`tests/installation/test_nightly_dags.py`, a long test, has the same night under a real Airflow.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import DAG
from airflow.sdk.exceptions import DagRunTriggerException

import reevaluate as script
from fraud_demo.fraud_patterns import SEED_FRAUDS
from fraud_demo.late_frauds import late_frauds
from fraud_ops.paths import report_path
from fraud_rules.batch.reevaluation.daystore import DayStore
from fraud_rules.batch.reevaluation.job import reevaluate
from fraud_rules.codec.rules.files import read_rule_file
from fraud_rules.configuration.project import Project
from fraud_rules.kafka.consume import await_settled, read_topic
from fraud_rules.model.day import Day
from fraud_rules_airflow.airflow_ui.links import Report
from fraud_rules_airflow.operators.archive_checks import DaysDueOperator, QueueDayOperator
from fraud_rules_airflow.operators.batch import ReevaluateOperator
from fraud_rules_airflow.sensors.archive import DayArchivedSensor
from tests.support.conformance import load_schema
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.topic_files import name_topics
from tests.support.nightly.archived import TRANSACTIONS, Site
from tests.support.nightly.in_process import in_process

DAY = Day.today().plus(-2)
FRAUDS = list(late_frauds(DAY))


@dataclass
class Task:
    """The parts of a context that a task of a night uses. `pushed` has its XComs."""

    pushed: dict[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def context(self) -> Any:
        return {"ti": self, "params": self.params}

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


@pytest.fixture
def site(project: Project, topics: OwnTopics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """An installation whose archive will get the late frauds of a day in two batches. A Spark job runs at once."""
    home = tmp_path / "home"
    shutil.copytree(project.config, home / "config")
    name_topics(home / "config", replace(topics.names, transactions=TRANSACTIONS, rules="rules"))
    (home / "config" / "detector.yaml").write_text("key_groups: 2\n")
    monkeypatch.setenv("FRAUD_HOME", str(home))
    monkeypatch.setenv("AIRFLOW_VAR_FRAUD_ARCHIVE", str(tmp_path / "archive"))
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": topics.bootstrap}}
    monkeypatch.setenv("AIRFLOW_CONN_FRAUD_KAFKA", json.dumps(kafka))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    monkeypatch.setattr(SparkSubmitHook, "submit", submitted)
    at_ms = DAY.end_ms + 36_000_000
    rules = [json.loads(r.value) for path in sorted((project.config / "rules").iterdir()) for r in read_rule_file(path)]
    steps: list[dict[str, Any]] = [{"at": at_ms, "rule": rule} for rule in rules]
    steps += [{"at": at_ms + 1, "tx": json.loads(text)} for _, text in FRAUDS]
    batches = [{"offsets": {"transactions": {"0": end}}, "pin": len(rules)} for end in (len(FRAUDS) // 2, len(FRAUDS))]
    document = {"steps": steps, "keyGroups": 2, "batches": batches}
    return Site.make(tmp_path / "archive", document, load_schema("default"))


def submitted(hook: SparkSubmitHook, application: str) -> None:
    """Run the job that the arguments of a script describe."""
    assert application == script.__file__
    reevaluate(script.parse([str(each) for each in hook._application_args or ()], Project.find()), in_process)


def corrections(topics: OwnTopics) -> list[dict[str, Any]]:
    await_settled(topics.kafka, [topics.names.alert_corrections])
    (records,) = read_topic(topics.kafka, topics.names.alert_corrections).values()
    return [json.loads(record.value or b"") for record in records]


def test_a_day_waits_until_the_archive_has_all_of_it(site: Site) -> None:
    waiting = DayArchivedSensor(task_id="archived", day=str(DAY))
    site.archive(1, until_ms=DAY.end_ms)
    assert not waiting.poke(Task().context)
    site.archive(until_ms=DAY.end_ms + 2 * site.settings.max_out_of_orderness_ms)
    assert waiting.poke(Task().context)


def test_a_night_adds_late_frauds_and_is_due_again_after_later_data(site: Site, topics: OwnTopics) -> None:
    job, due = ReevaluateOperator(task_id="reevaluate", day=str(DAY)), DaysDueOperator(task_id="due")
    labels = {json.loads(text)["transactionId"]: label for label, text in FRAUDS}
    site.archive(1)
    first, second = Task(), Task()
    job.execute(first.context)
    result = DayStore(site.store).result(DAY)
    assert result is not None
    summary = first.pushed["summary"]
    assert (summary["day"], summary["withheld"]) == (str(DAY), None)
    assert summary["newCorrections"] == len(corrections(topics)) > 0
    assert first.pushed[Report().xcom_key].endswith(report_path("nights", str(DAY)))
    assert due.execute(Task().context) == []

    site.archive()
    assert due.execute(Task(params={"requeue": False}).context) == []
    assert due.execute(Task().context) == [{"day": str(DAY), "evaluated_ms": result.evaluated_ms}]
    job.execute(second.context)
    again, found = DayStore(site.store).result(DAY), corrections(topics)
    assert again is not None
    assert {labels[int(each.transaction_id)] for each in again.corrections} == set(SEED_FRAUDS)
    assert {each["kind"] for each in found} == {"ADDED"}
    assert {each["alertId"] for each in found} == {each.alert_id for each in again.corrections if not each.shadow}
    assert len(found) == summary["newCorrections"] + second.pushed["summary"]["newCorrections"]
    assert due.execute(Task().context) == []


def test_a_due_day_gets_a_run_of_its_own_once_a_night() -> None:
    with DAG("nights"):
        queue = QueueDayOperator(task_id="requeue", day=str(DAY), evaluated_ms=7)
    with pytest.raises(DagRunTriggerException) as run:
        queue.execute(Task().context)
    assert (run.value.trigger_dag_id, run.value.conf) == ("nights", {"day": str(DAY), "requeue": False})
    assert run.value.dag_run_id == f"again-{DAY}-after-7-on-{Day.today()}"
    assert run.value.skip_when_already_exists
