"""The options that all commands of the client share."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from fraud_control.client.connection import Client
from fraud_rules.configuration.project import Project, port_setting

__all__ = ["AsJson", "Comment", "TokenFile", "Url", "connect", "local_url", "token_file_of"]

_PORT_VARIABLE: Final = "FRAUD_AIRFLOW_PORT"


def local_url(environ: Mapping[str, str] = os.environ) -> str:
    """The address of Airflow's API server in `make demo`."""
    return f"http://127.0.0.1:{port_setting(_PORT_VARIABLE, 8080, environ)}"


Url = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="FRAUD_CONTROL_URL",
        show_envvar=True,
        metavar="URL",
        default_factory=local_url,
        show_default="that of make demo",
        help="Address of Airflow's API server.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        envvar="FRAUD_CONTROL_TOKEN_FILE",
        show_envvar=True,
        metavar="FILE",
        help="File with the token. FRAUD_CONTROL_TOKEN replaces it.",
        show_default="var/control-token",
    ),
]
Comment = Annotated[
    str, typer.Option("--comment", help="The reason, for the history. A request for approval needs one.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def token_file_of(named: Path | None) -> Path:
    """The file with the token."""
    return named or Project.find().root / "var" / "control-token"


def connect(url: str, token_file: Path | None) -> Client:
    """Connect with the token of the file. Raises ConfigError."""
    return Client(url, token_file_of(token_file))
