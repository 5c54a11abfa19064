"""The detector on a standalone cluster: a worker ends and returns with its old views, and tasks run twice."""

from __future__ import annotations

import contextlib
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.deploy.attempt import AttemptPhase
from fraud_rules.deploy.code import code_digest
from fraud_rules.deploy.work import WorkPhase
from fraud_rules.errors import DetectorFailed, FraudError, ReleaseInvalid
from fraud_rules.kafka.consume import topic_ends
from fraud_rules.stream.driver.batch_jobs import LARGE_BATCH_TRANSACTIONS
from tests.support.kafka.own_topics import OwnTopics
from tests.support.processes.running_agent import Operations
from tests.support.processes.running_detector import Installation
from tests.support.processes.spark_cluster import StandaloneCluster
from tests.support.recovery.load import Load
from tests.support.recovery.rule_members import schema_with_account
from tests.support.recovery.site import Site
from tests.support.recovery.traffic import FUTURE_TOLERANCE_MS, OUT_OF_ORDERNESS_MS
from tests.support.recovery.verdict import differences
from tests.support.recovery.watch import Watch
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(420)]

SPARK = {"spark.executor.memory": "700m", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
ROWS = 300
KEY_GROUPS = 4


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


def test_the_detector_continues_after_the_loss_and_the_return_of_a_worker(
    cluster: StandaloneCluster, ops: Operations, topics: OwnTopics, project: Project, tmp_path: Path
) -> None:
    """The worker with the views ends. It returns with them, and must use them once the other worker ends."""
    settings = {"max_out_of_orderness_ms": OUT_OF_ORDERNESS_MS, "future_tolerance_ms": FUTURE_TOLERANCE_MS}
    schema = schema_with_account(tmp_path, project)
    installation = Installation.make(tmp_path, project, topics, schema, **settings, tick_ms=500, key_groups=KEY_GROUPS)
    shutil.copy(installation.schema, tmp_path / "schema.yaml")
    ops.agent()
    release = ops.release(config=tmp_path, master=cluster.url, spark=SPARK, driver_memory="700m")
    record = ops.decide(release)
    with Watch(installation) as watch, Load(topics, seed=7, rate=40.0) as load:

        def await_batches(count: int) -> None:
            reached = watch.batch_id
            until(lambda: watch.batch_id >= reached + count, f"{count} batches are written")

        def rebuilt_since(batch_id: int) -> int:
            return sum(each.view_rebuilds for each in installation.progress() if each.batch_id > batch_id)

        def read_since(batch_id: int) -> int:
            """The views that batches after this one built or read on."""
            progress = [each for each in installation.progress() if each.batch_id > batch_id]
            return sum(each.view_catch_ups + each.view_rebuilds for each in progress)

        load.allow(ROWS)
        ops.await_phase(record, AttemptPhase.RUNNING)
        await_batches(20)
        assert [cluster.executors(number) for number in (0, 1)] == [1, 1]
        first = max((0, 1), key=cluster.newest_version)
        assert len(cluster.views(first)) == KEY_GROUPS
        until(lambda: cluster.python_processes(1 - first), "the other executor is ready before a batch needs it")
        assert read_since(-1) <= KEY_GROUPS, "small batches stay on one executor, once both are ready"
        lost_at = watch.batch_id
        cluster.kill_worker(first)
        until(lambda: rebuilt_since(lost_at) >= KEY_GROUPS, "the other executor builds all views")
        # A batch may use the new executor for some key groups as soon as it has joined.
        returned_at = watch.batch_id
        cluster.return_worker(first)
        until(lambda: cluster.executors(first), "the worker has an executor again")
        await_batches(2)
        assert len(cluster.views(first)) == KEY_GROUPS, "the worker has its old views"
        cluster.kill_worker(1 - first)
        load.allow(ROWS)
        await_batches(10)
        until(lambda: read_since(returned_at) >= KEY_GROUPS, "the returned executor uses all views")
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


@pytest.mark.timeout(1_800)
def test_a_worker_without_the_kernel_makes_progress_while_it_compiles(
    ops: Operations, project: Project, tmp_path: Path
) -> None:
    """The agent's host uses no CPU meanwhile. Without a report from the worker, a supervisor would kill the start."""
    (tmp_path / "cluster").mkdir()
    cluster = StandaloneCluster(tmp_path / "cluster", workers=1, FRAUD_CACHE_DIR=str(tmp_path / "cold"))
    try:
        ops.agent()
        record = ops.decide(ops.release(master=cluster.url, spark=SPARK, driver_memory="700m"))
        compiled_s: set[int] = set()

        def runs() -> bool:
            status = ops.seen().attempts[record.intent.attempt_id].status
            if status.work is not None and status.work.phase is WorkPhase.WORKERS:
                compiled_s.add(status.work.done)
            return status.phase is AttemptPhase.RUNNING

        ops.await_phase(record, AttemptPhase.STARTING)
        until(runs, "the detector runs", 1_500)
    finally:
        cluster.end()
    assert len(compiled_s) > 5


def test_key_groups_stay_on_their_hosts_in_large_batches(
    cluster: StandaloneCluster, topics: OwnTopics, project: Project, tmp_path: Path
) -> None:
    """Else the other host reads the state of the key group from Kafka. Only an executor that joins moves some."""
    size = LARGE_BATCH_TRANSACTIONS + 1_000
    site = Site(tmp_path, project, topics, seed=17, key_groups=KEY_GROUPS, max_offsets_per_trigger=size)
    with site.working(0):
        site.load.burst(12 * size)
        written = site.installation.topics.names.transactions
        until(lambda: sum(topic_ends(topics.kafka, written).values()) >= 12 * size, "the backlog is written")
        flags = [flag for name, value in SPARK.items() for flag in ("--spark-conf", f"{name}={value}")]
        site.start("--master", cluster.url, "--driver-memory", "700m", *flags)
        site.finish()
    large = [each for each in site.installation.progress() if each.rows >= LARGE_BATCH_TRANSACTIONS]
    assert len(large) >= 10
    assert sum(each.view_catch_ups + each.view_rebuilds for each in large) <= KEY_GROUPS


SPECULATION = {
    **SPARK,
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.task.duration.threshold": "500ms",
}


def test_speculative_tasks_change_no_output(
    cluster: StandaloneCluster, topics: OwnTopics, project: Project, tmp_path: Path
) -> None:
    """The Python workers of one executor are suspended. Spark runs their tasks on the other executor too, and the first
    ones end later."""
    site = Site(tmp_path, project, topics, seed=13, key_groups=4)
    flags = [flag for name, value in SPECULATION.items() for flag in ("--spark-conf", f"{name}={value}")]
    with site.working(ROWS):
        site.start("--master", cluster.url, "--driver-memory", "700m", *flags)
        until(lambda: site.watch.batch_id >= 5, "batches are written")
        for number in (0, 1, 0, 1):
            suspended = cluster.python_processes(number)
            for process in suspended:
                process.suspend()
            site.load.allow(100)
            reached = site.watch.batch_id
            until(lambda reached=reached: site.watch.batch_id >= reached + 4, "the other executor runs the tasks")
            for process in suspended:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.resume()
            until(lambda reached=reached: site.watch.batch_id >= reached + 8, "the detector continues")
        site.finish()
    site.check_outputs()


def test_a_worker_without_the_package_is_refused_by_host(topics: OwnTopics, project: Project, tmp_path: Path) -> None:
    (tmp_path / "none" / "fraud_rules").mkdir(parents=True)
    (tmp_path / "none" / "fraud_rules" / "__init__.py").touch()
    said = refusal(topics, project, tmp_path, tmp_path / "none", DetectorFailed)
    assert "Spark's Python workers do not start: 127.0.0.2: " in said, said[-2000:]
    assert "No module named 'fraud_rules.stream'" in said


def test_a_worker_with_other_code_is_refused_by_host_and_digests(
    topics: OwnTopics, project: Project, tmp_path: Path
) -> None:
    """It would evaluate by its own code, and write wrong alerts in silence."""
    other = tmp_path / "other"
    shutil.copytree(project.root / "spark_jobs", other, ignore=shutil.ignore_patterns("__pycache__"))
    with (other / "fraud_rules" / "errors.py").open("a") as file:
        file.write("# another release\n")
    said = refusal(topics, project, tmp_path, other, ReleaseInvalid)
    assert f"{socket.gethostname()} has other code than the driver: {other} has digest" in said
    assert f"the driver {code_digest()}" in said


def refusal(topics: OwnTopics, project: Project, tmp_path: Path, python_path: Path, error: type[FraudError]) -> str:
    """The output of a start that is refused, because its only worker has this code. No batch is written."""
    (tmp_path / "cluster").mkdir()
    cluster = StandaloneCluster(tmp_path / "cluster", workers=1, PYTHONPATH=str(python_path))
    site = Site(tmp_path / "site", project, topics, seed=3, key_groups=2)
    flags = [flag for name, value in SPARK.items() for flag in ("--spark-conf", f"{name}={value}")]
    try:
        with site.working(20):
            refused = site.start("--master", cluster.url, "--driver-memory", "700m", *flags)
            assert refused.wait_end() == error.exit_code, refused.said()[-2000:]
    finally:
        cluster.end()
    assert site.installation.progress() == []
    return refused.said()
