"""Measures supervision by a real Airflow: the time to replace a detector, the cost of a new configuration, and the
CPU time of supervision."""

from __future__ import annotations

import itertools
import shutil
import signal
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bench.figures import Figure, Rows, Scale, at_most
from bench.inputs.rulesets import Document, encoded, rule
from bench.lab import Lab
from fraud_rules.configuration.project import Project
from fraud_rules.kafka.consume import read_topic
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.logs.rule_status import await_operations
from fraud_rules.runtime.clock import now_ms
from tests.support.processes.supervised import Supervised, supervised

_FIRES: Document = rule(9_001, ("payeeId", "beneficiaryId"), "SUM", -1)
_PATIENCE_S = 120.0
_SETTLED_BATCHES = 10


def _measure(_: Lab | None, scale: Scale) -> Mapping[str, float]:
    with _world() as world:
        died, hung = world.lose_driver(signal.SIGKILL), world.lose_driver(signal.SIGSTOP)
        return {
            "healthy_s": world.healthy_s,
            "died_seen_s": died.seen_s,
            "died_s": died.healthy_s,
            "hung_seen_s": hung.seen_s,
            "hung_s": hung.healthy_s,
            "redeployed_s": _redeployed(world),
        }


def _redeployed(world: Supervised) -> float:
    """Return the longest time without an alert while a new release replaces the running detector, in seconds."""
    topics, kafka = world.context.settings.topics, world.site.broker.kafka
    versions = append_records(kafka, topics.rules, encoded((_FIRES,)))
    await_operations(kafka, topics.rule_operations, set(versions), _PATIENCE_S)
    world.await_batches(_SETTLED_BATCHES)
    began_ms = now_ms()
    world.redeploy()
    world.await_batches(_SETTLED_BATCHES)
    records = read_topic(kafka, topics.alerts).values()
    times_ms = sorted(record.append_ms for part in records for record in part if record.append_ms >= began_ms)
    return max(later - earlier for earlier, later in itertools.pairwise(times_ms)) / 1_000


def _measure_cost(_: Lab | None, scale: Scale) -> Mapping[str, float]:
    """Measure Airflow with all DAGs active, then with all paused; the detector runs throughout."""
    with _world() as world:
        active = _cpu_percent(world, scale.soak_minutes * 60)
        for dag in world.api.call("GET", "dags?limit=100")["dags"]:
            world.api.call("PATCH", f"dags/{dag['dag_id']}", is_paused=True)
        run_id = world.api.newest_run("fraud_detector")["dag_run_id"]
        world.api.call("PATCH", f"dags/fraud_detector/dagRuns/{run_id}", state="failed")
        world.api.await_run("fraud_detector", run_id)
        idle = _cpu_percent(world, scale.soak_minutes * 20)
        return {"at_work": active, "idle": idle, "cost": active - idle}


def _cpu_percent(world: Supervised, seconds: float) -> float:
    """Return the share of a core that Airflow and the agent use, including ended children."""
    began_s, before_s = time.monotonic(), _cpu_s(world)
    while (left_s := began_s + seconds - time.monotonic()) > 0:
        time.sleep(min(left_s, 10.0))
        world.site.check()
    return 100 * (_cpu_s(world) - before_s) / (time.monotonic() - began_s)


def _cpu_s(world: Supervised) -> float:
    return sum(sum(process.cpu_times()[:4]) for process in world.supervisors())


@contextmanager
def _world() -> Iterator[Supervised]:
    """Run one installation with traffic. Its logs stay."""
    project = Project.find()
    home = project.var / "bench" / f"supervised-{uuid.uuid4().hex[:8]}"
    home.mkdir(parents=True)
    try:
        with supervised(project, home) as world:
            yield world
    finally:
        shutil.rmtree(home / "var" / "demo", ignore_errors=True)


_WORLD = "Broker, agent, Airflow's four components on SQLite and the detector on one machine, 50 tx/s; "

ROWS = (
    Rows(
        "supervision",
        "Supervision by Airflow",
        f"{_WORLD}only the DAGs start processes. One driver is killed (kill -9 of all its processes), and the next one "
        "is suspended (SIGSTOP). Then a setting in `config/detector.yaml` changes while a rule fires on "
        "every transaction.",
        (
            Figure("healthy_s", "from scratch (including Airflow's database) to a healthy detector", "s", at_most(90)),
            Figure("died_seen_s", "driver killed, next one requested", "s"),
            Figure("died_s", "driver killed, healthy again", "s", at_most(30)),
            Figure("hung_seen_s", "driver suspended, next one requested", "s", at_most(60)),
            Figure("hung_s", "driver suspended, healthy again", "s"),
            Figure(
                "redeployed_s", "longest time without an alert while a new configuration is deployed", "s", at_most(20)
            ),
        ),
        _measure,
        needs_broker=False,
    ),
    Rows(
        "supervision_cost",
        "Cost of supervision",
        f"{_WORLD}CPU time of Airflow's processes and of the agent, without the detector: half an hour with all "
        "DAGs active, then ten minutes with all of them paused.",
        (
            Figure("at_work", "with all DAGs active", "% of a core"),
            Figure("idle", "with all DAGs paused", "% of a core"),
            Figure("cost", "difference", "% of a core", at_most(5)),
        ),
        _measure_cost,
        needs_broker=False,
        soak=True,
    ),
)
