"""The evaluator of small batches on a real Spark with one core: many batches in one job, and lost tasks replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyarrow import ArrowException, flight
from pyspark.sql import SparkSession

from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import ReleaseInvalid
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.spark.session import SparkOptions, build_session
from fraud_rules.spark.shutdown import detector_error, stop_spark
from fraud_rules.stream.batch_order import BatchOrder
from fraud_rules.stream.channel import AUTHORIZATION, SERVER_NAME, EvaluatorAttempt, bearer
from fraud_rules.stream.driver.channel_server import ChannelServer, serve_channel
from fraud_rules.stream.driver.evaluator import Evaluator
from fraud_rules.stream.driver.executors import ReadyExecutors
from fraud_rules.stream.driver.placement import cores, located, run_tasks
from fraud_rules.stream.driver.state_guard import new_position
from fraud_rules.stream.pins import Pin
from fraud_rules.stream.worker.context import WorkerContext
from fraud_rules.stream.worker.wire import SIDE_OUTPUT
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce
from tests.support.processes.running_detector import local_spark, workers_of
from tests.support.waiting import until

HOST = "127.0.0.1"
KEY_GROUPS = 2
PAYMENTS = 10
TOPIC_ROLES = ("transactions", "rules", "detector_state")
ALL = [SIDE_OUTPUT, *range(KEY_GROUPS)]


@pytest.fixture(scope="module")
def spark(project: Project) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in local_spark().items():
            patch.setenv(name, value)
        session = build_session(SparkOptions("local[1,4]", driver_memory="512m"))
    yield session
    stop_spark(session)


@pytest.fixture(scope="module")
def executors(spark: SparkSession) -> Iterator[ReadyExecutors]:
    made = ReadyExecutors(spark, "")
    made.join()
    yield made
    made.stop()


@dataclass
class Site:
    """A driver without batches of its own. The topic of transactions has `PAYMENTS` records, which are no payments."""

    spark: SparkSession
    executors: ReadyExecutors
    channel: ChannelServer
    context: WorkerContext
    order: BatchOrder

    def evaluator(self, lifetime_s: float = 30.0, code: str = "") -> Evaluator:
        context = replace(self.context, code=code)
        return Evaluator(self.spark.sparkContext, context, self.executors, self.channel, lifetime_s)

    def jobs(self) -> int:
        """The number of Spark's jobs so far."""
        tracker = self.spark.sparkContext.statusTracker()
        groups = (None, *(f"evaluator-{number}" for number in range(10)))
        return max((each for group in groups for each in tracker.getJobIdsForGroup(group)), default=-1) + 1

    def workers(self) -> list[psutil.Process]:
        """The Python workers of Spark."""
        return workers_of(psutil.Process(self.spark.sparkContext._gateway.proc.pid))

    def waits_for(self, worker: psutil.Process, key_group: int) -> bool:
        """Whether a worker has the lock of a key group's view open."""
        try:
            return any(f"key-group-{key_group}/lock" in each.path for each in worker.open_files())
        except psutil.Error:
            return False

    def exchange(self, command: bytes, token: str | None = None) -> tuple[Any, Any, flight.FlightClient]:
        """Open an exchange as a task does. Returns its writer, its reader and the client."""
        address = self.channel.address
        given = bearer(address.token if token is None else token).encode()
        client = flight.connect(address.location, tls_root_certs=address.certificate, override_hostname=SERVER_NAME)
        options = flight.FlightCallOptions(timeout=180, headers=[(AUTHORIZATION.encode(), given)])
        return *client.do_exchange(flight.FlightDescriptor.for_command(command), options), client


@pytest.fixture
def site(
    spark: SparkSession, executors: ReadyExecutors, topics: OwnTopics, project: Project, tmp_path: Path
) -> Iterator[Site]:
    produce(topics.bootstrap, topics.names.transactions, [b"{}"] * PAYMENTS)
    settings = DetectorSettings(
        detector=topics.prefix.rstrip("-"), topics=topics.names, key_groups=KEY_GROUPS, views_folder=str(tmp_path)
    )
    schema = TransactionSchema.load(project.config / "schema.yaml")
    state = new_position(topics.kafka, settings)
    with serve_channel(HOST, HOST) as channel:
        context = WorkerContext(schema, settings, topics.kafka, state.partitions, "history", channel.address)
        order = BatchOrder(Pin(0, 0), state.versions, state.ends, ranges={0: (0, PAYMENTS)}, visits_all=True)
        yield Site(spark, executors, channel, context, order)


@pytest.fixture
def evaluator(site: Site) -> Iterator[Evaluator]:
    made = site.evaluator()
    yield made
    made.stop()


def key_groups(evaluator: Evaluator, order: BatchOrder) -> list[int]:
    """The numbers of the rows of a batch."""
    return sorted({row.key_group for row in evaluator.evaluate(order)})


def test_one_job_evaluates_many_batches(site: Site, evaluator: Evaluator) -> None:
    before = site.jobs()
    for _ in range(20):
        assert key_groups(evaluator, site.order) == ALL
    assert site.jobs() == before + 1


