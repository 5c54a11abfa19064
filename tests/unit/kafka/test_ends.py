"""The ends of partitions, at a broker that is in trouble."""

from __future__ import annotations

import pytest

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.ends import TopicEnds
from tests.support.kafka.fenced_broker import fenced_broker


@pytest.mark.parametrize("asked", ["written", "committed"])
def test_a_broker_that_knows_no_living_broker_does_not_end_the_process(asked: str) -> None:
    """librdkafka aborts the process if such a broker describes the cluster."""
    with fenced_broker() as bootstrap:
        ends = TopicEnds(KafkaConnection(bootstrap))
        with pytest.raises(BrokerUnavailable):
            getattr(ends, asked)({"t": [0]})
