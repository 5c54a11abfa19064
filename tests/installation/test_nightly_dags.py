"""The nightly DAGs under a real Airflow, as a user sees them. The run of yesterday adds frauds that arrived too late to
alert, once. A run for today only reports. A what-if writes a report. Days with later data are queued automatically. The
last test is about a warm-up, which runs beside the nights.

A run is a Spark job of half a minute beside a running detector. So the default run of the tests only shows that a
request starts the run of a warm-up. `unit/fraud_ops/test_spark_jobs.py` has the job of such a task,
`integration/streams/test_origins.py` a warm-up that a detector adds, and `unit/fraud_ops/test_night_tasks.py` the tasks
of a night without Spark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fraud_demo.fraud_patterns import SEED_FRAUDS
from fraud_demo.late_frauds import late_frauds
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.reevaluation.daystore import DayStore
from fraud_rules.batch.reevaluation.report import DayResult
from fraud_rules.kafka.consume import await_settled, read_topic
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.logs.rule_status import WarmUpState, read_operations
from fraud_rules.model.day import Day
from fraud_rules.runtime.clock import now_ms
from tests.installation.dags import WARM_UP
from tests.support.processes.supervised import RUN_S, Supervised
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

ARCHIVE = "fraud_archive"
NIGHT = "fraud_nightly_reevaluation"
WHAT_IF = "fraud_backtest"


@dataclass(frozen=True)
class Ended:
    """A run of the nightly DAG for one day, and its results."""

    run_id: str
    result: DayResult
    summary: Mapping[str, Any]


class Nights:
    """A supervised installation with past days. `day` is the last completed day."""

    def __init__(self, world: Supervised) -> None:
        self.world = world
        self.api = world.api
        self.days = DayStore(ArchiveStore(world.site.places.archive))
        self.day = Day.of(now_ms() - world.context.settings.max_out_of_orderness_ms).plus(-1)
        self.labels: dict[int, str] = {}

    def plant(self, day: Day, seed: int = 1) -> None:
        """Write late frauds, which are evaluated and archived. `labels` has their kinds by transaction."""
        planted = list(late_frauds(day, seed))
        self.labels |= {json.loads(text)["transactionId"]: label for label, text in planted}
        topics, kafka = self.world.context.settings.topics, self.world.site.broker.kafka
        append_records(kafka, topics.transactions, [(b"late", text) for _, text in planted])
        self.world.await_evaluated()
        self.succeed(ARCHIVE, self.api.trigger(ARCHIVE))

    def evaluate(self, day: Day, *, by_parameter: bool = False) -> Ended:
        """Start a run as the form does: by partition, or by its parameter."""
        run_id = self.api.trigger(NIGHT, day=str(day)) if by_parameter else self.api.trigger(NIGHT, partition=str(day))
        return self.ended(run_id, day)

    def ended(self, run_id: str, day: Day) -> Ended:
        """Wait for a run that must succeed."""
        self.succeed(NIGHT, run_id)
        result = self.days.result(day)
        assert result is not None
        return Ended(run_id, result, self.api.xcom(NIGHT, run_id, "reevaluate", "summary"))

    def succeed(self, dag_id: str, run_id: str) -> None:
        assert self.api.await_run(dag_id, run_id) == "success", self.api.task_states(dag_id, run_id)

    def evaluated_ms(self, day: Day) -> int:
        """The time of a day's last evaluation."""
        result = self.days.result(day)
        assert result is not None
        return result.evaluated_ms

    def queued_again(self) -> list[str]:
        """The runs that were queued for later data."""
        found = self.api.call("GET", f"dags/{NIGHT}/dagRuns?run_id_pattern=again-")["dag_runs"]
        return [each["dag_run_id"] for each in found]

    def corrections(self, day: Day) -> list[dict[str, Any]]:
        """The published corrections of a day."""
        topic = self.world.context.settings.topics.alert_corrections
        await_settled(self.world.site.broker.kafka, [topic])
        (records,) = read_topic(self.world.site.broker.kafka, topic).values()
        found = [json.loads(record.value or b"") for record in records]
        return [each for each in found if each["day"] == str(day)]


