"""Requests about a partition whose leader has just changed."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from fraud_rules.kafka.reader import LEADER_CHANGES, with_leader


@pytest.mark.parametrize("code", LEADER_CHANGES)
def test_a_request_is_repeated_while_the_leader_is_new(code: int) -> None:
    errors = [KafkaException(KafkaError(code))] * 2

    def ask() -> int:
        if errors:
            raise errors.pop()
        return 7

    assert with_leader(ask) == 7
    assert not errors


def test_another_error_is_raised_at_once() -> None:
    asked = []

    def ask() -> None:
        asked.append(1)
        raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))

    with pytest.raises(KafkaException):
        with_leader(ask)
    assert len(asked) == 1
