"""The command-line options that several commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fraud_rules.configuration.detector_options import BOOTSTRAP_VARIABLE, option_of
from fraud_rules.configuration.project import Project, port_setting
from fraud_rules.errors import ConfigError, InputInvalid
from fraud_rules.kafka.connection import KafkaConnection

if TYPE_CHECKING:
    from fraud_rules.api_client import Client


def default_bootstrap(environ: Mapping[str, str] = os.environ) -> str:
    """The default bootstrap servers: FRAUD_BOOTSTRAP, else the broker that `fraud kafka broker start` starts."""
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


def command_group(text: str) -> typer.Typer:
    """A word of `fraud` that has subcommands. `text` is its help."""
    return typer.Typer(help=text, no_args_is_help=True, rich_markup_mode=None)


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


Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="FRAUD_CONTROL_URL",
        show_envvar=True,
        metavar="URL",
        show_default="that of make demo, after fraud login",
        help="Address of Airflow's API server, through which the control plane is reached.",
    ),
]
Direct = Annotated[bool, typer.Option("--direct", help="Use the rule log itself, without the control plane.")]
Comment = Annotated[
    str, typer.Option("--comment", help="The reason, for the history. A request for approval needs one.")
]
Wait = Annotated[
    float, typer.Option("--wait", min=0, max=3600, help="With --direct: seconds to wait until the detector has it.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the changes, but write nothing.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="File to write.", show_default="stdout")]


def token_file() -> Path:
    """The file in which `fraud login` saves the token."""
    return Path(os.environ.get("FRAUD_CONTROL_TOKEN_FILE") or Project.find().var / "control-token")


def airflow_url(url: str | None) -> str:
    """The address of Airflow's API server: this one, else that of `make demo`."""
    return url or f"http://127.0.0.1:{port_setting('FRAUD_AIRFLOW_PORT', 8080)}"


def connect(url: str | None) -> Client:
    """The client of the control plane. Raises ConfigError without a token."""
    from fraud_rules.api_client import Client

    return Client(airflow_url(url), token_file())


def control_plane(url: str | None, *, direct: bool, writes: bool = False) -> Client | None:
    """The client of the control plane. None stands for the rule log itself: with `direct`, or for a read if neither an
    address nor a token is configured. A direct write prints a warning; a write with neither raises ConfigError.
    """
    from fraud_rules.api_client import TOKEN_VARIABLE

    if not direct and (url is not None or TOKEN_VARIABLE in os.environ or token_file().exists()):
        return connect(url)
    if direct and writes:
        sys.stderr.write("fraud: warning: --direct bypasses the roles, approvals and audit log of the control plane\n")
    elif writes:
        raise ConfigError(
            "no control plane is configured: name it by --url or FRAUD_CONTROL_URL and run `fraud login`, or write to "
            "the rule log with --direct, which bypasses roles, approvals and the audit log"
        )
    return None


def refuse(place: str, **options: object) -> None:
    """Raise InputInvalid for an option with a value: it exists elsewhere, but not in this place."""
    for name, value in options.items():
        if value:
            raise InputInvalid(f"--{name} has no meaning {place}")


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
            read = datetime.fromisoformat(text)
            at = read if read.tzinfo is not None else read.replace(tzinfo=UTC)
        return max(0, int(at.timestamp() * 1_000))
    except (ValueError, OverflowError, IndexError) as error:
        raise InputInvalid(f"{text[:40]!r} is not a time: write 30m, 12h, 7d, or 2026-11-20T12:00") from error