@pytest.fixture(scope="module")
def nights(world: Supervised) -> Nights:
    nights = Nights(world)
    # A new installation evaluates yesterday automatically once it has an archive. Wait for this run first.
    first = until(lambda: nights.api.runs(NIGHT), "the first night", RUN_S, 0.5)[0]["dag_run_id"]
    nights.api.call("PATCH", f"dags/{NIGHT}/dagRuns/{first}", state="success")
    world.await_payments(300)  # they show each key group that yesterday is over
    nights.plant(nights.day)
    return nights


@pytest.fixture(scope="module")
def night(nights: Nights) -> Ended:
    """The run for yesterday."""
    return nights.evaluate(nights.day)


@pytest.mark.long
def test_late_frauds_of_yesterday_are_added(nights: Nights, night: Ended) -> None:
    corrections, result = nights.corrections(nights.day), night.result
    added = [each for each in result.corrections if each.verdict == "ADDED"]
    assert {nights.labels[int(each.transaction_id)] for each in added} == set(SEED_FRAUDS)
    assert {each["kind"] for each in corrections} == {"ADDED"}
    live = {each.alert_id for each in added if not each.shadow}
    assert {each["alertId"] for each in corrections} == live
    assert len(corrections) == result.added == result.new_corrections == night.summary["newCorrections"]
    assert (night.summary["day"], night.summary["withheld"]) == (str(nights.day), None)


@pytest.mark.long
def test_the_button_leads_to_the_report_page(nights: Nights, night: Ended) -> None:
    page = nights.api.behind(NIGHT, night.run_id, "reevaluate", "Report")
    assert page.headers["content-type"].startswith("text/html")
    assert f"Re-evaluation of {nights.day}" in page.text
    for correction in night.result.corrections:
        assert correction.alert_id in page.text
    numbers = nights.api.fetch(str(page.url.join("result.json"))).json()
    assert (numbers["day"], numbers["added"]) == (str(nights.day), night.result.added)


@pytest.mark.long
def test_a_day_that_is_not_over_is_only_reported(nights: Nights, night: Ended) -> None:
    today = Day.today()
    ended = nights.evaluate(today, by_parameter=True)
    assert ended.result.withheld == "provisional, the day still receives data"
    assert ended.result.transactions > 0
    assert ended.result.added + ended.result.retracted + ended.result.confirmed > 0
    assert nights.corrections(today) == []
    page = nights.api.behind(NIGHT, ended.run_id, "reevaluate", "Report")
    assert "Nothing was published: provisional" in page.text


@pytest.mark.long
def test_a_what_if_writes_a_report(nights: Nights) -> None:
    conf = {"rule": "1", "days": 1, "until": str(nights.day), "limits": "1000, 20000, 60000"}
    run_id = nights.api.trigger(WHAT_IF, **conf)
    nights.succeed(WHAT_IF, run_id)
    summary = nights.api.xcom(WHAT_IF, run_id, "whatif")
    assert summary["days"] == [str(nights.day)]
    assert summary["fires"] > 0
    page = nights.api.behind(WHAT_IF, run_id, "whatif", "Report")
    assert "What if: rule 1" in page.text
    numbers = nights.api.fetch(str(page.url.join("result.json"))).json()
    assert [limit for limit, _ in numbers["limits"]] == [1000, 20000, 60000]
    assert dict(numbers["limits"])[20000] == summary["fires"]


@pytest.mark.long
def test_days_with_later_data_are_queued_again(nights: Nights, night: Ended) -> None:
    """One day was published, the other one was empty. The next run finds both due: here the run for today."""
    today, empty = Day.today(), nights.day.plus(-2)
    run_id = nights.api.trigger(NIGHT, partition=str(empty))
    nights.succeed(NIGHT, run_id)
    assert nights.api.task_states(NIGHT, run_id)["reevaluate"] == "skipped"
    before = nights.corrections(nights.day)
    expected = [f"again-{day}-after-{nights.evaluated_ms(day)}-on-{today}" for day in (empty, nights.day)]
    nights.plant(nights.day, seed=2)
    nights.plant(empty, seed=3)
    nights.evaluate(today, by_parameter=True)
    first, second = (nights.ended(run_id, day) for run_id, day in zip(expected, (empty, nights.day), strict=True))
    assert {nights.labels[each["transactionId"]] for each in nights.corrections(empty)} >= {"huge-payment"}
    assert first.result.new_corrections == len(nights.corrections(empty))
    assert second.result.new_corrections > 0
    assert len(nights.corrections(nights.day)) == len(before) + second.result.new_corrections
    nights.evaluate(today, by_parameter=True)
    assert sorted(nights.queued_again()) == sorted(expected), "no day is due"


