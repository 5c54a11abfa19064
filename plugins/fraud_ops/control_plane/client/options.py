"""The options that all commands of the client share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from fraud_ops.control_plane.client.connection import Client
from fraud_rules.configuration.project import Project

__all__ = ["LOCAL_URL", "AsJson", "Comment", "TokenFile", "Url", "connect", "token_file_of"]

LOCAL_URL: Final = "http://127.0.0.1:8080"
"""The API server of `make demo`."""

Url = Annotated[
    str,
    typer.Option(
        "--url", envvar="FRAUD_CONTROL_URL", show_envvar=True, metavar="URL", help="Address of Airflow's API server."
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
Comment = Annotated[str, typer.Option("--comment", help="The reason, for the history and the approver.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def token_file_of(given: Path | None) -> Path:
    """The file with the token."""
    return given or Project.find().root / "var" / "control-token"


def connect(url: str, token_file: Path | None) -> Client:
    """Connect with the token of the file. Raises ConfigError."""
    return Client(url, token_file_of(token_file))
