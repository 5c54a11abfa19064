"""The agent deploys the detector on a standalone cluster, and one of its workers ends."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.deploy.attempt import AttemptPhase
from fraud_rules.kafka.consume import topic_ends
from tests.support.kafka.own_topics import OwnTopics
from tests.support.processes.running_agent import Operations
from tests.support.processes.running_detector import Installation
from tests.support.processes.spark_cluster import StandaloneCluster
from tests.support.recovery.load import Load
from tests.support.recovery.traffic import FUTURE_TOLERANCE_MS, OUT_OF_ORDERNESS_MS
from tests.support.recovery.verdict import differences
from tests.support.recovery.watch import Watch
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(420)]

SPARK = {"spark.executor.memory": "700m", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
ROWS = 300


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    (tmp_path / "cluster").mkdir()
    cluster = StandaloneCluster(tmp_path / "cluster", workers=2)
    yield cluster
    cluster.end()


@pytest.fixture
def ops(tmp_path: Path, project: Project, topics: OwnTopics) -> Iterator[Operations]:
    operations = Operations(tmp_path, project, topics)
    yield operations
    operations.end()


def test_the_detector_continues_after_the_loss_of_a_worker(
    cluster: StandaloneCluster, ops: Operations, topics: OwnTopics, project: Project, tmp_path: Path
) -> None:
    settings = {"max_out_of_orderness_ms": OUT_OF_ORDERNESS_MS, "future_tolerance_ms": FUTURE_TOLERANCE_MS}
    installation = Installation.make(tmp_path, project, topics, **settings, tick_ms=500, key_groups=4)
    shutil.copy(installation.schema, tmp_path / "schema.yaml")
    ops.agent()
    release = ops.release(config=tmp_path, master=cluster.url, spark=SPARK, driver_memory="700m")
    record = ops.decide(release)
    with Watch(installation) as watch, Load(topics, seed=7, rate=40.0) as load:
        load.allow(ROWS)
        ops.await_phase(record, AttemptPhase.RUNNING, timeout_s=120.0)
        until(lambda: watch.batch_id >= 5, "batches are written")
        assert [cluster.executors(number) for number in (0, 1)] == [1, 1]
        cluster.kill_worker(0)
        load.allow(ROWS)
        reached = watch.batch_id
        until(lambda: watch.batch_id >= reached + 10, "the detector continues with the remaining worker")
        load.finish()
        transactions = topic_ends(topics.kafka, topics.names.transactions)
        rules = topic_ends(topics.kafka, topics.names.rules)
        until(lambda: watch.ends == transactions and watch.rules_end == rules[0], "everything is read")
    drain = ops.decide(None)
    ops.await_phase(drain, AttemptPhase.STOPPED)
    attempt = ops.await_phase(record, AttemptPhase.STOPPED)
    assert attempt.exit_code == 0
    assert attempt.batches_committed > 10
    found, counts = differences(installation, load.traffic.documents)
    assert not found, "\n".join(found)
    assert counts["alerts"] > 0
