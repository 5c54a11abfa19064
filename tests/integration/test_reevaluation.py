"""Generated streams through a real broker, the running detector, the archive, and the nightly DAG in a real Airflow.

For every stream, live alerts - RETRACTED + ADDED equals the oracle's alerts of the completed days. An ordered day needs
no correction, and a second run publishes nothing new.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from fraud_rules.batch.archive.manifest import Table
from fraud_rules.batch.reevaluation.daystore import DayStore
from fraud_rules.batch.reevaluation.report import DayResult, decode_result
from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.consume import await_settled
from fraud_rules.logs.recorder import record_run
from fraud_rules.model.day import DAY_MS, Day
from tests.support.conformance import SCHEMAS, load_schema
from tests.support.kafka.records import read_all
from tests.support.kafka.timed_topics import Logs, timed_topics
from tests.support.nightly.airflow import NIGHT, nightly_airflow
from tests.support.nightly.archived import over_midnight
from tests.support.nightly.jobs import JobsInTurn, archive_of, run_job
from tests.support.oracle.day import completed, identity
from tests.support.processes.running_detector import Installation, RunningDetector
from tests.support.records.output_schemas import validate_outputs
from tests.support.rules import count_rule
from tests.support.streams.generated import documents, in_order
from tests.support.streams.runs import drawn
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(3_600)]

SEEDS = (3_000_001, 3_000_004, 3_000_007, 3_000_011, 3_000_015)
FIRST = Day.parse("2026-10-01")
CHUNKS = 3
IN_ORDER = len(SEEDS) - 1
"""The stream whose transactions are sorted by event time."""

_FORGET = {"ruleState": "CONTROL", "controlType": "DELETE_RULES_ALL"}
_RESTRICTING = count_rule(
    3, aggregateFieldName="points", limitOperatorType="=", limit=1, windowSeconds=60, action="RESTRICT"
)


def stream(position: int) -> list[dict[str, Any]]:
    """The steps of a stream around the midnight after day 4 * position. A deletion of all its rules ends it."""
    document = drawn(SEEDS[position], documents())
    if position == IN_ORDER:
        document = in_order(document)
    document = over_midnight(document)
    middle = max(step["tx"]["eventTime"] for step in document["steps"] if "tx" in step)
    shift = (FIRST.number + 4 * position + 1 - Day.of(middle).number) * DAY_MS
    text = json.dumps(document["steps"]).replace("CLEAR_STATE_ALL_STOP", "CLEAR_STATE_ALL")
    steps = [_moved(step, shift) for step in json.loads(text)]
    steps.insert(0, {"at": min(step["at"] for step in steps), "rule": _RESTRICTING})
    return [*steps, {"at": max(step["at"] for step in steps) + 1, "rule": _FORGET}]


def _moved(step: Mapping[str, Any], shift_ms: int) -> dict[str, Any]:
    moved = {**step, "at": step["at"] + shift_ms}
    if "tx" in step:
        moved["tx"] = {**step["tx"], "eventTime": step["tx"]["eventTime"] + shift_ms}
    return moved


def evaluate_streams(installation: Installation) -> None:
    """Evaluate all streams with a detector, a few records at a time."""
    logs = Logs(installation.topics)
    detector = RunningDetector(installation)

    def evaluated() -> bool:
        assert detector.exit_code is None, detector.said()[-2000:]
        return installation.has_read(logs.ends, logs.rules_end)

    try:
        detector.wait_ready()
        for position in range(len(SEEDS)):
            steps = stream(position)
            size = -(-len(steps) // CHUNKS)
            for start in range(0, len(steps), size):
                for step in steps[start : start + size]:
                    if "rule" in step:
                        logs.append_rule(json.dumps(step["rule"]).encode(), step["at"])
                    else:
                        logs.append(json.dumps(step["tx"]).encode(), step["at"], step.get("partition", 0))
                logs.flush()
                until(evaluated, f"a part of stream {position}")
        assert detector.stop() == 0
    finally:
        detector.kill()


@pytest.fixture(scope="module")
def installation(
    broker: Broker, project: Project, jobs: JobsInTurn, tmp_path_factory: pytest.TempPathFactory
) -> Installation:
    """An installation whose detector has evaluated all streams, with an archive."""
    made = Installation.make(
        tmp_path_factory.mktemp("nightly"),
        project,
        timed_topics(broker, project),
        SCHEMAS["nullable"],
        key_groups=3,
        max_out_of_orderness_ms=1000,
        tick_ms=500,
    )
    evaluate_streams(made)
    jobs.archive(made)
    return made


@pytest.fixture(scope="module")
def results(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> dict[Day, DayResult]:
    """The results of the DAG for every archived day, the last day first."""
    archive = archive_of(installation)
    days = archive.latest().days(Table.TRANSACTIONS)
    with nightly_airflow(installation, tmp_path_factory.mktemp("airflow")) as api:
        until(lambda: api.runs(NIGHT), "the DAG is known")
        for day in reversed(days):
            run_id = api.trigger(NIGHT, partition=str(day))
            assert api.await_run(NIGHT, run_id) == "success", (day, api.task_states(NIGHT, run_id))
        assert api.call("GET", f"dags/{NIGHT}/dagRuns?run_id_pattern=again-")["dag_runs"] == []
    found = {day: DayStore(archive).result(day) for day in days}
    return {day: result for day, result in found.items() if result is not None}


def _records(installation: Installation, topic: str) -> list[dict[str, Any]]:
    await_settled(installation.topics.kafka, [topic])
    return [json.loads(message.value() or b"") for message in read_all(installation.topics.bootstrap, topic)]


def _identity(alert: Mapping[str, Any]) -> tuple[Any, ...]:
    return identity({**alert, "transactionId": alert["triggeringEvent"]["transactionId"]})


def in_effect(installation: Installation) -> dict[str, tuple[Any, ...]]:
    """Live alerts - RETRACTED + ADDED."""
    names = installation.topics.names
    effect = {alert["alertId"]: _identity(alert) for alert in _records(installation, names.alerts)}
    for correction in _records(installation, names.alert_corrections):
        if correction["kind"] == "RETRACTED":
            del effect[correction["alertId"]]
        else:
            assert correction["alertId"] not in effect
            effect[correction["alertId"]] = _identity(correction["alert"])
    return effect


def oracle(installation: Installation) -> set[tuple[Any, ...]]:
    schema = load_schema("nullable")
    recording = record_run(installation.topics.kafka, installation.settings, schema)
    alerts = completed(json.loads(b"".join(recording.lines())), schema)
    return {identity(alert) for alert in alerts if not alert["shadow"]}


def test_corrected_live_alerts_equal_the_oracle(installation: Installation, results: dict[Day, DayResult]) -> None:
    assert set(in_effect(installation).values()) == oracle(installation)
    assert sum(result.added + result.retracted for result in results.values()) > 0, "the streams need no correction"
    assert sum(result.new_corrections for result in results.values()) == len(
        _records(installation, installation.topics.names.alert_corrections)
    )


def test_days_in_order_need_no_correction(results: dict[Day, DayResult]) -> None:
    clean = [result for day, result in results.items() if day.number >= FIRST.number + 4 * IN_ORDER]
    assert clean and all(result.is_clean for result in clean)
    assert sum(result.confirmed for result in clean) > 0


def test_running_a_day_again_publishes_nothing(installation: Installation, results: dict[Day, DayResult]) -> None:
    """The test runs the script as a scheduler does."""
    topic = installation.topics.names.alert_corrections
    before = len(_records(installation, topic))
    day = next(day for day, result in results.items() if not result.is_clean)
    code, out, err = run_job("reevaluate", installation, f"--day={day}")
    assert code == 0, err[-2000:]
    again = decode_result(out)
    assert (again.added, again.retracted, again.new_corrections) == (results[day].added, results[day].retracted, 0)
    assert len(_records(installation, topic)) == before


def test_a_retraction_lifts_its_restriction(installation: Installation, results: dict[Day, DayResult]) -> None:
    records = _records(installation, installation.topics.names.restrictions)
    held: dict[str, int] = {}
    for record in records:
        held[record["alertId"]] = held.get(record["alertId"], 0) + (-1 if "lifted" in record else 1)
    effect = in_effect(installation)
    assert any("lifted" in record for record in records)
    assert {alert_id for alert_id, count in held.items() if count} <= effect.keys()
    assert set(held.values()) <= {0, 1}


def test_every_record_fits_the_schema_of_its_topic(installation: Installation, results: dict[Day, DayResult]) -> None:
    assert validate_outputs(installation.topics) >= {"alerts", "alert_corrections", "restrictions"}


def test_the_page_of_a_day_loads_no_other_file(installation: Installation, results: dict[Day, DayResult]) -> None:
    day = next(day for day, result in results.items() if not result.is_clean)
    page = (archive_of(installation).root / "reevaluation" / f"day={day}" / "report.html").read_text()
    assert "<svg" in page and "http://www.w3.org" in page and "<script" not in page and "<link" not in page
    for correction in results[day].corrections:
        assert correction.alert_id in page


def test_an_empty_day_and_a_future_day_are_named(
    installation: Installation, results: dict[Day, DayResult], jobs: JobsInTurn
) -> None:
    assert results
    for day, code in ((FIRST.plus(-5), 26), (Day.today().plus(2), 25)):
        ended, _, err = jobs.run("reevaluate", installation, f"--day={day}")
        assert ended == code, err[-500:]
