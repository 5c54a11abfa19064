"""A detector on hosts that share no file: a host dies, loses network or files, has a full disk or other code."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import psutil
import pyspark
import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.errors import DetectorFailed, ReleaseInvalid, StorageFull
from fraud_rules.stream.driver.batch_jobs import LARGE_BATCH_TRANSACTIONS
from fraud_rules.stream.worker import daemon
from tests.support.hosts import Host, assert_nothing_shared, fill, hosts_on_a_bridge
from tests.support.kafka.cluster import brokers_on
from tests.support.kafka.own_topics import OwnTopics, own_topics
from tests.support.kafka.records import read_all
from tests.support.network import needs_root_and
from tests.support.places import ROOT
from tests.support.processes.spark_cluster import newest_version
from tests.support.recovery.site import Site
from tests.support.recovery.verdict import differences
from tests.support.waiting import until

pytestmark = [
    pytest.mark.recovery,
    pytest.mark.long,
    pytest.mark.timeout(1_800),
    *needs_root_and("ip"),
]

ROWS = 20_000
"""More than the test writes: the rate stays the same throughout."""

BURST = LARGE_BATCH_TRANSACTIONS + 500
READY_S = 240.0
KILLED_S, CUT_S = 60.0, 90.0
"""Limits of the time without a batch after a kill of a host, and after a pulled cable, on a busy machine."""

_SPARK_CLASS = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
_TIMEOUT = "-Dspark.worker.timeout=15"


class Cluster:
    """Spark's master on a host, and a worker on each other host."""

    def __init__(self, master: Host, *workers: Host) -> None:
        self._master = master
        self.workers = workers
        self.url = f"spark://{master.address}:7077"
        self._start(master, "Master", "--host", master.address, "--port", "7077", "--webui-port", "8090")
        until(lambda: "I have been elected leader" in self._said(master, "Master"), "Spark's master works")
        for worker in workers:
            self.start(worker)

    def start(self, host: Host, code: Path | None = None) -> None:
        """Start the worker of a host, with the code in this folder instead of the checkout's."""
        (host.folder / "work").mkdir(exist_ok=True)
        options = ("--host", host.address, "--cores", "1", "--memory", "1g", "--work-dir", str(host.folder / "work"))
        self._start(host, "Worker", *options, self.url, code=code)
        until(lambda: "Successfully registered" in self._said(host, "Worker"), f"the worker of {host.name} registers")

    def steady(self) -> Host:
        """The host that runs the small batches."""
        return max(self.workers, key=lambda each: newest_version(each.folder / "tmp"))

    def _start(self, host: Host, kind: str, *arguments: str, code: Path | None = None) -> subprocess.Popen[bytes]:
        main = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
        environ = {"SPARK_LOCAL_IP": host.address, "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": _TIMEOUT}
        return host.start(kind, _SPARK_CLASS, main, *arguments, code=code, **environ)

    @staticmethod
    def _said(host: Host, kind: str) -> str:
        return (host.folder / f"{kind}.log").read_text(errors="replace")


class HostSite(Site):
    """A detector on a cluster of hosts. `home` is the host of its driver, `faults` are names with epoch seconds."""

    def __init__(self, home: Host, cluster: Cluster, project: Project, topics: OwnTopics) -> None:
        super().__init__(home.folder / "site", project, topics, seed=31)
        self.cluster = cluster
        self.faults: list[tuple[str, float]] = []
        self._move_to(home)

    def start_on_hosts(self) -> None:
        """Start the detector on the cluster."""
        self.start(
            "--master", self.cluster.url, "--driver-memory", "700m", "--spark-conf", "spark.executor.memory=700m"
        )

    def begin(self, fault: str, burst: int) -> Host:
        """Record a fault, and write a burst of transactions before it. Returns the host of the small batches."""
        steady = self.cluster.steady()
        self.load.burst(burst)
        self.faults.append((fault, time.time()))
        return steady

    def kill_a_worker(self, burst: int) -> None:
        """Kill all processes of a worker's host, and start the worker again."""
        lost = self.begin("killed", burst)
        lost.kill()
        self.await_work(20)
        self.cluster.start(lost)
        await_ready(lost)

    def cut_a_worker(self, burst: int) -> None:
        """Pull the cable of a worker's host, and plug it in again."""
        lost = self.begin("cut", burst)
        lost.cut()
        self.await_work(20)
        self.faults.append(("healed", time.time()))
        lost.heal()
        self.await_work(20)

    def delete_the_views(self, burst: int) -> None:
        """Delete the views during a batch."""
        host = self.begin("views deleted", burst)
        for views in (host.folder / "tmp").glob("fraud-rules-views-*"):
            shutil.rmtree(views, ignore_errors=True)
        self.await_work(20)

    def fill_a_disk(self) -> None:
        """Fill the disk of a worker's host. The detector ends with its name, and continues once the disk has space."""
        host = self.begin("disk full", 0)
        with fill(host.folder / "tmp"):
            full = self.starts[-1]
            assert full.wait_end() == StorageFull.exit_code, full.said()[-2000:]
            assert f"{host.name}:/tmp" in full.said()
            full.kill()
        self.start_on_hosts()
        self.await_work(20)

    def move_the_driver(self, other: Host) -> None:
        """Kill the driver's host, and start the detector on a host that has no file of it."""
        self.begin("driver's host killed", 0)
        self.home.kill()
        self.starts[-1].kill()
        self._move_to(other)
        self.start_on_hosts()
        self.await_work(20)

    def _move_to(self, home: Host) -> None:
        folder, schema = home.folder / "site", home.folder / "site" / self.installation.schema.name
        if folder != self.installation.home:
            folder.mkdir()
            for each in (self.installation.home / "detector.yaml", self.installation.schema):
                shutil.copy(each, folder)
        own = {"SPARK_LOCAL_IP": home.address, "TMPDIR": "/tmp"}
        self.installation = replace(self.installation, home=folder, schema=schema, extra=own, before=home.words())
        self.home = home

    def gaps(self) -> dict[str, tuple[float, float]]:
        """The longest time without an alert and without a batch after each fault, in seconds."""
        names = self.installation.topics.names
        alerts, batches = (self._append_times(topic) for topic in (names.alerts, names.detector_progress))
        spans = [(f"{n}. {name}", begin, end) for n, ((name, begin), (_, end)) in enumerate(pairwise(self.faults), 1)]
        return {name: (gap(alerts, begin, end), gap(batches, begin, end)) for name, begin, end in spans}

    def _append_times(self, topic: str) -> list[float]:
        """The append times of a topic's records, in epoch seconds."""
        return [message.timestamp()[1] / 1_000 for message in read_all(self.installation.topics.bootstrap, topic)]


