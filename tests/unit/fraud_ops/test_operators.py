"""Operators against a real Kafka, without Airflow's database: their intents and their deferrals."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred
from airflow.triggers.base import TriggerEvent

from fraud_ops.alarms import Alarm, decode_alarm
from fraud_ops.verdicts.actions import OperatorRequest
from fraud_ops.verdicts.observation import DetectorObservation
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import HealthSettings
from fraud_rules.deploy.attempt import AgentStatus, AttemptPhase, AttemptStatus
from fraud_rules.deploy.deployment_log import DeploymentLog, append_intent
from fraud_rules.deploy.intent import IntentKind, IntentRecord
from fraud_rules.deploy.intent_keys import IntentKeys
from fraud_rules.kafka.consume import await_settled, read_topic
from fraud_rules.stream.checkpoint.marker import Marker
from fraud_rules.stream.driver.state_guard import new_position
from fraud_rules.stream.pins import Pin
from fraud_rules_airflow.hooks.detector import FraudDetectorHook, supervisor_id
from fraud_rules_airflow.operators.batch import WhatIfOperator
from fraud_rules_airflow.operators.checkpoint import CHECKPOINT, CheckCheckpointOperator
from fraud_rules_airflow.operators.detector import DecisionOperator, DeployOperator
from fraud_rules_airflow.operators.drill import DRILL, RestoreDrillOperator
from fraud_rules_airflow.operators.mixed_releases import report_mixed_releases
from fraud_rules_airflow.operators.rules import SeedApplyOperator
from fraud_rules_airflow.operators.supervise import SuperviseOperator
from fraud_rules_airflow.operators.supervision import CheckSupervisionOperator
from fraud_rules_airflow.operators.topics import ApplyTopicsOperator
from fraud_rules_airflow.sensors.detector import RulesLiveSensor
from tests.support.deployments import KEY, run
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce
from tests.support.kafka.topic_files import name_topics
from tests.support.places import has_file_store
from tests.support.records.progress import progress_record

TOPIC_ROLES = (
    "alarms", "detector_attempts", "detector_intents", "detector_marker", "detector_progress", "detector_state",
    "rule_operations", "rules", "transactions",
)  # fmt: skip
DETECTOR = "detector"
PROGRESS = progress_record(12, {}, queryId="query")


class Events(list[Any]):
    """The events of an asset, by time. An operator reads the newest one."""

    def __init__(self, extras: Iterable[dict[str, Any]]) -> None:
        super().__init__(SimpleNamespace(extra=extra) for extra in extras)

    def ascending(self, ascending: bool) -> Events:
        assert not ascending
        return Events(each.extra for each in reversed(self))

    def limit(self, limit: int) -> list[Any]:
        return self[:limit]


@dataclass
class Run:
    """The parts of a context that an operator reads: XComs, and the user who triggered the run."""

    user: str | None = None
    run_id: str = "manual__1"
    pulled: dict[str, Any] = field(default_factory=dict)
    pushed: dict[str, Any] = field(default_factory=dict)
    drills: list[dict[str, Any]] = field(default_factory=list)
    events: dict[Any, Any] = field(default_factory=lambda: defaultdict(SimpleNamespace))

    @property
    def context(self) -> Any:
        return {
            "ti": self,
            "dag_run": self,
            "run_id": self.run_id,
            "inlet_events": {DRILL: Events(self.drills)},
            "outlet_events": self.events,
        }

    @property
    def triggering_user_name(self) -> str | None:
        return self.user

    log_url = "http://here/log"

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value

    def xcom_pull(self, task_ids: str, key: str = "", **_: Any) -> Any:
        return self.pulled.get(task_ids, self.pushed.get(key))


class Agent:
    """Writes the reports of an agent."""

    def __init__(self, topics: OwnTopics) -> None:
        self._kafka = topics.kafka
        self._log = DeploymentLog.open(topics.kafka, topics.names.detector_attempts, DETECTOR)

    def says(self, phase: AttemptPhase, of: IntentRecord, at_ms: int = 1, **members: Any) -> None:
        status = AttemptStatus(DETECTOR, of.intent.attempt_id, of.epoch, phase, at_ms, "a", "h", **members)
        self._log.write(AgentStatus(DETECTOR, "a", "h", "c", at_ms, of.epoch, status), [status])
        await_settled(self._kafka, [self._log.topic])


@pytest.fixture
def home(project: Project, topics: OwnTopics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation on the test's own topics, and the connections to it. Its triggers read and fire without a
    pause."""
    for pause in ("detector.SETTLE_S", "detector._PAUSE_AFTER_START_S", "rules.SETTLE_S"):
        monkeypatch.setattr(f"fraud_rules_airflow.triggers.{pause}", 0.0)
    shutil.copytree(project.config, tmp_path / "config")
    name_topics(tmp_path / "config", topics.names)
    (tmp_path / "config" / "detector.yaml").write_text("")
    monkeypatch.setenv("FRAUD_HOME", str(tmp_path))
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": topics.bootstrap}}
    spark = {"conn_type": "spark", "host": "local[2,4]"}
    monkeypatch.setenv("AIRFLOW_CONN_FRAUD_KAFKA", json.dumps(kafka))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark))
    monkeypatch.setenv("AIRFLOW_CONN_FRAUD_INTENT_KEY", json.dumps({"conn_type": "generic", "password": KEY}))
    return tmp_path


