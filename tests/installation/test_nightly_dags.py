"""The nights under a real Airflow, as a person meets them: frauds of yesterday that came too late to alert are ADDED by
its run, once; a run for today only reports; a backtest answers; and what later data makes due is queued by itself.

One installation for all, with traffic throughout. A run is a Spark job of half a minute beside a detector at work, so
what is not the heart of it is left out of the default run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from fraud_demo.fraud_patterns import FRAUDS
from fraud_demo.late_frauds import late_frauds
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.reevaluation.daystore import DayStore
from fraud_rules.batch.reevaluation.report import DayResult
from fraud_rules.configuration.project import Project
from fraud_rules.kafka.consume import await_settled, read_topic
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.model.day import Day
from fraud_rules.runtime.clock import now_ms
from tests.support.processes.supervised import Supervised, supervised
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

ARCHIVE = "fraud_archive"
NIGHT = "fraud_nightly_reevaluation"
BACKTEST = "fraud_backtest"


@dataclass(frozen=True)
class Ended:
    """A run of the nightly DAG for one day, and what it left behind."""

    run_id: str
    result: DayResult
    summary: Mapping[str, Any]


class Nights:
    """A supervised installation whose nights are made to come. `day` is the last one that is over and settled."""

    def __init__(self, world: Supervised) -> None:
        self.world = world
        self.api = world.api
        self.days = DayStore(ArchiveStore(world.site.places.archive))
        self.day = Day.of(now_ms() - world.context.settings.max_out_of_orderness_ms).plus(-1)
        self.labels: dict[int, str] = {}

    def plant(self, day: Day, seed: int = 1) -> None:
        """Late frauds, judged and archived; by transaction, what they are goes to `labels`."""
        planted = list(late_frauds(day, seed))
        self.labels |= {json.loads(text)["transactionId"]: label for label, text in planted}
        topics, kafka = self.world.context.settings.topics, self.world.site.broker.kafka
        append_records(kafka, topics.transactions, [(b"late", text) for _, text in planted])
        self.world.await_judged()
        self.succeed(ARCHIVE, self.api.trigger(ARCHIVE))

    def evaluate(self, day: Day, *, by_parameter: bool = False) -> Ended:
        """A run by hand, as by the form: by partition, or by its parameter."""
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
        """When a day was evaluated last."""
        result = self.days.result(day)
        assert result is not None
        return result.evaluated_ms

    def queued_again(self) -> list[str]:
        """The runs that later data have asked for."""
        found = self.api.call("GET", f"dags/{NIGHT}/dagRuns?run_id_pattern=again-")["dag_runs"]
        return [each["dag_run_id"] for each in found]

    def corrections(self, day: Day) -> list[dict[str, Any]]:
        """What is published of a day."""
        topic = self.world.context.settings.topics.alert_corrections
        await_settled(self.world.site.broker.kafka, [topic])
        (records,) = read_topic(self.world.site.broker.kafka, topic).values()
        found = [json.loads(record.value or b"") for record in records]
        return [each for each in found if each["day"] == str(day)]


@pytest.fixture(scope="module")
def nights(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nights]:
    with supervised(project, tmp_path_factory.mktemp("nights")) as world:
        nights = Nights(world)
        # A new installation looks at yesterday by itself, once its archive is there: that would be before us, or after.
        first = until(lambda: nights.api.runs(NIGHT), "the first night")[0]["dag_run_id"]
        nights.api.call("PATCH", f"dags/{NIGHT}/dagRuns/{first}", state="success")
        world.await_batches(3)  # of traffic of today: each key group knows that yesterday is over
        nights.plant(nights.day)
        yield nights


@pytest.fixture(scope="module")
def night(nights: Nights) -> Ended:
    """The run for yesterday."""
    return nights.evaluate(nights.day)


def test_late_frauds_of_yesterday_are_added(nights: Nights, night: Ended) -> None:
    corrections, result = nights.corrections(nights.day), night.result
    added = [each for each in result.corrections if each.verdict == "ADDED"]
    assert {nights.labels[int(each.transaction_id)] for each in added} == set(FRAUDS)
    assert {each["kind"] for each in corrections} == {"ADDED"}
    live = {each.alert_id for each in added if not each.shadow}
    assert {each["alertId"] for each in corrections} == live
    assert len(corrections) == result.added == result.new_corrections == night.summary["newCorrections"]
    assert (night.summary["day"], night.summary["withheld"]) == (str(nights.day), None)


def test_the_button_leads_to_a_page_and_its_numbers(nights: Nights, night: Ended) -> None:
    page = nights.api.behind(NIGHT, night.run_id, "reevaluate", "Report")
    assert page.headers["content-type"].startswith("text/html")
    assert f"Re-evaluation of {nights.day}" in page.text
    for correction in night.result.corrections:
        assert correction.alert_id in page.text
    numbers = nights.api.fetch(str(page.url.join("result.json"))).json()
    assert (numbers["day"], numbers["added"]) == (str(nights.day), night.result.added)


def test_a_day_that_is_not_over_is_only_reported(nights: Nights, night: Ended) -> None:
    today = Day.today()
    ended = nights.evaluate(today, by_parameter=True)
    assert ended.result.withheld == "provisional, the day still receives data"
    assert ended.result.transactions > 0
    assert ended.result.added + ended.result.retracted + ended.result.confirmed > 0
    assert nights.corrections(today) == []
    page = nights.api.behind(NIGHT, ended.run_id, "reevaluate", "Report")
    assert "Nothing was published: provisional" in page.text


def test_a_backtest_answers_with_a_report(nights: Nights) -> None:
    asked = {"rule": "1", "days": 1, "until": str(nights.day), "limits": "1000, 20000, 60000"}
    run_id = nights.api.trigger(BACKTEST, **asked)
    nights.succeed(BACKTEST, run_id)
    summary = nights.api.xcom(BACKTEST, run_id, "whatif")
    assert summary["days"] == [str(nights.day)]
    assert summary["fires"] > 0
    page = nights.api.behind(BACKTEST, run_id, "whatif", "Report")
    assert "What if: rule 1" in page.text
    numbers = nights.api.fetch(str(page.url.join("result.json"))).json()
    assert [limit for limit, _ in numbers["limits"]] == [1000, 20000, 60000]
    assert dict(numbers["limits"])[20000] == summary["fires"]


@pytest.mark.long
def test_running_a_day_again_publishes_nothing_new(nights: Nights, night: Ended) -> None:
    before = nights.corrections(nights.day)
    again = nights.evaluate(nights.day, by_parameter=True)
    assert (again.result.added, again.result.new_corrections) == (night.result.added, 0)
    assert nights.corrections(nights.day) == before


@pytest.mark.long
def test_later_data_queue_their_day_again_by_themselves(nights: Nights, night: Ended) -> None:
    """A day that was published, and one that was empty. Whichever run comes next finds them due: one for today here."""
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
    assert sorted(nights.queued_again()) == sorted(expected), "nothing is due any more"


@pytest.mark.long
def test_a_backfill_takes_a_range_of_days(nights: Nights, night: Ended) -> None:
    """Only the one in the middle has data."""
    first, second = nights.day.plus(-5), nights.day.plus(-4)
    nights.plant(second, seed=4)
    asked = {
        "dag_id": NIGHT,
        "from_date": f"{first}T00:00:00Z",
        "to_date": f"{nights.day.plus(-3)}T00:00:00Z",
        "reprocess_behavior": "completed",
        "max_active_runs": 1,
    }
    backfill = nights.api.call("POST", "backfills", **asked)["id"]
    until(lambda: nights.api.call("GET", f"backfills/{backfill}")["completed_at"], "the backfill ends", 400, 0.5)
    runs = nights.api.call("GET", f"dags/{NIGHT}/dagRuns?run_type=backfill")["dag_runs"]
    wanted = [str(first.plus(number)) for number in range(3)]
    assert {each["partition_key"]: each["state"] for each in runs} == dict.fromkeys(wanted, "success")
    states = {each["partition_key"]: nights.api.task_states(NIGHT, each["dag_run_id"]) for each in runs}
    assert [states[day]["reevaluate"] for day in wanted] == ["skipped", "success", "skipped"]
    assert {nights.labels[each["transactionId"]] for each in nights.corrections(second)} >= {"huge-payment"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"rule": "77", "days": 1}, "RuleUnknown: there is no rule 77"),
        ({"rule": '{"ruleId": 1}', "days": 1}, "RuleRejected"),
        ({"rule": "1", "days": 1, "until": "2026-01-05"}, "DayEmpty"),
        ({"rule": "1", "days": 1, "limits": "12, much"}, "InputInvalid"),
    ],
)
def test_a_backtest_that_cannot_be_answered_says_why(nights: Nights, asked: dict[str, Any], said: str) -> None:
    run_id = nights.api.trigger(BACKTEST, **asked)
    assert nights.api.await_run(BACKTEST, run_id) == "failed"
    assert said in log_of(nights, BACKTEST, run_id, "whatif")


def log_of(nights: Nights, dag_id: str, run_id: str, task_id: str) -> str:
    path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/1?full_content=true"
    return json.dumps(nights.api.call("GET", path))
