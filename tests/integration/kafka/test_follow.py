"""Topics are followed through interruptions of the broker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.consume import ReceivedRecord, follow
from fraud_rules.kafka.declared import load_topics
from tests.support.kafka.own_broker import running_broker
from tests.support.kafka.records import produce
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.recovery]

HOUR_S = 3_600.0


@dataclass
class Clock:
    """A clock of tests. The reader reads it while the broker seems to be unreachable."""

    now_s: float = 0.0
    asked: int = 0

    def __call__(self) -> float:
        self.asked += 1
        return self.now_s


@pytest.fixture
def own_broker(project: Project, tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path, project) as broker:
        yield broker


def test_each_interruption_has_its_own_patience(own_broker: Broker, project: Project) -> None:
    """This includes a topic without records in between, where no record shows that the broker is back."""
    (declared,) = [each for each in load_topics(project.config / "topics.yaml") if each.name == "rules"]
    topic_admin.apply(own_broker.kafka, [declared])
    clock = Clock()
    found: list[ReceivedRecord] = []
    following = follow(own_broker.kafka, {"rules": {0: 0}}, goes_on=lambda: True, poll_s=0.05, clock_s=clock)

    def step() -> None:
        received = next(following)
        if received is not None:
            found.append(received)

    def seems_away() -> bool:
        step()
        return clock.asked > asked

    def answers() -> bool:
        """The reader has no answer of the broker for an hour, sends a request, and continues."""
        clock.now_s += HOUR_S
        step()
        before = clock.asked
        step()
        return clock.asked == before

    produce(own_broker.bootstrap, "rules", [b"1"])
    until(lambda: step() or found, "the first record")
    asked = clock.asked
    own_broker.kill()
    until(seems_away, "the first interruption is detected")
    own_broker.start()
    until(answers, "the broker answers again")

    asked = clock.asked
    own_broker.kill()
    until(seems_away, "the reader detects the second interruption and does not give up at once")
    clock.now_s += HOUR_S
    with pytest.raises(BrokerUnavailable, match="not answered for 30 s"):
        until(step, "the reader gives up")
