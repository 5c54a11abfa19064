"""Reads Airflow's connections as values. A missing or incomplete connection is a ConfigError.

Secrets leave this module only inside a `KafkaConnection`, which hides them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from fraud_rules.deploy.intent_keys import IntentKeys
from fraud_rules.errors import ConfigError
from fraud_rules.kafka.connection import KafkaConnection

KAFKA = "fraud_kafka"
"""The broker: a connection of type Kafka. Its extra has `bootstrap.servers` and the client's SASL and TLS options."""

SPARK = "spark_default"
"""Spark: the host is the master. The extra has the Spark options of a release."""

INTENT_KEY = "fraud_intent_key"
"""The keys that sign intents: the password has one or two keys of the agent's file."""

_BOOTSTRAP = "bootstrap.servers"


def connection(conn_id: str) -> Connection:
    """An Airflow connection. Raises ConfigError if it is missing."""
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise _missing(conn_id) from error


async def async_connection(conn_id: str) -> Connection:
    """Like `connection`, for an event loop."""
    try:
        return await BaseHook.aget_connection(conn_id)
    except AirflowNotFoundException as error:
        raise _missing(conn_id) from error


def kafka_of(found: Connection) -> KafkaConnection:
    """The broker of a connection. Raises ConfigError with all faults of the connection."""
    options: Mapping[str, Any] = found.extra_dejson
    bootstrap = options.get(_BOOTSTRAP)
    if not isinstance(bootstrap, str) or not bootstrap:
        raise ConfigError(f"the Airflow connection {found.conn_id} has no {_BOOTSTRAP} in its extra: add it")
    security = {name: str(value) for name, value in options.items() if name != _BOOTSTRAP}
    return KafkaConnection.of(bootstrap, security, f"the Airflow connection {found.conn_id}")


def intent_keys_of(found: Connection) -> IntentKeys:
    """The keys of a connection. Raises ConfigError if it has none."""
    return IntentKeys(found.password or "", f"the password of the Airflow connection {found.conn_id}")


def master_of(found: Connection) -> str:
    """Spark's master in the form of SparkSubmitHook. Raises ConfigError if the connection has no host."""
    if not found.host:
        raise ConfigError(
            f"the Airflow connection {found.conn_id} has no master: set its host (local[2,4], spark://h, yarn, ...)"
        )
    named = found.host if "://" in found.host or not found.port else f"{found.conn_type}://{found.host}"
    return f"{named}:{found.port}" if found.port else named


def _missing(conn_id: str) -> ConfigError:
    return ConfigError(f"the Airflow connection {conn_id} is missing: create it (Admin, Connections)")
