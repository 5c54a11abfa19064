"""Checks whether Kafka answers. Commands do this first, so that a missing broker is reported at once."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from fraud_rules.errors import BrokerUnavailable
from fraud_rules.kafka.connection import KafkaConnection

_TIMEOUT_S = 5.0


def require_broker(kafka: KafkaConnection, timeout_s: float = _TIMEOUT_S) -> None:
    """Raise BrokerUnavailable if no broker answers within `timeout_s`."""

    def ignore(error: KafkaError) -> None:
        """Keep the client from printing that the broker is unreachable."""

    client = AdminClient(kafka.confluent({"log_level": 0, "error_cb": ignore}))
    try:
        client.list_topics(timeout=timeout_s)
    except KafkaException as error:
        raise BrokerUnavailable(f"no Kafka answers at {kafka}: is it running? (fraud kafka broker start)") from error