@contextmanager
def detector_on_hosts(project: Project) -> Iterator[tuple[HostSite, Host]]:
    """A detector that is not started yet, and a host without a file of it."""
    with hosts_on_a_bridge("kafka-1", "kafka-2", "kafka-3", "master", "driver", "spare", "one", "two") as hosts:
        *kafka, master, driver, spare, one, two = hosts
        assert_nothing_shared(hosts)
        brokers = brokers_on(kafka, project)
        with own_topics(brokers, project) as topics:
            yield HostSite(driver, Cluster(master, one, two), project, topics), spare


def await_ready(host: Host) -> None:
    """Wait until the Python daemon of the host's executor has started a worker, before a batch needs it."""

    def is_daemon(process: int) -> bool:
        with suppress(psutil.NoSuchProcess):
            return daemon.__name__ in psutil.Process(process).cmdline()
        return False

    until(lambda: sum(map(is_daemon, host.processes())) >= 2, f"{host.name} is ready", READY_S)


def test_alerts_are_right_after_the_losses_of_hosts(project: Project) -> None:
    with detector_on_hosts(project) as (site, spare), site.working(ROWS):
        site.start_on_hosts()
        site.await_work(20)
        for each in site.cluster.workers:
            await_ready(each)
        for burst in (0, BURST):
            site.kill_a_worker(burst)
            site.cut_a_worker(burst)
            site.delete_the_views(burst)
        assert len(site.starts) == 1
        site.fill_a_disk()
        site.move_the_driver(spare)
        site.finish()
        site.faults.append(("end", time.time()))
        found, counts = differences(site.installation, site.load.traffic.documents)
        assert not found, "\n".join(found)
        gaps = site.gaps()
        print(f"hosts: {counts}; gaps in alerts and batches, s: {gaps}; load {os.getloadavg()}")  # noqa: T201
        assert max(each.rows for each in site.installation.progress()) >= LARGE_BATCH_TRANSACTIONS
        assert gaps["1. killed"][1] < KILLED_S
        assert gaps["2. cut"][1] < CUT_S


@pytest.mark.parametrize("fault", ["other code", "no package"])
def test_a_host_with_a_wrong_installation_is_named(fault: str, project: Project) -> None:
    """A running detector continues without a host that joins later. A start on such a host is refused."""
    with detector_on_hosts(project) as (site, _):
        good, wrong = site.cluster.workers
        wrong.kill()
        code = wrong_code(wrong, fault)
        with site.working(200):
            site.start_on_hosts()
            site.await_work()
            site.cluster.start(wrong, code)
            until(lambda: "is removed" in site.starts[-1].said(), "the executor is removed", READY_S)
            site.await_work(5)
            site.finish()
            good.kill()
            site.start_on_hosts()
            refused, expected = site.starts[-1], ReleaseInvalid if fault == "other code" else DetectorFailed
            assert refused.wait_end(READY_S) == expected.exit_code, refused.said()[-2000:]
            named = "two has other code than the driver" if fault == "other code" else f"{wrong.address}: "
            assert named in refused.said()
        found, _ = differences(site.installation, site.load.traffic.documents)
        assert not found, "\n".join(found)


def wrong_code(host: Host, fault: str) -> Path:
    """A folder of the host for spark_jobs/: with another digest, or without the package."""
    code = host.folder / "code"
    shutil.copytree(ROOT / "spark_jobs", code, ignore=shutil.ignore_patterns("__pycache__"))
    if fault == "no package":
        shutil.rmtree(code / "fraud_rules")
    else:
        with (code / "fraud_rules" / "errors.py").open("a") as file:
            file.write("# another release\n")
    return code


def gap(times: list[float], begin: float, end: float) -> float:
    """The longest time without a record between two times, in seconds."""
    within = sorted([begin, *(each for each in times if begin < each < end), end])
    return round(max(later - earlier for earlier, later in pairwise(within)), 1)
