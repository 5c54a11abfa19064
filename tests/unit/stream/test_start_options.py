"""The options of a start for Spark and metrics: wrong values are named before any process starts."""

from __future__ import annotations

import socket
import urllib.request
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, Gauge

from fraud_rules.configuration.project import Project
from fraud_rules.errors import ConfigError, MasterUnavailable, PortInUse
from fraud_rules.logs.detector_status import BatchLatency, BatchProgress
from fraud_rules.runtime.metrics_server import serving
from fraud_rules.spark.master import check_master
from fraud_rules.spark.session import SparkOptions, check_options
from fraud_rules.stream.driver.metrics import DetectorMetrics
from tests.support.ports import free_ports


@pytest.fixture
def options(project: Project) -> SparkOptions:
    return SparkOptions()


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local[2,4]", "yarn", "k8s://https://host:443"])
def test_masters_that_spark_knows(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize("master", ["", "spark", "local[]", "local[2", "spark://host", "yarn-client", "sc://host"])
def test_masters_that_it_does_not(master: str) -> None:
    with pytest.raises(MasterUnavailable, match="is not a Spark master"):
        check_master(master)


def test_a_standalone_master_must_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check_master(f"spark://127.0.0.1:{port}")
        (closed,) = free_ports(1)
        check_master(f"spark://127.0.0.1:{closed},127.0.0.1:{port}")  # one of two stands by
    with pytest.raises(MasterUnavailable, match=f"127.0.0.1:{closed}"):
        check_master(f"spark://127.0.0.1:{closed}")


@pytest.mark.parametrize("memory", ["512m", "600m", "600M", "1g", "2048", "1536mb"])
def test_memory_that_is_enough(options: SparkOptions, memory: str) -> None:
    check_options(replace(options, driver_memory=memory))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"driver_memory": "511m"}, "too little"),
        ({"driver_memory": "much"}, "not an amount of memory"),
        ({"further": {"spark.python.daemon.module": "mine"}}, "exactly-once results depend"),
    ],
)
def test_an_impossible_option_is_named(options: SparkOptions, change: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_options(replace(options, **change))  # type: ignore[arg-type]


def test_metrics_are_served_where_they_should_be() -> None:
    metrics = DetectorMetrics("cards")
    latency = BatchLatency(6, 10, 1, 2, 3, p50_ms=200, p99_ms=400)
    progress = BatchProgress("q", 7, {}, 0, [], 10, 1, 2, 0, 0, 0, 3, 40, lag=5, watermark=9_000, previous=latency)
    metrics.add_batch(progress)
    metrics.add_batch(progress)
    (port,) = free_ports(1)
    with (
        serving(f"127.0.0.1:{port}", metrics.registry),
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer,
    ):
        text = answer.read().decode()
    for line in (
        "batches_total",
        "transactions_total",
        "batch_id",
        "waiting_transactions",
        "watermark_timestamp_seconds",
    ):
        assert f'fraud_detector_{line}{{detector="cards"}}' in text
    assert 'fraud_detector_transactions_total{detector="cards"} 20.0' in text
    assert 'fraud_detector_latency_seconds{detector="cards",quantile="0.99"} 0.4' in text


def test_no_address_serves_nothing() -> None:
    with serving("", CollectorRegistry()):
        pass


def test_a_port_of_another_process_is_named() -> None:
    registry = CollectorRegistry()
    Gauge("one", "of them", registry=registry)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(PortInUse, match=address), serving(address, registry):
            pass
    with pytest.raises(ConfigError, match="not a valid address"), serving("9108", registry):
        pass