def newest() -> IntentRecord:
    record = FraudDetectorHook().observe().intents.newest
    assert record is not None
    return record


def deferred(operator: Any, run: Run | None = None) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as raised:
        operator.execute((run or Run()).context)
    return raised.value


def deploy(run: Run | None = None) -> IntentRecord:
    """Starts a deployment, and returns the newest intent."""
    deferred(DeployOperator(task_id="deploy"), run)
    return newest()


def deploy_and_die(agent: Agent, run: Run | None = None) -> IntentRecord:
    died = deploy(run)
    agent.says(AttemptPhase.FAILED, died, exit_code=-9, batches_committed=50)
    return died


def supervise(operator: SuperviseOperator, run: Run | None = None) -> tuple[TaskDeferred, dict[str, Any]]:
    """The deferral of a supervisor, and the event of its trigger."""
    waits = deferred(operator, run)
    return waits, first_event(waits)


def test_a_deployment_appends_one_intent(home: Path, topics: OwnTopics) -> None:
    waits = deferred(DeployOperator(task_id="deploy"))
    first = newest()
    assert first.intent.kind is IntentKind.RUN
    assert first.intent.requested_by == "start by manual__1"
    assert waits.trigger.serialize()[1]["epoch"] == first.epoch
    run = Run()
    assert DeployOperator(task_id="deploy").execute(run.context)["epoch"] == first.epoch
    assert newest() == first
    assert run.pushed["_link_Runbook"].endswith("/starting")


def test_a_change_is_deployed_and_a_refused_one_is_not_deployed_again(home: Path, topics: OwnTopics) -> None:
    agent = Agent(topics)
    agent.says(AttemptPhase.RUNNING, deploy())
    file = home / "config" / "detector.yaml"
    file.write_text(file.read_text() + "tick_ms: 5000\n")
    second = deploy()
    agent.says(AttemptPhase.REFUSED, second, error_name="ConfigError", message="x")
    assert DeployOperator(task_id="deploy").execute(Run().context)["epoch"] == second.epoch
    file.write_text(file.read_text().replace("5000", "6000"))
    assert deploy().epoch > second.epoch


def test_the_connection_sets_the_number_of_tasks(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark = {"conn_type": "spark", "host": "local[2,4]", "extra": {"tasks": 5}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark))
    assert FraudDetectorHook().declared_release().tasks == 5


