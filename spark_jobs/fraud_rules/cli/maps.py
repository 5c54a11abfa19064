"""`fraud maps`: maps of keys to values through the control plane; as files also in the rule log itself (--direct)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fraud_rules.cli.collection_changes import RequestedChange, make_change
from fraud_rules.cli.collection_commands import FILE, VALUES, add_shared_commands
from fraud_rules.cli.options import AsJson, Comment, Url, command_group
from fraud_rules.model.collection_history import CollectionType
from fraud_rules.model.value_list import CollectionKind, ListOperation, ListType
from fraud_rules.model.value_map import MapType, MapValueType

app = command_group(
    "Maps of keys to values, through the control plane; as files also in the rule log itself (--direct)."
)

Name = Annotated[str, typer.Argument(help="Name of the map.", show_default=False)]


@app.command(name="set")
def set_map(
    name: Name,
    entries: list[str] | None = VALUES[CollectionKind.MAP],
    file: Path | None = FILE[CollectionKind.MAP],
    key_type: Annotated[
        ListType | None, typer.Option("--key-type", help="Type of the keys.", show_default="the map's own, else long")
    ] = None,
    value_type: Annotated[
        MapValueType | None,
        typer.Option("--value-type", help="Type of the values.", show_default="the map's own, else decimal"),
    ] = None,
    url: Url = None,
    comment: Comment = "",
    as_json: AsJson = False,
) -> None:
    """Create a map, or give it exactly these entries.

    \b
    Examples:
      fraud maps set limits 7=250 8=99.50
      fraud maps set limits --file limits.csv
      fraud maps set regions de=low --key-type string --value-type string
    """
    of_type = _type_of(key_type, value_type)
    change = RequestedChange(ListOperation.SET, name, entries, file, of_type, CollectionKind.MAP)
    make_change(change, url, comment, as_json=as_json)


add_shared_commands(app, CollectionKind.MAP)


def _type_of(key_type: ListType | None, value_type: MapValueType | None) -> CollectionType | None:
    if key_type is None and value_type is None:
        return None
    return MapType(key_type or ListType.LONG, value_type or MapValueType.DECIMAL)
