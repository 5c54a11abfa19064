"""The command-line options that several commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from fraud_rules.configuration.detector_options import BOOTSTRAP_VARIABLE, option_of
from fraud_rules.errors import InputInvalid
from fraud_rules.kafka.connection import KafkaConnection


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
        help="Kafka's bootstrap servers. SASL and TLS: see FRAUD_KAFKA_PROPERTIES in docs/reference.md.",
    ),
]


ASKS: Final = sys.stdin is not None and sys.stdin.isatty()
"""Whether a command asks for a missing value. Without a terminal the option is required, so the error names it."""

_SHORTEST_EPOCH_MS, _LONGEST_EPOCH_MS = 10, 15  # digits; a date has eight

KEYS_FILE: Final = "intent-keys"
"""The default name of the file with the keys for intents, in the agent's home."""

INTENT_KEYS_VARIABLE: Final = "FRAUD_INTENT_KEYS"

IntentKeysFile = Annotated[
    Path | None,
    typer.Option(
        "--intent-keys",
        envvar=INTENT_KEYS_VARIABLE,
        show_envvar=True,
        metavar="FILE",
        help="File with the keys that sign intents. The agent creates it.",
        show_default=f"var/agent/{KEYS_FILE}",
    ),
]


MaxRejected = Annotated[
    float,
    typer.Option(
        "--max-rejected",
        min=0.0,
        max=1.0,
        metavar="SHARE",
        help="The share of records that may be unreadable. With more, nothing is done.",
    ),
]
HistoryDryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only print the first payments as understood, and what is unreadable.")
]


def declared(name: str, *, shown: str | bool = True) -> Any:
    """The option of a detector of this name. `shown` replaces the default in the help."""
    option = option_of(name)
    return typer.Option(option.flag, help=option.help, metavar=option.metavar, min=option.at_least, show_default=shown)


Master = Annotated[str, declared("master")]
Tasks = Annotated[int | None, declared("tasks", shown="the cores")]
DriverMemory = Annotated[str, declared("driver_memory")]
SparkConf = Annotated[list[str] | None, declared("spark_conf", shown=False)]
UiPort = Annotated[int | None, declared("ui_port", shown="no UI")]
Jars = Annotated[Path | None, declared("jars", shown="lib/connector")]
Metrics = Annotated[str, declared("metrics", shown="no metrics")]
Resume = Annotated[bool, declared("resume")]
Partial = Annotated[bool, declared("partial")]
AcceptLoss = Annotated[bool, declared("accept_loss")]


def time_ms_of(text: str) -> int:
    """The time of an option: an age such as `12h`, an ISO time, by default in UTC, or epoch ms. Raises InputInvalid."""
    if text.isdecimal() and _SHORTEST_EPOCH_MS <= len(text) <= _LONGEST_EPOCH_MS:
        return int(text)
    units = {"m": "minutes", "h": "hours", "d": "days"}
    try:
        if text[-1] in units and text[:-1].isdecimal():
            at = datetime.now(UTC) - timedelta(**{units[text[-1]]: int(text[:-1])})
        else:
            given = datetime.fromisoformat(text)
            at = given if given.tzinfo is not None else given.replace(tzinfo=UTC)
        return max(0, int(at.timestamp() * 1_000))
    except (ValueError, OverflowError, IndexError) as error:
        raise InputInvalid(f"{text[:40]!r} is not a time: write 30m, 12h, 7d, or 2026-11-20T12:00") from error