@pytest.mark.long
def test_a_backfill_evaluates_a_range_of_days(nights: Nights, night: Ended) -> None:
    """Only the middle day has data."""
    first, second = nights.day.plus(-5), nights.day.plus(-4)
    nights.plant(second, seed=4)
    conf = {
        "dag_id": NIGHT,
        "from_date": f"{first}T00:00:00Z",
        "to_date": f"{nights.day.plus(-3)}T00:00:00Z",
        "reprocess_behavior": "completed",
        "max_active_runs": 1,
    }
    backfill = nights.api.call("POST", "backfills", **conf)["id"]
    until(lambda: nights.api.call("GET", f"backfills/{backfill}")["completed_at"], "the backfill ends", RUN_S, 0.5)
    runs = nights.api.call("GET", f"dags/{NIGHT}/dagRuns?run_type=backfill")["dag_runs"]
    wanted = [str(first.plus(number)) for number in range(3)]
    assert {each["partition_key"]: each["state"] for each in runs} == dict.fromkeys(wanted, "success")
    states = {each["partition_key"]: nights.api.task_states(NIGHT, each["dag_run_id"]) for each in runs}
    assert [states[day]["reevaluate"] for day in wanted] == ["skipped", "success", "skipped"]
    assert {nights.labels[each["transactionId"]] for each in nights.corrections(second)} >= {"huge-payment"}


@pytest.mark.long
def test_a_what_if_that_cannot_run_names_the_reason(nights: Nights) -> None:
    run_id = nights.api.trigger(WHAT_IF, rule="77", days=1)
    assert nights.api.await_run(WHAT_IF, run_id) == "failed"
    path = f"dags/{WHAT_IF}/dagRuns/{run_id}/taskInstances/whatif/logs/1?full_content=true"
    assert "RuleUnknown: there is no rule 77" in json.dumps(nights.api.call("GET", path))


def requested_run(world: Supervised) -> dict[str, Any]:
    """The run that the watcher in the triggerer has started for the request."""
    return until(lambda: world.api.runs(WARM_UP), "a request starts a run", RUN_S, 0.5)[0]


@pytest.mark.long
def test_the_detector_adds_the_result_of_a_run_for_a_warm_up(world: Supervised, requested: int) -> None:
    kafka, topics = world.site.broker.kafka, world.context.settings.topics
    run = requested_run(world)
    until(lambda: ended_in_a_hurry(world, run["dag_run_id"]), "the run ends", RUN_S, every_s=2)
    assert world.api.await_run(WARM_UP, run["dag_run_id"]) == "success"

    def is_warm() -> bool:
        report = read_operations(kafka, topics.rule_operations).get(requested)
        return report is not None and report.warm_up is not None and report.warm_up.state is WarmUpState.WARM

    until(is_warm, "the rule is warm", RUN_S, 0.5)


@pytest.mark.usefixtures("requested")
def test_a_rule_that_requests_a_warm_up_starts_a_run(world: Supervised) -> None:
    run = requested_run(world)
    assert run["run_type"] == "asset_triggered"
    # The job of the run would take the cores from the tests of the supervision.
    world.api.call("PATCH", f"dags/{WARM_UP}/dagRuns/{run['dag_run_id']}", state="success")
    kafka, topics = world.site.broker.kafka, world.context.settings.topics
    append_records(kafka, topics.rules, [(b"9001", b'{"ruleId":9001,"ruleState":"DELETE"}')])


def ended_in_a_hurry(world: Supervised, run_id: str) -> bool:
    """Give the processes of a run the usual share of the cores, and return whether it has ended. A warm-up yields the
    cores to other programs, so the other tests would starve it."""
    for process in world.site.airflow.processes():
        with suppress(OSError):  # it has ended, or the tests may not do this
            Path(f"/proc/{process.pid}/autogroup").write_text("0")
    return world.api.call("GET", f"dags/{WARM_UP}/dagRuns/{run_id}")["state"] in ("success", "failed")
