"""`fraud login` and `fraud tokens`: the tokens of a person and of programs."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Final
from urllib.parse import quote

import typer

from fraud_rules.cli.display.api_answers import format_time, print_table
from fraud_rules.cli.display.output import print_json, printable
from fraud_rules.cli.options import ASKS, AsJson, Url, airflow_url, command_group, connect, token_file
from fraud_rules.errors import InputInvalid

_DAYS: Final = 90
_PASSWORD: Final = "FRAUD_CONTROL_PASSWORD"  # noqa: S105 - the name of a variable

app = command_group("Tokens for programs: each acts as its owner, with at most its role.")


def login(
    user: Annotated[str, typer.Option("--user", help="User of Airflow.", show_default=False, prompt=ASKS)],
    url: Url = None,
) -> None:
    """Log in at Airflow, and save the token for the commands that use the control plane.

    The command asks for the password; a program sets FRAUD_CONTROL_PASSWORD.

    \b
    Examples:
      fraud login --user anna
    """
    from fraud_rules.api_client import request_token, save_token

    password = os.environ.get(_PASSWORD)
    if password is None:
        if not ASKS:
            raise InputInvalid(f"there is no terminal to ask for the password: set {_PASSWORD}")
        password = typer.prompt("Password", hide_input=True)
    path = token_file()
    save_token(path, request_token(airflow_url(url), user, password))
    print(f"saved the token of {user} to {path}, readable for its owner only")


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Name of the program, for the audit log.", show_default=False)],
    role: Annotated[
        str,
        typer.Option("--role", help="Highest role: viewer, auditor, analyst, approver or admin.", show_default=False),
    ],
    url: Url = None,
    days: Annotated[int, typer.Option("--days", min=1, max=366, help="Days until it expires.")] = _DAYS,
    as_json: AsJson = False,
) -> None:
    """Create a token, and print its secret, which nothing shows again.

    \b
    Examples:
      fraud tokens create nightly-lists --role analyst --days 30
    """
    from fraud_rules.api_client import TOKEN_VARIABLE

    made, _ = connect(url).change("POST", "/tokens", {"name": name, "role": role, "expiresInDays": days})
    if as_json:
        print_json(made)
        return
    print(made["secret"])
    until = format_time(made["token"]["expiresAt"])
    sys.stderr.write(f"valid until {until}; the program sets {TOKEN_VARIABLE} to this secret\n")


@app.command(name="list")
def list_tokens(url: Url = None, as_json: AsJson = False) -> None:
    """Show your tokens; an admin sees all.

    \b
    Examples:
      fraud tokens list
    """
    found = connect(url).get("/tokens")["items"]
    if as_json:
        print_json(found)
        return
    rows = (
        (each["id"], each["name"], each["owner"], each["role"], format_time(each["createdAt"]),
         format_time(each["expiresAt"]))
        for each in found
    )  # fmt: skip
    print_table(("token", "name", "owner", "role", "created", "expires"), rows, "there are no tokens")


@app.command()
def revoke(
    token_id: Annotated[str, typer.Argument(help="Id of the token.", show_default=False)],
    url: Url = None,
) -> None:
    """Revoke a token. An admin can revoke any.

    \b
    Examples:
      fraud tokens revoke 0123456789ab
    """
    connect(url).change("DELETE", f"/tokens/{quote(token_id, safe='')}")
    print(f"revoked the token {printable(token_id)}")
