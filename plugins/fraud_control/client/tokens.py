"""`fraud control tokens`: tokens with which programs use the API."""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import quote

import typer

from fraud_control.client.connection import TOKEN_VARIABLE
from fraud_control.client.display import format_time, print_table
from fraud_control.client.options import AsJson, TokenFile, Url, connect
from fraud_control.domain.program_token import MOST_DAYS
from fraud_control.domain.roles import Role
from fraud_rules.cli.display.output import print_json, printable

__all__ = ["app"]

_DAYS: Final = 90

app = typer.Typer(
    help="Tokens for programs: each acts as its owner, with at most its role.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Name of the program, for the audit log.", show_default=False)],
    role: Annotated[Role, typer.Option("--role", help="Highest role of the program.", show_default=False)],
    url: Url,
    token_file: TokenFile = None,
    days: Annotated[int, typer.Option("--days", min=1, max=MOST_DAYS, help="Days until it expires.")] = _DAYS,
    as_json: AsJson = False,
) -> None:
    """Create a token, and print its secret, which nothing shows again.

    \b
    Examples:
      fraud control tokens create nightly-lists --role analyst --days 30
    """
    with connect(url, token_file) as client:
        made, _ = client.change("POST", "/tokens", {"name": name, "role": role.value, "expiresInDays": days})
    if as_json:
        print_json(made)
        return
    typer.echo(made["secret"])
    until = format_time(made["token"]["expiresAt"])
    typer.echo(f"valid until {until}; the program sets {TOKEN_VARIABLE} to this secret", err=True)


@app.command(name="list")
def list_tokens(url: Url, token_file: TokenFile = None, as_json: AsJson = False) -> None:
    """Show your tokens; an admin sees all.

    \b
    Examples:
      fraud control tokens list
    """
    with connect(url, token_file) as client:
        found = client.get("/tokens")["items"]
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
    url: Url,
    token_file: TokenFile = None,
) -> None:
    """Revoke a token. An admin can revoke any.

    \b
    Examples:
      fraud control tokens revoke 0123456789ab
    """
    with connect(url, token_file) as client:
        client.change("DELETE", f"/tokens/{quote(token_id, safe='')}")
    typer.echo(f"revoked the token {printable(token_id)}")