def test_a_job_ends_after_its_lifetime_and_the_next_one_continues(site: Site) -> None:
    before, evaluator = site.jobs(), site.evaluator(lifetime_s=0.1)

    def has_three_jobs() -> bool:
        assert key_groups(evaluator, site.order) == ALL
        return site.jobs() >= before + 3

    until(has_three_jobs, "the third job")
    evaluator.stop()


@pytest.mark.parametrize("fault", [psutil.Process.kill, psutil.Process.suspend])
def test_a_request_survives_its_worker(
    fault: Callable[[psutil.Process], None], site: Site, evaluator: Evaluator
) -> None:
    """A killed worker, and one that hangs: it gives no sign of life, so Spark kills it. Another gets the request."""
    assert key_groups(evaluator, site.order) == ALL
    (first,) = site.workers()
    with ThreadPoolExecutor(1) as pool:
        with site.context.views().hold(1):
            found = pool.submit(key_groups, evaluator, site.order)
            until(lambda: site.waits_for(first, 1), "the worker evaluates")
            fault(first)
            until(lambda: any(site.waits_for(each, 1) for each in site.workers() if each != first), "another evaluates")
            until(lambda: first not in site.workers(), "the first worker has ended")
            assert not found.done()
        assert found.result(180) == ALL


def test_a_worker_that_waits_gives_signs_of_life(site: Site, evaluator: Evaluator) -> None:
    assert key_groups(evaluator, site.order) == ALL
    with ThreadPoolExecutor(1) as pool:
        with site.context.views().hold(1):
            found = pool.submit(key_groups, evaluator, site.order)
            request = until(lambda: evaluator._request, "the evaluator has the request")
            signs = {request.heard_s}
            until(lambda: signs.add(request.heard_s) or len(signs) > 3, "three signs of life")
        assert found.result(180) == ALL


def test_a_worker_that_dies_between_two_requests_is_replaced(site: Site, evaluator: Evaluator) -> None:
    before = site.jobs()
    for _ in range(4):  # as often as Spark repeats a task
        assert key_groups(evaluator, site.order) == ALL
        assert site.jobs() == before + 1
        for worker in site.workers():
            worker.kill()
    until(lambda: not site.spark.sparkContext.statusTracker().getActiveJobsIds(), "the job has failed")
    assert key_groups(evaluator, site.order) == ALL
    assert site.jobs() == before + 2


def test_the_error_of_a_job_is_the_error_of_its_request(site: Site) -> None:
    evaluator = site.evaluator(code="another")
    with pytest.raises(Exception, match="has other code than the driver") as failed:
        evaluator.evaluate(site.order)
    assert isinstance(detector_error(failed.value), ReleaseInvalid)
    evaluator.stop()


def test_another_job_gets_the_only_core(site: Site, evaluator: Evaluator) -> None:
    assert cores(site.spark.sparkContext, None) == 1
    assert key_groups(evaluator, site.order) == ALL
    with ThreadPoolExecutor(1) as pool:
        with evaluator.suspended():
            found = pool.submit(key_groups, evaluator, site.order)
            assert run_tasks(located(site.spark.sparkContext, [None])) == [0]
            assert not found.done()
        assert found.result(180) == ALL


@pytest.mark.parametrize("token", ["", "another"])
def test_a_stranger_gets_no_batch(token: str, site: Site, evaluator: Evaluator) -> None:
    assert key_groups(evaluator, site.order) == ALL
    with pytest.raises(flight.FlightUnauthenticatedError):
        first_answer(site, EvaluatorAttempt(1, 1).encode(), token)
    assert key_groups(evaluator, site.order) == ALL


@pytest.mark.parametrize(
    "command", [b"", b"[1]", b"\xff" * 100_000, EvaluatorAttempt(1, 0).encode(), EvaluatorAttempt(2, 0).encode()]
)
def test_only_the_newest_attempt_gets_a_batch(command: bytes, site: Site, evaluator: Evaluator) -> None:
    assert key_groups(evaluator, site.order) == ALL
    with pytest.raises(ArrowException, match=r"not an attempt|another attempt"):
        first_answer(site, command)
    assert key_groups(evaluator, site.order) == ALL


@pytest.mark.parametrize("garbage", [b"\x00", b"\xff" * 100_000])
def test_a_reply_that_is_garbage_ends_its_exchange_only(garbage: bytes, site: Site, evaluator: Evaluator) -> None:
    """A client that knows everything takes the place of the task."""
    assert key_groups(evaluator, site.order) == ALL
    with ThreadPoolExecutor(1) as pool:
        writer, reader, client = site.exchange(EvaluatorAttempt(1, 1).encode())
        found = pool.submit(key_groups, evaluator, site.order)
        assert reader.read_chunk().app_metadata is not None
        writer.write_metadata(garbage)
        with pytest.raises(ArrowException, match="not a reply"):
            reader.read_chunk()
        client.close()
        assert found.result(180) == ALL


def first_answer(site: Site, command: bytes, token: str | None = None) -> object:
    _, reader, client = site.exchange(command, token)
    try:
        return reader.read_chunk()
    finally:
        client.close()
