"""Repeated failures under load: supervision replaces a lost driver. Kills within Airflow do not affect the detector.

`make chaos` runs these tests, each scenario five times (FRAUD_TIMES).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from fraud_local.airflow import Component
from fraud_rules.configuration.project import Project
from fraud_rules.runtime.clock import now_ms
from tests.support.processes.healthy import await_healthy
from tests.support.processes.supervised import Supervised, restart, supervised

pytestmark = [pytest.mark.recovery, pytest.mark.long, pytest.mark.timeout(3_600)]

TIMES = int(os.environ.get("FRAUD_TIMES", "5"))


@pytest.fixture(scope="module")
def world(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervised]:
    with supervised(project, tmp_path_factory.mktemp("supervised")) as world:
        yield world


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_driver_that_dies_or_hangs_is_replaced(world: Supervised, number: signal.Signals) -> None:
    for _ in range(TIMES):
        world.lose_driver(number)


@pytest.mark.parametrize("component", list(Component))
def test_the_detector_is_unaffected_by_a_killed_component(world: Supervised, component: Component) -> None:
    before, driver = world.attempt().status, world.driver().pid
    for _ in range(TIMES):
        restart(world.site, component)
        since_ms = now_ms()
        world.await_batches(5)
        await_healthy(world.site.airflow)
        world.await_supervision(since_ms)
        assert world.driver().pid == driver
    assert world.attempt().status.epoch == before.epoch


def test_every_alert_of_the_installation_is_right(world: Supervised) -> None:
    verdict = world.check_run()
    assert verdict.right, verdict.faults