def test_a_drained_detector_is_not_deployed(home: Path, topics: OwnTopics) -> None:
    agent = Agent(topics)
    running = deploy()
    deferred(DecisionOperator(task_id="drain", action="drain", reason="maintenance"), Run(user="ann"))
    drain = newest()
    assert (drain.intent.kind, drain.intent.requested_by) == (IntentKind.DRAIN, "drain by ann")
    agent.says(AttemptPhase.STOPPED, running)
    agent.says(AttemptPhase.STOPPED, drain)
    assert DeployOperator(task_id="deploy").execute(Run().context)["health"] == "STOPPED"
    assert newest() == drain


def test_airflow_signs_no_release_of_a_forged_intent(home: Path, topics: OwnTopics) -> None:
    """A restart runs the last release of the log, which a forger may have written; a start runs the declared one."""
    first = deploy()
    forged = run(first.epoch, "forged", first.intent.detector)
    append_intent(topics.kafka, topics.names.detector_intents, forged, IntentKeys("f" * 64, "the forger"))
    with pytest.raises(AirflowFailException, match="has a signature of an accepted key"):
        DecisionOperator(task_id="ops", action="restart", reason="x").execute(Run(user="ann").context)
    assert newest().intent == forged
    deferred(DecisionOperator(task_id="ops", action="start", reason="x"), Run(user="ann"))
    assert newest().intent.fingerprint == first.intent.fingerprint


@pytest.mark.parametrize("action", [OperatorRequest.START, OperatorRequest.RESTART, OperatorRequest.REBUILD])
def test_a_manual_request_is_saved_with_its_reason(home: Path, action: OperatorRequest) -> None:
    deploy()
    deferred(DecisionOperator(task_id="ops", action=action.value, reason="as ann said"), Run(user="ann"))
    intent = newest().intent
    assert (intent.reason, intent.requested_by) == ("as ann said", f"{action} by ann")
    assert intent.resume is (action is OperatorRequest.START)
    assert (intent.rebuild is not None) is (action is OperatorRequest.REBUILD)


def test_a_new_installation_has_no_rollback_target(home: Path) -> None:
    before = deploy()
    with pytest.raises(AirflowFailException, match="a rollback is not possible"):
        DecisionOperator(task_id="ops", action="roll back", reason="why not").execute(Run().context)
    assert newest() == before


def test_a_supervisor_restarts_a_dead_detector_once_and_raises_an_alarm(home: Path, topics: OwnTopics) -> None:
    agent = Agent(topics)
    died = deploy_and_die(agent)
    operator = supervising()
    waits, event = supervise(operator)
    again = newest()
    assert again.epoch == died.epoch + 1
    assert again.intent.requested_by == "supervisor"
    assert again.intent.fingerprint == died.intent.fingerprint
    assert (event["why"], event["verdict"]["health"], event["step"][:6]) == ("news", "DEAD", "start:")
    with pytest.raises(TaskDeferred) as later:
        operator.resume(Run().context, event, **waits.kwargs)
    assert later.value.kwargs["known"] == event["known"] == f"DEAD@{died.epoch}"


