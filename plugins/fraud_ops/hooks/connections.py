"""What Airflow's connections say, as values. A connection that is missing, or says too little, is an error by name.

Nothing secret leaves here but inside a `KafkaConnection`, which hides it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from fraud_rules.errors import ConfigError
from fraud_rules.kafka.connection import KafkaConnection

__all__ = ["KAFKA", "SPARK", "async_connection", "connection", "kafka_of", "master_of"]

KAFKA = "fraud_kafka"
"""The broker: a connection of type Kafka, whose extra has `bootstrap.servers` and the client's SASL and TLS options."""

SPARK = "spark_default"
"""Spark: its host is the master; its extra has the checkpoint root and what else a release says of Spark."""

_BOOTSTRAP = "bootstrap.servers"


def connection(conn_id: str) -> Connection:
    """An Airflow connection. Raises ConfigError when there is none."""
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise _missing(conn_id) from error


async def async_connection(conn_id: str) -> Connection:
    """The same, where an event loop must not wait."""
    try:
        return await BaseHook.aget_connection(conn_id)
    except AirflowNotFoundException as error:
        raise _missing(conn_id) from error


def kafka_of(found: Connection) -> KafkaConnection:
    """The broker of a connection. Raises ConfigError with everything wrong in it."""
    options: Mapping[str, Any] = found.extra_dejson
    bootstrap = options.get(_BOOTSTRAP)
    if not isinstance(bootstrap, str) or not bootstrap:
        raise ConfigError(f"the Airflow connection {found.conn_id} has no {_BOOTSTRAP} in its extra: add it")
    security = {name: str(value) for name, value in options.items() if name != _BOOTSTRAP}
    return KafkaConnection.of(bootstrap, security, f"the Airflow connection {found.conn_id}")


def master_of(found: Connection) -> str:
    """Spark's master, as SparkSubmitHook understands it. Raises ConfigError when the connection names none."""
    if not found.host:
        raise ConfigError(
            f"the Airflow connection {found.conn_id} names no master: set its host (local[2,4], spark://h, yarn, ...)"
        )
    named = found.host if "://" in found.host or not found.port else f"{found.conn_type}://{found.host}"
    return f"{named}:{found.port}" if found.port else named


def _missing(conn_id: str) -> ConfigError:
    return ConfigError(f"there is no Airflow connection {conn_id}: make it (Admin, Connections); nothing is assumed")
