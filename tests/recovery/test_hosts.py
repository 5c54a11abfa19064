"""A detector on hosts that share no file: a worker host dies, loses its network and its files, or has other code."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import psutil
import pyspark
import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.errors import DetectorFailed, ReleaseInvalid
from tests.support.hosts import BridgeBroker, Host, hosts_on_a_bridge
from tests.support.kafka.own_topics import OwnTopics, own_topics
from tests.support.kafka.records import read_all
from tests.support.places import ROOT
from tests.support.ports import free_ports
from tests.support.processes.spark_cluster import newest_version
from tests.support.recovery.site import Site
from tests.support.recovery.verdict import differences
from tests.support.waiting import until

pytestmark = [
    pytest.mark.recovery,
    pytest.mark.long,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace needs root"),
    pytest.mark.skipif(shutil.which("ip") is None, reason="needs ip"),
]

ROWS = 20_000
"""More than the test writes: the rate stays the same throughout."""

READY_S = 240.0
KILLED_S, CUT_S = 60.0, 90.0
"""Limits of the time without a batch after a kill of a host, and after a pulled cable, on a busy machine."""

_SPARK_CLASS = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
_TIMEOUT = "-Dspark.worker.timeout=15"


class Cluster:
    """Spark's master on the host of the driver, and a worker on each other host."""

    def __init__(self, driver: Host, *workers: Host) -> None:
        self._driver = driver
        self.workers = workers
        self.url = f"spark://{driver.address}:7077"
        master = ("--host", driver.address, "--port", "7077", "--webui-port", "8090")
        self._start(driver, "Master", *master)
        until(lambda: "I have been elected leader" in self._said(driver, "Master"), "Spark's master works")
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

    def other(self) -> Host:
        """The host that stands by."""
        return next(each for each in self.workers if each is not self.steady())

    def _start(self, host: Host, kind: str, *arguments: str, code: Path | None = None) -> subprocess.Popen[bytes]:
        main = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
        environ = {"SPARK_LOCAL_IP": host.address, "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": _TIMEOUT}
        return host.start(kind, _SPARK_CLASS, main, *arguments, code=code, **environ)

    @staticmethod
    def _said(host: Host, kind: str) -> str:
        return (host.folder / f"{kind}.log").read_text(errors="replace")


@contextmanager
def detector_on_hosts(project: Project, home: Path) -> Iterator[tuple[Site, Cluster, Host]]:
    with hosts_on_a_bridge("driver", "one", "two") as bridge:
        driver, *workers = bridge.hosts
        assert_nothing_shared(bridge.hosts)
        port, controller = free_ports(2)
        broker = BridgeBroker(bridge.address, home / "broker", port, controller, project)
        broker.start()
        try:
            with own_topics(broker, project) as topics:
                site = Site(driver.folder / "site", project, topics, seed=31)
                own = {"SPARK_LOCAL_IP": driver.address, "TMPDIR": "/tmp"}
                site.installation = replace(site.installation, extra=own, before=driver.words())
                yield site, Cluster(driver, *workers), driver
        finally:
            broker.kill()


def assert_nothing_shared(hosts: tuple[Host, ...]) -> None:
    for host in hosts:
        for other in hosts:
            assert host is other or not host.writable() & other.writable(), host.writable() & other.writable()
        assert host.output("sh", "-c", f"touch {ROOT}/shared 2>&1 || true").strip().endswith("Read-only file system")


def start(site: Site, cluster: Cluster) -> None:
    site.start("--master", cluster.url, "--driver-memory", "700m", "--spark-conf", "spark.executor.memory=700m")


def await_ready(host: Host) -> None:
    """Wait until the Python daemon of the host's executor has started a worker, before a batch needs it."""

    def names() -> list[str]:
        found = [psutil.Process(each).name() for each in host.processes() if psutil.pid_exists(each)]
        return [name for name in found if name.startswith("python")]

    until(lambda: len(names()) >= 2, f"{host.name} is ready", READY_S)


def test_alerts_are_right_after_the_losses_of_hosts(project: Project, tmp_path: Path) -> None:
    with detector_on_hosts(project, tmp_path) as (site, cluster, _):
        faults: list[tuple[str, float]] = []
        with site.working(ROWS):
            start(site, cluster)
            site.await_work(20)
            for each in cluster.workers:
                await_ready(each)

            lost = cluster.steady()
            faults.append(("killed", time.time()))
            lost.kill()
            site.await_work(20)
            cluster.start(lost)
            await_ready(lost)

            lost = cluster.steady()
            faults.append(("cut", time.time()))
            lost.cut()
            site.await_work(20)
            lost.heal()
            site.await_work(20)

            faults.append(("scratch deleted", time.time()))
            for views in (cluster.steady().folder / "tmp").glob("fraud-rules-views-*"):
                shutil.rmtree(views, ignore_errors=True)
            site.await_work(20)
            assert len(site.starts) == 1
            site.finish()
        faults.append(("end", time.time()))
        found, counts = differences(site.installation, site.load.traffic.documents)
        assert not found, "\n".join(found)
        topics = site.installation.topics
        alerts, batches = (append_times(topics, name) for name in (topics.names.alerts, topics.names.detector_progress))
        gaps = {what: (gap(alerts, at, end), gap(batches, at, end)) for (what, at), (_, end) in pairwise(faults)}
        print(f"hosts: {counts}; gaps in alerts and batches, s: {gaps}; load {os.getloadavg()}")  # noqa: T201
        assert gaps["killed"][1] < KILLED_S
        assert gaps["cut"][1] < CUT_S


@pytest.mark.parametrize("fault", ["other code", "no package"])
def test_a_host_with_a_wrong_installation_is_named(fault: str, project: Project, tmp_path: Path) -> None:
    """A running detector continues without a host that joins later. A start on such a host is refused."""
    with detector_on_hosts(project, tmp_path) as (site, cluster, _):
        good, wrong = cluster.workers
        wrong.kill()
        code = wrong_code(wrong, fault)
        with site.working(200):
            start(site, cluster)
            site.await_work()
            cluster.start(wrong, code)
            until(lambda: "is removed" in site.starts[-1].said(), "the executor is removed", READY_S)
            site.await_work(5)
            site.finish()
            good.kill()
            start(site, cluster)
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


def append_times(topics: OwnTopics, topic: str) -> list[float]:
    """The append times of a topic's records, in epoch seconds."""
    return [message.timestamp()[1] / 1_000 for message in read_all(topics.bootstrap, topic)]


def gap(times: list[float], begin: float, end: float) -> float:
    """The longest time without a record between two times, in seconds."""
    within = sorted([begin, *(each for each in times if begin < each < end), end])
    return round(max(later - earlier for earlier, later in pairwise(within)), 1)
