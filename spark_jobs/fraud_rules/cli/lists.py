"""`fraud lists`: lists of values through the control plane, or with --direct in the rule log itself."""

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
from fraud_rules.cli.display.api_answers import (
    format_time,
    print_table,
    write_file,
)
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
from fraud_rules.codec.rules.collections.files import parse_values
from fraud_rules.codec.rules.export import RuleFormat
from fraud_rules.model.value_list import CollectionKind, ListOperation, ListType

app = command_group("Lists of values, through the control plane; with --direct in the rule log itself.")

Name = Annotated[str, typer.Argument(help="Name of the list.", show_default=False)]
Values = Annotated[list[str] | None, typer.Argument(help="Values.", show_default=False)]
File = Annotated[
    Path | None, typer.Option("--file", help="File with one value per line; - is stdin.", show_default=False)
]


@app.command(name="set")
def set_list(
    name: Name,
    kafka: Kafka,
    values: Values = None,
    file: File = None,
    value_type: Annotated[
        ListType | None, typer.Option("--type", help="Type of the values.", show_default="the list's own, else long")
    ] = None,
    url: Url = None,
    direct: Direct = False,
    comment: Comment = "",
    wait: Wait = 0,
    as_json: AsJson = False,
) -> None:
    """Create a list, or give it exactly these values.

    With --direct, a list in force gets only the differences if they are shorter than the list. Long lists become
    several records.

    \b
    Examples:
      fraud lists set mules 1001 1002
      fraud lists set mules --file mules.txt
      fraud lists set types CSH --type string --direct --wait 10
    """
    change = RequestedChange(ListOperation.SET, name, values, file, value_type)
    make_change(change, kafka, url, comment, wait, direct=direct, as_json=as_json)


@app.command()
def add(
    name: Name,
    kafka: Kafka,
    values: Values = None,
    file: File = None,
    url: Url = None,
    direct: Direct = False,
    comment: Comment = "",
    wait: Wait = 0,
    as_json: AsJson = False,
) -> None:
    """Add values to a list.

    \b
    Examples:
      fraud lists add mules 1003 --comment "case 12"
      fraud lists add mules --file more.txt --direct
    """
    change = RequestedChange(ListOperation.ADD, name, values, file)
    make_change(change, kafka, url, comment, wait, direct=direct, as_json=as_json)


@app.command()
def remove(
    name: Name,
    kafka: Kafka,
    values: Values = None,
    file: File = None,
    url: Url = None,
    direct: Direct = False,
    comment: Comment = "",
    wait: Wait = 0,
    as_json: AsJson = False,
) -> None:
    """Remove values from a list.

    \b
    Examples:
      fraud lists remove mules 1003
      fraud lists remove mules --file cleared.txt --direct
    """
    change = RequestedChange(ListOperation.REMOVE, name, values, file)
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
    """Delete a list. The command fails while a rule names the list.

    \b
    Examples:
      fraud lists delete mules
    """
    change = RequestedChange(ListOperation.DELETE, name)
    make_change(change, kafka, url, comment, wait, direct=direct, as_json=as_json)


@app.command()
def save(
    paths: Annotated[list[Path], typer.Argument(help="Files of lists, or their folders.", show_default=False)],
    kafka: Kafka,
    url: Url = None,
    direct: Direct = False,
    comment: Comment = "",
    dry_run: DryRun = False,
    wait: Wait = 0,
    as_json: AsJson = False,
) -> None:
    """Give lists the values of files: seed files, or exports. Lists that no file names stay as they are.

    The command saves nothing of a file with a fault. With --direct, it writes nothing if any file is invalid, or if the
    rule log would reject a change.

    \b
    Examples:
      fraud lists save lists.yaml --dry-run
      fraud lists save config/lists --direct
    """
    save_files(CollectionKind.LIST, paths, kafka, url, comment, wait, direct=direct, dry_run=dry_run, as_json=as_json)


@app.command()
def export(
    kafka: Kafka,
    url: Url = None,
    direct: Direct = False,
    form: Annotated[RuleFormat, typer.Option("--format", help="Format of the file.")] = RuleFormat.YAML,
    output: Output = None,
) -> None:
    """Write all lists to a file that `fraud lists save` accepts.

    \b
    Examples:
      fraud lists export > lists.yaml
    """
    export_file(CollectionKind.LIST, kafka, url, form, output, direct=direct)


@app.command(name="show")
def show_list(name: Name, kafka: Kafka, url: Url = None, direct: Direct = False, as_json: AsJson = False) -> None:
    """Print the values of a list, one per line.

    \b
    Examples:
      fraud lists show mules > mules.txt
      fraud lists show mules --json | jq .values
    """
    client = control_plane(url, direct=direct)
    if client is None:
        log = read_log(load_context(), kafka)
        rules = log.rules_naming(CollectionKind.LIST).get(name, ())
        show.print_collection(known_collection(log, CollectionKind.LIST, name), rules, as_json)
        return
    content = client.text(f"{collection_path(CollectionKind.LIST, name)}/export")
    if not as_json:
        write_file(content, None)
        return
    found = client.get(collection_path(CollectionKind.LIST, name))
    print_json({**found, "values": parse_values(content.decode().splitlines(), ListType(found["type"]))})


@app.command(name="list")
def list_lists(kafka: Kafka, url: Url = None, direct: Direct = False, as_json: AsJson = False) -> None:
    """List the lists: type, number of values, revision or version, and the rules that name them.

    \b
    Examples:
      fraud lists list
      fraud lists list --json
    """
    client = control_plane(url, direct=direct)
    if client is None:
        show.print_collections(CollectionKind.LIST, read_log(load_context(), kafka), as_json)
        return
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
