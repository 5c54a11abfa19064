"""The command-line options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from fraud_rules.kafka.connection import KafkaConnection

BOOTSTRAP_VARIABLE = "FRAUD_BOOTSTRAP"


def default_bootstrap(environ: Mapping[str, str] = os.environ) -> str:
    """The default bootstrap servers: FRAUD_BOOTSTRAP, else the broker that `fraud broker start` starts."""
    from fraud_rules.configuration.project import port_setting
    from fraud_rules.kafka.broker import HOST, PORT_VARIABLE

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

Checkpoint = Annotated[
    str | None,
    typer.Option("--checkpoint", help="A folder, or a URI of a shared file system.", show_default="var/checkpoint"),
]
Master = Annotated[str, typer.Option("--master", help="Spark's master.")]
ShufflePartitions = Annotated[
    int,
    typer.Option("--shuffle-partitions", min=1, help="Parallel tasks of the stateful stage; a checkpoint fixes it."),
]
DriverMemory = Annotated[str, typer.Option("--driver-memory", help="Memory of the driver's JVM, 512m or more.")]
Jars = Annotated[
    Path | None, typer.Option("--jars", help="Folder of the connector's jars.", show_default="lib/connector")
]
Metrics = Annotated[
    str,
    typer.Option("--metrics", metavar="HOST:PORT", help="Serve metrics at this address.", show_default="no metrics"),
]
Resume = Annotated[bool, typer.Option("--resume", help="Lift a stop that the rule log requested.")]
AcceptLoss = Annotated[
    bool,
    typer.Option("--accept-loss", help="Continue without transactions that were removed before they were read."),
]
Partial = Annotated[
    bool, typer.Option("--partial", help="Rebuild even if retention has removed the beginning of the topics.")
]
