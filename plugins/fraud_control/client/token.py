"""`fraud control token`: gets a token for the client's commands."""

from __future__ import annotations

from typing import Annotated

import typer

from fraud_control.client.connection import request_token, save_token
from fraud_control.client.options import TokenFile, Url, token_file_of
from fraud_rules.cli.options import ASKS

__all__ = ["token"]


def token(
    user: Annotated[str, typer.Option("--user", help="User of Airflow.", show_default=False)],
    password: Annotated[
        str,
        typer.Option(
            "--password",
            envvar="FRAUD_CONTROL_PASSWORD",
            show_envvar=True,
            prompt=ASKS,
            hide_input=True,
            show_default=False,
            help="Better given at the prompt: other users of the host see arguments.",
        ),
    ],
    url: Url,
    token_file: TokenFile = None,
) -> None:
    """Log in at Airflow, and save the token for the commands that use the API.

    \b
    Examples:
      fraud control token --user anna
    """
    path = token_file_of(token_file)
    save_token(path, request_token(url, user, password))
    typer.echo(f"saved the token of {user} to {path}, readable for its owner only")
