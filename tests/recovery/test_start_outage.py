"""The broker ends at each step of a start: the start ends by name, and the next one continues at the same marker.

The markers are handmade; Kafka is real.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.writer import BatchWriter
from fraud_rules.stream.driver import admission
from tests.support.kafka.own_broker import running_broker
from tests.support.recovery.handmade import HandmadeSite, handmade_site, later

pytestmark = [pytest.mark.recovery, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def own_broker(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("broker"), project) as broker:
        yield broker


@pytest.fixture(scope="module")
def site(own_broker: Broker, project: Project) -> Iterator[HandmadeSite]:
    with handmade_site(own_broker, project, pytest.fail) as site:
        site.start()  # the marker now has all members
        yield site


@pytest.mark.parametrize(
    ("owner", "step", "call"),
    [
        pytest.param(admission, "last_batch", 1, id="the first read of the check"),
        pytest.param(admission, "check_state", 1, id="the last read of the check"),
        pytest.param(BatchWriter, "open", 1, id="fencing"),
        pytest.param(admission, "read_marker", 2, id="the marker after fencing"),
        pytest.param(admission, "check_state", 2, id="the state after fencing"),
        pytest.param(admission, "find_losses", 2, id="the inputs"),
        pytest.param(admission, "amend", 1, id="the amendment"),
    ],
)
def test_an_outage_in_a_start(
    owner: Any, step: str, call: int, own_broker: Broker, site: HandmadeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = site.marker()
    with monkeypatch.context() as patch:
        patch.setattr(owner, step, ended_before(getattr(owner, step), call, own_broker))
        try:
            with pytest.raises(BrokerUnavailable):
                site.start()
        finally:
            own_broker.start()
    assert site.marker() == before, "nothing is written"
    assert site.start().marker == later(before)


def ended_before(function: Callable[..., Any], call: int, broker: Broker) -> Callable[..., Any]:
    """The function, before whose n-th call the broker ends."""
    calls = 0

    def wrapped(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            broker.kill()
        return function(*arguments, **options)

    return wrapped