def test_a_run_ends_once_the_declaration_differs_from_the_one_it_deployed(
    home: Path, topics: OwnTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the declaration changes between two tasks of the run, or while the run raises an alarm."""
    monkeypatch.setattr("fraud_rules_airflow.triggers.detector._DECLARATION_INTERVAL_S", 0.0)
    agent, deploying = Agent(topics), Run()
    deploy_and_die(agent, deploying)
    (home / "config" / "detector.yaml").write_text("tick_ms: 5000\n")
    operator = supervising()
    waits, news = supervise(operator, Run(pulled={"deploy": deploying.pushed["declared"]}))
    assert news["why"] == "news"
    with pytest.raises(TaskDeferred) as later:
        operator.resume(Run().context, news, **waits.kwargs)
    agent.says(AttemptPhase.RUNNING, newest())
    event = first_event(later.value)
    assert event["why"] == "declared"
    operator.resume(Run().context, event, **later.value.kwargs)


def test_a_triggerer_with_another_release_ends_one_run_and_then_raises_an_alarm(
    home: Path, topics: OwnTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that ends for a changed declaration is followed by its deployment. Here, the worker declares the same."""
    monkeypatch.setattr("fraud_rules_airflow.triggers.detector._DECLARATION_INTERVAL_S", 0.0)
    deploying = Run()
    Agent(topics).says(AttemptPhase.STARTING, deploy(deploying))
    declared = deploying.pushed["declared"]
    (home / "config" / "detector.yaml").write_text("tick_ms: 5000\n")
    first = Run(pulled={"deploy": declared})
    operator = supervising()
    waits, event = supervise(operator, first)
    assert event["why"] == "declared"
    operator.resume(first.context, event, **waits.kwargs)

    second = Run(pulled={"deploy": declared}, pushed=first.pushed)
    waits, event = supervise(operator, second)
    assert event["why"] == "different"
    with pytest.raises(TaskDeferred) as later:
        operator.resume(second.context, event, **waits.kwargs)
    (raised,) = raised_alarms(topics)
    assert raised.name == "MIXED_RELEASES"
    assert declared in raised.said and event["own"] in raised.said

    (home / "config" / "detector.yaml").write_text("tick_ms: 6000\n")
    event = first_event(later.value)
    assert event["why"] == "declared", "a change on the triggerer's own host still ends the run"


def test_the_alarm_for_mixed_releases_outlives_runs_that_find_none(home: Path, topics: OwnTopics) -> None:
    """The hosts take turns. The alarm ends three hours after the last run that found a difference."""
    run = Run()
    for found in ("the worker is behind", None):
        report_mixed_releases(run.context, "deploy", "fraud_kafka", DETECTOR, found)
    assert [each.resolved for each in raised_alarms(topics)] == [False]
    run.pushed["mixed_releases_ms"] -= 3 * 3_600_000
    report_mixed_releases(run.context, "deploy", "fraud_kafka", DETECTOR, None)
    assert [each.resolved for each in raised_alarms(topics)] == [False, True]


def test_a_second_airflow_only_raises_an_alarm(home: Path, topics: OwnTopics, monkeypatch: pytest.MonkeyPatch) -> None:
    first = supervisor_id()
    died = deploy_and_die(Agent(topics))
    hook = FraudDetectorHook()
    hook.record_supervision(hook.observe(), "DEAD", "")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://another")
    _, event = supervise(supervising())
    assert (event["why"], event["verdict"]["health"], event["step"][:8]) == ("news", "DUPLICATE", "nothing:")
    assert first in event["verdict"]["reasons"][0]
    seen = hook.observe()
    assert seen.intents.newest == died
    assert seen.deployment.supervision is not None
    assert seen.deployment.supervision[1].supervisor == first


def raised_alarms(topics: OwnTopics) -> list[Alarm]:
    await_settled(topics.kafka, [topics.names.alarms])
    (records,) = read_topic(topics.kafka, topics.names.alarms).values()
    return [decode_alarm(record.value or b"").alarm for record in records]


def supervising() -> SuperviseOperator:
    return SuperviseOperator(task_id="supervise", deploy_task_id="deploy", look_s=0.1)


def first_event(waits: TaskDeferred) -> dict[str, Any]:
    async def first() -> TriggerEvent:
        return await anext(waits.trigger.run())

    return asyncio.run(first()).payload


def test_without_a_broker_the_checkpoint_is_unknown(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unseen = DetectorObservation.failed(DETECTOR, 1, "no Kafka answers at kafka:9092")
    monkeypatch.setattr(FraudDetectorHook, "observe", lambda self: unseen)
    with pytest.raises(AirflowFailException, match="BROKER_DOWN: broker: no Kafka answers at kafka:9092"):
        CheckCheckpointOperator(task_id="check").execute(Run().context)


def test_the_check_reads_the_checkpoint_of_the_detector(home: Path, topics: OwnTopics) -> None:
    """Before the first intent there is nothing to check; before the first batch there is no fault."""
    run = Run()
    assert CheckCheckpointOperator(task_id="check").execute(run.context) == {}
    deploy()
    assert CheckCheckpointOperator(task_id="check").execute(run.context) == {"grade": "OK"}
    assert ("size_bytes" in run.pushed) == has_file_store()
    produce(topics.bootstrap, topics.names.detector_marker, [b"{}"], key=DETECTOR.encode())
    await_settled(topics.kafka, [topics.names.detector_marker])
    with pytest.raises(AirflowFailException, match=r"CHECKPOINT_FOREIGN: marker: .* not readable by this version"):
        CheckCheckpointOperator(task_id="check").execute(run.context)
    (raised,) = raised_alarms(topics)
    assert (raised.name, raised.part) == ("CHECKPOINT_FOREIGN", "checkpoint")


def test_the_restore_drill_skips_a_new_detector(home: Path) -> None:
    with pytest.raises(AirflowSkipException, match="fewer than 10 batches"):
        RestoreDrillOperator(task_id="drill").execute(Run().context)


def test_the_restore_drill_reports_what_the_check_of_the_checkpoint_shows(home: Path, topics: OwnTopics) -> None:
    deploy()
    settings = FraudDetectorHook().settings
    marker = Marker("query", 12, {}, Pin(12, 0), state=new_position(topics.kafka, settings))
    for topic, record in (
        (topics.names.detector_progress, PROGRESS),
        (topics.names.detector_marker, marker.encode()),
    ):
        produce(topics.bootstrap, topic, [record], key=DETECTOR.encode())
    await_settled(topics.kafka, [topics.names.detector_progress, topics.names.detector_marker])
    run = Run()
    report = RestoreDrillOperator(task_id="drill").execute(run.context)
    assert (report["batchId"], report["keyGroups"], report["chunks"], report["faults"]) == (12, 2, 0, [])

    checked = Run(drills=[{"batchId": 1}, report])
    CheckCheckpointOperator(task_id="check").execute(checked.context)
    event = checked.events[CHECKPOINT].extra
    assert event["restore drill"]["grade"] == "OK"
    assert f"digest {report['digest'][:16]}" in event["restore drill"]["found"]


def test_a_drill_that_cannot_restore_the_state_fails_by_name(home: Path, topics: OwnTopics) -> None:
    produce(topics.bootstrap, topics.names.detector_progress, [PROGRESS], key=DETECTOR.encode())
    await_settled(topics.kafka, [topics.names.detector_progress])
    with pytest.raises(AirflowFailException, match=r"StateDamaged: .* has written no state yet"):
        RestoreDrillOperator(task_id="drill").execute(Run().context)


def test_a_missing_supervisor_is_reported_at_each_run_and_its_end_once(home: Path, topics: OwnTopics) -> None:
    check = CheckSupervisionOperator(task_id="check", limits=HealthSettings(unsupervised_ms=0))
    assert "no start has been requested" in check.execute(Run().context)
    deploy()
    run = Run()
    for _ in range(3):
        with pytest.raises(AirflowFailException, match="UNSUPERVISED: no supervisor has checked the detector"):
            check.execute(run.context)
    hook = FraudDetectorHook()
    hook.record_supervision(hook.observe(), "HEALTHY", "")
    for _ in range(2):
        assert CheckSupervisionOperator(task_id="check").execute(run.context)
    assert [(each.name, each.resolved) for each in raised_alarms(topics)] == 3 * [("UNSUPERVISED", False)] + [
        ("UNSUPERVISED", True)
    ]


def test_the_supervisor_of_the_next_run_ends_the_alarm_of_the_last_one(home: Path, topics: OwnTopics) -> None:
    agent, run = Agent(topics), Run()
    deploy_and_die(agent)
    operator = supervising()
    waits, event = supervise(operator, run)
    with pytest.raises(TaskDeferred):
        operator.resume(run.context, event, **waits.kwargs)
    hook = FraudDetectorHook()
    hook.request_drain(hook.observe(), "maintenance", "ann")
    agent.says(AttemptPhase.STOPPED, newest())
    deferred(supervising(), run)
    assert [(each.name, each.resolved) for each in raised_alarms(topics)] == [("DEAD", False), ("DEAD", True)]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SPARK_DEFAULT", None, "connection spark_default is missing"),
        ("FRAUD_KAFKA", None, "connection fraud_kafka is missing"),
        ("FRAUD_KAFKA", {"conn_type": "kafka", "extra": {}}, "has no bootstrap.servers"),
        ("SPARK_DEFAULT", {"conn_type": "spark"}, "has no master"),
        ("FRAUD_INTENT_KEY", None, "fraud_intent_key is missing"),
        ("FRAUD_INTENT_KEY", {"conn_type": "generic", "password": "short"}, "one or two keys"),
        ("SPARK_DEFAULT", {"conn_type": "spark", "host": "a", "extra": {"checkpoint": "/x"}}, "checkpoint does not"),
        ("SPARK_DEFAULT", {"conn_type": "spark", "host": "yarn", "extra": {"taks": 5}}, "unknown options taks"),
    ],
)
def test_a_connection_that_is_missing_or_wrong_is_named(
    name: str, value: dict[str, Any] | None, said: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(f"AIRFLOW_CONN_{name}")
    if value is not None:
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(value))
    with pytest.raises(AirflowFailException, match=said):
        DeployOperator(task_id="deploy").execute(Run().context)


