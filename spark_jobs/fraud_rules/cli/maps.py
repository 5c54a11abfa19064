"""`fraud maps`: maps of keys to values through the control plane, or with --direct in the rule log itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fraud_rules.cli.collection_changes import (
    RequestedChange,
    collection_path,
    export_file,
    known_collection,
    make_change,
    read_log,
    save_files,
)
from fraud_rules.cli.configured import load_context
from fraud_rules.cli.display import collection_tables as show
from fraud_rules.cli.display.api_answers import format_time, print_table, write_file
from fraud_rules.cli.display.output import print_json
from fraud_rules.cli.options import (
    AsJson,
    Comment,
    Direct,
    DryRun,
    Kafka,
    Output,
    Url,
    Wait,
    command_group,
    control_plane,
)
from fraud_rules.codec.rules.collections.lines import content_lines, fields_of
from fraud_rules.codec.rules.export import RuleFormat
from fraud_rules.model.collection_history import CollectionType
from fraud_rules.model.value_list import CollectionKind, ListOperation, ListType
from fraud_rules.model.value_map import MapType, MapValueType

app = command_group("Maps of keys to values, through the control plane; with --direct in the rule log itself.")

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
    key_type: Annotated[
        ListType | None, typer.Option("--key-type", help="Type of the keys.", show_default="the map's own, else long")
    ] = None,
    value_type: Annotated[
        MapValueType | None,
        typer.Option("--value-type", help="Type of the values.", show_default="the map's own, else decimal"),
    ] = None,
    url: Url = None,
    direct: Direct = False,
    comment: Comment = "",
    wait: Wait = 0,
    as_json: AsJson = False,
) -> None:
    """Create a map, or give it exactly these entries.

    With --direct, a map in force gets only the differences if they are shorter than the map. Long maps become several
    records.

    \b
    Examples:
      fraud maps set limits 7=250 8=99.50
      fraud maps set limits --file limits.csv
      fraud maps set regions de=low --key-type string --value-type string --direct --wait 10
    """
    of_type = _type_of(key_type, value_type)
    change = RequestedChange(ListOperation.SET, name, entries, file, of_type, CollectionKind.MAP)
    make_change(change, kafka, url, comment, wait, direct=direct, as_json=as_json)


@app.command()
def add(
    name: Name,
    kafka: Kafka,
    entries: Entries = None,
    file: File = None,
    url: Url = None,
    direct: Direct = False,
    comment: Comment = "",
    wait: Wait = 0,
    as_json: AsJson = False,
) -> None:
    """Add entries to a map, or give keys of it other values.

    \b
    Examples:
      fraud maps add limits 7=300 --comment "case 12"
      fraud maps add limits --file more.csv --direct
    """
    change = RequestedChange(ListOperation.ADD, name, entries, file, kind=CollectionKind.MAP)
    make_change(change, kafka, url, comment, wait, direct=direct, as_json=as_json)


@app.command()
def remove(
    name: Name,
    kafka: Kafka,
    keys: Keys = None,
    file: File = None,
    url: Url = None,
    direct: Direct = False,
    comment: Comment = "",
    wait: Wait = 0,
    as_json: AsJson = False,
) -> None:
    """Remove keys from a map. Of each line of a file, only the key counts.

    \b
    Examples:
      fraud maps remove limits 7
    """
    change = RequestedChange(ListOperation.REMOVE, name, keys, file, kind=CollectionKind.MAP)
    make_change(change, kafka, url, comment, wait, direct=direct, as_json=as_json)


@app.command()
def delete(
    name: Name,
    kafka: Kafka,
    url: Url = None,
    direct: Direct = False,
    comment: Comment = "",
    wait: Wait = 0,
    as_json: AsJson = False,
) -> None:
    """Delete a map. The command fails while a rule names the map.

    \b
    Examples:
      fraud maps delete limits
    """
    change = RequestedChange(ListOperation.DELETE, name, kind=CollectionKind.MAP)
    make_change(change, kafka, url, comment, wait, direct=direct, as_json=as_json)


@app.command()
def save(
    paths: Annotated[list[Path], typer.Argument(help="Files of maps, or their folders.", show_default=False)],
    kafka: Kafka,
    url: Url = None,
    direct: Direct = False,
    comment: Comment = "",
    dry_run: DryRun = False,
    wait: Wait = 0,
    as_json: AsJson = False,
) -> None:
    """Give maps the entries of files: seed files, or exports. Maps that no file names stay as they are.

    The command saves nothing of a file with a fault. With --direct, it writes nothing if any file is invalid, or if the
    rule log would reject a change.

    \b
    Examples:
      fraud maps save maps.yaml --dry-run
      fraud maps save config/maps --direct
    """
    save_files(CollectionKind.MAP, paths, kafka, url, comment, wait, direct=direct, dry_run=dry_run, as_json=as_json)


@app.command()
def export(
    kafka: Kafka,
    url: Url = None,
    direct: Direct = False,
    form: Annotated[RuleFormat, typer.Option("--format", help="Format of the file.")] = RuleFormat.YAML,
    output: Output = None,
) -> None:
    """Write all maps to a file that `fraud maps save` accepts.

    \b
    Examples:
      fraud maps export > maps.yaml
    """
    export_file(CollectionKind.MAP, kafka, url, form, output, direct=direct)


@app.command(name="show")
def show_map(name: Name, kafka: Kafka, url: Url = None, direct: Direct = False, as_json: AsJson = False) -> None:
    """Print the entries of a map, one key,value per line.

    \b
    Examples:
      fraud maps show limits > limits.csv
    """
    client = control_plane(url, direct=direct)
    if client is None:
        log = read_log(load_context(), kafka)
        rules = log.rules_naming(CollectionKind.MAP).get(name, ())
        show.print_collection(known_collection(log, CollectionKind.MAP, name), rules, as_json)
        return
    path = collection_path(CollectionKind.MAP, name)
    content = client.text(f"{path}/export")
    if not as_json:
        write_file(content, None)
        return
    entries = dict(fields_of(line) for _, line in content_lines(content.decode()))
    print_json({**client.get(path), "entries": entries})


@app.command(name="list")
def list_maps(kafka: Kafka, url: Url = None, direct: Direct = False, as_json: AsJson = False) -> None:
    """List the maps: types, number of entries, revision or version, and the rules that name them.

    \b
    Examples:
      fraud maps list
    """
    client = control_plane(url, direct=direct)
    if client is None:
        show.print_collections(CollectionKind.MAP, read_log(load_context(), kafka), as_json)
        return
    found = client.get("/maps")["items"]
    if as_json:
        print_json(found)
        return
    rows = (
        (each["name"], f"{each['keyType']} to {each['valueType']}", f"{each['size']:,}", each["revision"],
         format_time(each["updatedAt"]), ", ".join(str(rule["ruleId"]) for rule in each["rules"]))
        for each in found
    )  # fmt: skip
    print_table(("map", "types", "entries", "revision", "changed", "rules"), rows, "there are no maps")


def _type_of(key_type: ListType | None, value_type: MapValueType | None) -> CollectionType | None:
    if key_type is None and value_type is None:
        return None
    return MapType(key_type or ListType.LONG, value_type or MapValueType.DECIMAL)
