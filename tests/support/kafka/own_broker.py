"""Brokers that a test may kill."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import Broker
from tests.support.ports import free_ports


@contextmanager
def running_broker(home: Path, project: Project) -> Iterator[Broker]:
    """A running broker on free ports. It is killed at the end of the block."""
    broker = Broker(home, *free_ports(2), project)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
