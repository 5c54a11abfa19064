"""`fraud maps`: maps of keys to values in the rule log itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fraud_rules.cli.collection_changes import (
    RequestedChange,
    change_directly,
    known_collection,
    read_log,
    save_directly,
)
from fraud_rules.cli.configured import load_context
from fraud_rules.cli.display import collection_tables as show
from fraud_rules.cli.display.api_answers import write_file
from fraud_rules.cli.options import AsJson, Direct, DryRun, Kafka, Output, Wait, command_group
from fraud_rules.codec.rules.collections.files import export_collections
from fraud_rules.codec.rules.export import RuleFormat
from fraud_rules.errors import InputInvalid
from fraud_rules.model.value_list import CollectionKind, ListOperation, ListType
from fraud_rules.model.value_map import MapType, MapValueType

app = command_group("Maps of keys to values, in the rule log itself: commands that write need --direct.")

Name = Annotated[str, typer.Argument(help="Name of the map.", show_default=False)]
Entries = Annotated[list[str] | None, typer.Argument(help="Entries, as key=value.", show_default=False)]
Keys = Annotated[list[str] | None, typer.Argument(help="Keys.", show_default=False)]
File = Annotated[
    Path | None, typer.Option("--file", help="File with one key,value per line; - is stdin.", show_default=False)
]


@app.command(name="set")
def set_map(
    name: Name,
    kafka: Kafka,
    entries: Entries = None,
    file: File = None,
    key_type: Annotated[ListType, typer.Option("--key-type", help="Type of the keys of a new map.")] = ListType.LONG,
    value_type: Annotated[
        MapValueType, typer.Option("--value-type", help="Type of the values of a new map.")
    ] = MapValueType.DECIMAL,
    direct: Direct = False,
    wait: Wait = 0,
) -> None:
    """Create a map, or give it exactly these entries. A map in force keeps its types.

    A map in force gets only the differences if they are shorter than the map. Long maps become several records.

    \b
    Examples:
      fraud maps set limits 7=250 8=99.50 --direct
      fraud maps set limits --file limits.csv --direct
      fraud maps set regions de=low --key-type string --value-type string --direct --wait 10
    """
    known = read_log(load_context(), kafka).maps.get(name)
    of_type = MapType(key_type, value_type) if known is None else known.type
    _change(RequestedChange(ListOperation.SET, name, entries, file, of_type, CollectionKind.MAP), kafka, wait, direct)


@app.command()
def add(
    name: Name, kafka: Kafka, entries: Entries = None, file: File = None, direct: Direct = False, wait: Wait = 0
) -> None:
    """Add entries to a map, or give keys of it other values.

    \b
    Examples:
      fraud maps add limits 7=300 --direct
    """
    _change(RequestedChange(ListOperation.ADD, name, entries, file, kind=CollectionKind.MAP), kafka, wait, direct)


@app.command()
def remove(
    name: Name, kafka: Kafka, keys: Keys = None, file: File = None, direct: Direct = False, wait: Wait = 0
) -> None:
    """Remove keys from a map. Of each line of a file, only the key counts.

    \b
    Examples:
      fraud maps remove limits 7 --direct
    """
    _change(RequestedChange(ListOperation.REMOVE, name, keys, file, kind=CollectionKind.MAP), kafka, wait, direct)


@app.command()
def delete(name: Name, kafka: Kafka, direct: Direct = False, wait: Wait = 0) -> None:
    """Delete a map. The command fails while a rule names the map.

    \b
    Examples:
      fraud maps delete limits --direct
    """
    _change(RequestedChange(ListOperation.DELETE, name, kind=CollectionKind.MAP), kafka, wait, direct)


@app.command()
def save(
    paths: Annotated[list[Path], typer.Argument(help="Files of maps, or their folders.", show_default=False)],
    kafka: Kafka,
    direct: Direct = False,
    dry_run: DryRun = False,
    wait: Wait = 0,
) -> None:
    """Give maps the entries of files: seed files, or exports. Maps that no file names stay as they are.

    The command writes nothing if any file is invalid, or if the rule log would reject a change.

    \b
    Examples:
      fraud maps save maps.yaml --dry-run
      fraud maps save config/maps --direct
    """
    if not dry_run:
        _check_direct(direct)
    save_directly(CollectionKind.MAP, paths, kafka, wait, dry_run=dry_run)


@app.command()
def export(
    kafka: Kafka,
    form: Annotated[RuleFormat, typer.Option("--format", help="Format of the file.")] = RuleFormat.YAML,
    output: Output = None,
) -> None:
    """Write all maps to a file that `fraud maps save` accepts.

    \b
    Examples:
      fraud maps export > maps.yaml
    """
    maps = read_log(load_context(), kafka).maps
    write_file(export_collections([maps[name] for name in sorted(maps)], form).encode(), output)


@app.command(name="show")
def show_map(name: Name, kafka: Kafka, as_json: AsJson = False) -> None:
    """Print the entries of a map, one key,value per line.

    \b
    Examples:
      fraud maps show limits > limits.csv
    """
    log = read_log(load_context(), kafka)
    rules = log.rules_naming(CollectionKind.MAP).get(name, ())
    show.print_collection(known_collection(log, CollectionKind.MAP, name), rules, as_json)


@app.command(name="list")
def list_maps(kafka: Kafka, as_json: AsJson = False) -> None:
    """List the maps: types, number of entries, version, and the rules that name them.

    \b
    Examples:
      fraud maps list
    """
    show.print_collections(CollectionKind.MAP, read_log(load_context(), kafka), as_json)


def _change(change: RequestedChange, kafka: Kafka, wait: float, direct: bool) -> None:
    _check_direct(direct)
    change_directly(change, kafka, wait)


def _check_direct(direct: bool) -> None:
    if not direct:
        raise InputInvalid("the control plane has no maps: write to the rule log with --direct")
