"""`fraud lists`: lists of values through the control plane; as files also in the rule log itself (--direct)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fraud_rules.cli.collection_changes import RequestedChange, make_change
from fraud_rules.cli.collection_commands import FILE, VALUES, add_shared_commands
from fraud_rules.cli.options import AsJson, Comment, Url, command_group
from fraud_rules.model.value_list import CollectionKind, ListOperation, ListType

app = command_group("Lists of values, through the control plane; as files also in the rule log itself (--direct).")

Name = Annotated[str, typer.Argument(help="Name of the list.", show_default=False)]


@app.command(name="set")
def set_list(
    name: Name,
    values: list[str] | None = VALUES[CollectionKind.LIST],
    file: Path | None = FILE[CollectionKind.LIST],
    value_type: Annotated[
        ListType | None, typer.Option("--type", help="Type of the values.", show_default="the list's own, else long")
    ] = None,
    url: Url = None,
    comment: Comment = "",
    as_json: AsJson = False,
) -> None:
    """Create a list, or give it exactly these values.

    \b
    Examples:
      fraud lists set mules 1001 1002
      fraud lists set mules --file mules.txt
      fraud lists set types CSH --type string
    """
    change = RequestedChange(ListOperation.SET, name, values, file, value_type)
    make_change(change, url, comment, as_json=as_json)


add_shared_commands(app, CollectionKind.LIST)
