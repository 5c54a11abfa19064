"""A fresh installation under a real Airflow, before any other test uses it."""

from __future__ import annotations

import json
from contextlib import suppress

import psutil
import pytest

from fraud_rules.kafka.record_writer import append_records
from fraud_rules.logs.rule_status import WarmUpState, read_operations
from tests.installation.dags import DETECTOR, QUICK, WARM_UP
from tests.support.processes.supervised import Supervised
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

WARMED = {
    "ruleId": 9001,
    "ruleState": "SHADOW",
    "groupingKeyNames": ["payeeId", "paymentType"],
    "aggregatorFunctionType": "COUNT",
    "limitOperatorType": ">",
    "limit": 1_000_000,
    "windowMinutes": 10,
    "warmUp": True,
}


def test_the_dags_start_the_detector_and_seed_its_rules(world: Supervised) -> None:
    intent = world.look().newest_intent
    assert intent is not None
    assert intent.intent.requested_by.startswith("start by scheduled__")
    for dag_id in ("fraud_topics", "fraud_seed_rules"):
        assert world.api.await_run(dag_id, world.api.newest_run(dag_id)["dag_run_id"]) == "success"
    run_id = world.api.newest_run(DETECTOR)["dag_run_id"]
    until(lambda: world.api.task_states(DETECTOR, run_id)["supervise"] == "deferred", "supervision is deferred")


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


def test_a_rule_that_requests_a_warm_up_starts_a_run(world: Supervised) -> None:
    """The watcher in the triggerer sees the request, and the detector adds the result of the run."""
    kafka, topics = world.site.broker.kafka, world.context.settings.topics
    world.await_batches(2)
    (version,) = append_records(kafka, topics.rules, [(b"9001", json.dumps(WARMED).encode())])
    run = until(lambda: world.api.runs(WARM_UP), "a request starts a run", every_s=0.5)[0]
    assert run["run_type"] == "asset_triggered"
    assert world.api.await_run(WARM_UP, run["dag_run_id"]) == "success"

    def is_warm() -> bool:
        report = read_operations(kafka, topics.rule_operations).get(version)
        return report is not None and report.warm_up is not None and report.warm_up.state is WarmUpState.WARM

    until(is_warm, "the rule is warm", every_s=0.5)
    append_records(kafka, topics.rules, [(b"9001", b'{"ruleId":9001,"ruleState":"DELETE"}')])