def test_rules_are_seeded_once(home: Path, topics: OwnTopics) -> None:
    seeds = [*(home / "config" / "rules").iterdir(), *(home / "config" / "lists").iterdir()]
    written = [SeedApplyOperator(task_id="apply").execute(Run().context) for _ in range(2)]
    assert written == [list(range(len(seeds))), []]


def test_seeds_are_live_beside_an_unreadable_report(home: Path, topics: OwnTopics) -> None:
    live = {"ruleVersion": 7, "status": "LIVE", "batchId": 1, "time": 1}
    produce(topics.bootstrap, topics.names.rule_operations, [b"{}", b"\xff", json.dumps(live).encode()])
    with pytest.raises(TaskDeferred) as waits:
        RulesLiveSensor(task_id="live", versions=[7]).execute(Run().context)
    assert first_event(waits.value) == {"live": [7], "refused": {}}


def test_topics_are_checked_and_a_loss_is_refused(home: Path, topics: OwnTopics) -> None:
    file = home / "config" / "topics.yaml"
    declared = yaml.safe_load(file.read_text())
    known = len(TOPIC_ROLES)
    applied = [ApplyTopicsOperator(task_id="apply").execute(Run().context) for _ in range(2)]
    count = len(declared["topics"])
    assert applied == [{"created": count - known, "unchanged": known}, {"unchanged": count}]
    declared["topics"]["transactions"]["partitions"] = 1
    file.write_text(yaml.safe_dump(declared))
    with pytest.raises(AirflowFailException, match="partitions are never removed"):
        ApplyTopicsOperator(task_id="apply").execute(Run().context)


@pytest.mark.parametrize("rule", ["secret.txt", "/proc/self/environ", "", "7.yaml", "[1]", "\u0667"])
def test_a_backtest_reads_no_file_of_the_host(rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret.txt").write_text("s3cr3t-jwt-key")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AirflowFailException, match="must be the JSON of a rule or the id of a rule") as refused:
        WhatIfOperator(task_id="whatif", rule=rule, days="7").execute(Run().context)
    assert "s3cr3t" not in str(refused.value)
