"""`fraud control lists`: lists of values through the API."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from fraud_control.client.display import format_time, print_change, print_table, read_file, write_file
from fraud_control.client.options import AsJson, Comment, TokenFile, Url, connect
from fraud_rules.cli.display.output import print_json
from fraud_rules.errors import InputInvalid
from fraud_rules.model.value_list import ListOperation, ListType

__all__ = ["app"]

app = typer.Typer(
    help="Lists of values, through the API: with the role of a user, approvals and history.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(help="Name of the list.", show_default=False)]
Values = Annotated[list[str] | None, typer.Argument(help="Values.", show_default=False)]
File = Annotated[
    Path | None, typer.Option("--file", help="File with one value per line; - is stdin.", show_default=False)
]


@app.command(name="list")
def list_lists(url: Url, token_file: TokenFile = None, as_json: AsJson = False) -> None:
    """Show all lists with their sizes and the rules that use them.

    \b
    Examples:
      fraud control lists list
    """
    with connect(url, token_file) as client:
        found = client.get("/lists")["items"]
    if as_json:
        print_json(found)
        return
    rows = (
        (each["name"], each["type"], f"{each['size']:,}", each["revision"], format_time(each["updatedAt"]),
         ", ".join(str(rule["ruleId"]) for rule in each["rules"]))
        for each in found
    )  # fmt: skip
    print_table(("list", "type", "values", "revision", "changed", "rules"), rows, "there are no lists")


@app.command()
def show(
    name: Name,
    url: Url,
    token_file: TokenFile = None,
    output: Annotated[Path | None, typer.Option("--output", help="File; default: standard output.")] = None,
) -> None:
    """Write the values of a list as a file.

    \b
    Examples:
      fraud control lists show mules
    """
    with connect(url, token_file) as client:
        write_file(client.text(f"/lists/{quote(name, safe='')}/export"), output)


@app.command()
def create(
    name: Name,
    url: Url,
    token_file: TokenFile = None,
    values: Values = None,
    file: File = None,
    value_type: Annotated[ListType, typer.Option("--type", help="Type of the values.")] = ListType.LONG,
    comment: Comment = "",
    as_json: AsJson = False,
) -> None:
    """Create a list with these values.

    \b
    Examples:
      fraud control lists create mules 1001 1002
    """
    body = _input(values, file) | {"name": name, "type": value_type.value, "comment": comment}
    with connect(url, token_file) as client:
        found, waits = client.change("POST", "/lists", body)
    print_change(found, _place(found), waits=waits, as_json=as_json)


@app.command(name="set")
def set_list(
    name: Name,
    url: Url,
    token_file: TokenFile = None,
    values: Values = None,
    file: File = None,
    comment: Comment = "",
    as_json: AsJson = False,
) -> None:
    """Give a list exactly these values.

    \b
    Examples:
      fraud control lists set mules --file mules.txt
    """
    _change(name, ListOperation.SET, url, token_file, values, file, comment, as_json=as_json)


@app.command()
def add(
    name: Name,
    url: Url,
    token_file: TokenFile = None,
    values: Values = None,
    file: File = None,
    comment: Comment = "",
    as_json: AsJson = False,
) -> None:
    """Add values to a list.

    \b
    Examples:
      fraud control lists add mules 1003 --comment "case 12"
    """
    _change(name, ListOperation.ADD, url, token_file, values, file, comment, as_json=as_json)


@app.command()
def remove(
    name: Name,
    url: Url,
    token_file: TokenFile = None,
    values: Values = None,
    file: File = None,
    comment: Comment = "",
    as_json: AsJson = False,
) -> None:
    """Remove values from a list.

    \b
    Examples:
      fraud control lists remove mules 1003
    """
    _change(name, ListOperation.REMOVE, url, token_file, values, file, comment, as_json=as_json)


@app.command()
def delete(name: Name, url: Url, token_file: TokenFile = None, comment: Comment = "", as_json: AsJson = False) -> None:
    """Delete a list. The command fails while a rule names the list.

    \b
    Examples:
      fraud control lists delete mules
    """
    _send(name, ListOperation.DELETE, url, token_file, {}, comment, as_json=as_json)


def _change(
    name: str,
    operation: ListOperation,
    url: str,
    token_file: Path | None,
    values: list[str] | None,
    file: Path | None,
    comment: str,
    *,
    as_json: bool,
) -> None:
    _send(name, operation, url, token_file, _input(values, file), comment, as_json=as_json)


def _send(
    name: str,
    operation: ListOperation,
    url: str,
    token_file: Path | None,
    content: dict[str, object],
    comment: str,
    *,
    as_json: bool,
) -> None:
    path = f"/lists/{quote(name, safe='')}"
    body = content | {"operation": operation.value, "comment": comment}
    with connect(url, token_file) as client:
        whole = operation in (ListOperation.SET, ListOperation.DELETE)
        revision = client.get(path)["revision"] if whole else None
        found, waits = client.change("POST", f"{path}/changes", body, revision)
    if found is None:
        print_change({"name": name, "deleted": True}, f"list {name}: deleted", waits=waits, as_json=as_json)
    else:
        print_change(found, _place(found), waits=waits, as_json=as_json)


def _input(values: list[str] | None, file: Path | None) -> dict[str, object]:
    """The values of a request, given as words or as a file."""
    if (file is None) == (not values):
        raise InputInvalid("give either values or --file")
    if file is None:
        return {"values": values}
    return {"content": read_file(file)}


def _place(found: dict[str, Any]) -> str:
    return f"list {found['name']}: {found['size']:,} values, revision {found['revision']}"
