"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated

import typer

from fraud_rules.kafka.connection import KafkaConnection

BOOTSTRAP_VARIABLE = "FRAUD_BOOTSTRAP"


def default_bootstrap(environ: Mapping[str, str] = os.environ) -> str:
    """Where Kafka is when no option says so: FRAUD_BOOTSTRAP, else the broker that `fraud broker start` starts."""
    from fraud_rules.kafka.broker import HOST, PORT_VARIABLE
    from fraud_rules.project import port_setting

    return environ.get(BOOTSTRAP_VARIABLE) or f"{HOST}:{port_setting(PORT_VARIABLE, 9092, environ)}"


Kafka = Annotated[
    KafkaConnection,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT,...",
        parser=KafkaConnection.load,
        default_factory=default_bootstrap,
        show_default="FRAUD_BOOTSTRAP, else the local broker",
        help="Kafka's bootstrap servers. SASL and TLS: see FRAUD_KAFKA_PROPERTIES in docs/cli.md.",
    ),
]
