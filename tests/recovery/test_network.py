"""A detector whose network to the broker is slow, loses packets, or is cut for longer than a transaction may last."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.broker import Broker
from tests.support.kafka.own_topics import own_topics
from tests.support.network import PortNetwork, needs_root_and, own_network
from tests.support.ports import free_ports
from tests.support.recovery.site import Site
from tests.support.waiting import MOMENT_S, until

pytestmark = [
    pytest.mark.recovery,
    pytest.mark.long,
    pytest.mark.timeout(1_800),
    *needs_root_and("iptables", "tc"),
]

ROWS = 400
SLOW, SLOWEST = "500kbit", "100kbit"
LOST = 0.2
TRANSACTION_S = 60.0
"""The longest time that the broker keeps a transaction of the detector open."""


def test_alerts_are_right_through_a_bad_network(project: Project, tmp_path: Path) -> None:
    with own_network():
        port, controller = free_ports(2)
        broker, network = Broker(tmp_path / "broker", port, controller, project), PortNetwork(port)
        broker.start()
        try:
            with (
                own_topics(broker, project) as topics,
                (site := Site(tmp_path / "site", project, topics, seed=29)).working(ROWS),
            ):
                run(site, network)
        finally:
            network.heal()
            broker.kill()


def run(site: Site, network: PortNetwork) -> None:
    site.start()
    site.await_work()
    took_s = {}

    network.slow(SLOW)
    took_s["slow"] = timed(site)
    network.heal()
    assert len(site.starts) == 1, "a slow network ends no detector"

    network.lose(LOST)
    took_s["lossy"] = timed(site)
    lost = network.dropped()
    network.heal()
    assert lost > 20

    # At any moment: a batch that reads may end the detector, by name.
    ended_s = [outage(site, network)]
    took_s["after outage 1"] = timed(site)

    # The broker ends the transaction during the outage.
    network.slow(SLOWEST)
    until(lambda: site.watch.newest("written") > site.watch.batch_id, "a transaction is open", 300, MOMENT_S)
    cut, starts = site.starts[-1], len(site.starts)
    ended_s.append(outage(site, network))
    took_s["after outage 2"] = timed(site)
    assert len(site.starts) == starts + 1, "an outage that is longer than the open transaction ends the detector, once"
    assert cut.exit_code == BrokerUnavailable.exit_code, cut.said()[-2000:]

    site.finish()
    counts = site.check_outputs()
    figures = {name: round(seconds, 1) for name, seconds in took_s.items()}
    print(f"network: {counts}, {len(site.starts)} starts, {lost} packets lost, ended {ended_s}, {figures}")  # noqa: T201


def outage(site: Site, network: PortNetwork) -> float | None:
    """Cut the network for longer than a transaction may last. Return the seconds until it ended the detector, if so."""
    network.cut()
    ended_s = await_end(site, TRANSACTION_S + 30.0)
    network.heal()
    return ended_s


def timed(site: Site) -> float:
    """The seconds until three more batches are written."""
    began = time.monotonic()
    site.await_work_supervised()
    return time.monotonic() - began


def await_end(site: Site, outage_s: float) -> float | None:
    """Wait for the length of an outage. Return the seconds after which it has ended the detector, if it has."""
    began, ended_s = time.monotonic(), None
    while time.monotonic() - began < outage_s:
        if ended_s is None and site.starts[-1].exit_code is not None:
            ended_s = round(time.monotonic() - began, 1)
        time.sleep(0.2)
    return ended_s
