"""The commands that `fraud lists` and `fraud maps` share: all but `set`, whose types differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import typer

from fraud_rules.cli.collection_changes import (
    RequestedChange,
    collection_path,
    export_file,
    make_change,
    save_files,
)
from fraud_rules.cli.configured import load_context
from fraud_rules.cli.display.api_answers import format_time, print_table, write_file
from fraud_rules.cli.display.collection_tables import MEMBERS, print_collections
from fraud_rules.cli.display.output import print_json
from fraud_rules.cli.options import AsJson, Comment, Direct, DryRun, Kafka, Output, Url, Wait, connect, control_plane
from fraud_rules.cli.rule_log import read_rule_log
from fraud_rules.codec.rules.collections.lines import as_value, content_lines, fields_of
from fraud_rules.codec.rules.export import RuleFormat
from fraud_rules.model.value_list import CollectionKind, ListOperation, ListType

_Command = TypeVar("_Command", bound=Callable[..., None])

_LINES: Final = {
    CollectionKind.LIST: "the values of a list, one",
    CollectionKind.MAP: "the entries of a map, one key,value",
}
_FILES: Final = {CollectionKind.LIST: "mules > mules.txt", CollectionKind.MAP: "limits > limits.csv"}
_ADD: Final = {
    CollectionKind.LIST: ("Add values to a list.", 'mules 1003 --comment "case 12"', "mules --file more.txt"),
    CollectionKind.MAP: (
        "Add entries to a map, or give keys of it other values.",
        'limits 7=300 --comment "case 12"',
        "limits --file more.csv",
    ),
}
_REMOVE: Final = {
    CollectionKind.LIST: ("Remove values from a list.", "mules 1003", "mules --file cleared.txt"),
    CollectionKind.MAP: ("Remove keys from a map. Of each line of a file, only the key counts.", "limits 7"),
}
VALUES: Final = {
    CollectionKind.LIST: typer.Argument(None, help="Values.", show_default=False),
    CollectionKind.MAP: typer.Argument(None, help="Entries, as key=value.", show_default=False),
}
_KEYS: Final = {**VALUES, CollectionKind.MAP: typer.Argument(None, help="Keys.", show_default=False)}
FILE: Final = {
    kind: typer.Option(None, "--file", help=f"File with one {line} per line; - is stdin.", show_default=False)
    for kind, line in ((CollectionKind.LIST, "value"), (CollectionKind.MAP, "key,value"))
}


def add_shared_commands(app: typer.Typer, kind: CollectionKind) -> None:
    """Add the commands add, remove, delete, save, export, show and list of a kind to its group."""
    example = _FILES[kind].split(" ", 1)[0]
    name_argument = typer.Argument(help=f"Name of the {kind}.", show_default=False)
    paths_argument = typer.Argument(help=f"Files of {kind}s, or their folders.", show_default=False)

    def command(name: str, text: str, *examples: str) -> Callable[[_Command], _Command]:
        shown = "".join(f"\n  fraud {kind}s {name} {each}".rstrip() for each in examples)
        return app.command(name, help=f"{text}\n\n\b\nExamples:{shown}")

    def changing(operation: ListOperation, argument: Any) -> Callable[..., None]:
        """A command that adds or removes the values of its arguments and of a file."""

        def change(
            name: str = name_argument,
            values: list[str] | None = argument,
            file: Path | None = FILE[kind],
            url: Url = None,
            comment: Comment = "",
            as_json: AsJson = False,
        ) -> None:
            make_change(RequestedChange(operation, name, values, file, kind=kind), url, comment, as_json=as_json)

        return change

    command("add", *_ADD[kind])(changing(ListOperation.ADD, VALUES[kind]))
    command("remove", *_REMOVE[kind])(changing(ListOperation.REMOVE, _KEYS[kind]))

    @command("delete", f"Delete a {kind}. The command fails while a rule names the {kind}.", example)
    def delete(name: str = name_argument, url: Url = None, comment: Comment = "", as_json: AsJson = False) -> None:
        make_change(RequestedChange(ListOperation.DELETE, name, kind=kind), url, comment, as_json=as_json)

    @command(
        "save",
        f"Give {kind}s the {MEMBERS[kind]} of files: seed files, or exports. {kind.value.title()}s that no file names"
        " stay as they are.\n\nThe command saves nothing of a file with a fault. With --direct, it writes nothing if"
        " any file is invalid, or if the rule log would reject a change.",
        f"{kind}s.yaml --dry-run",
        f"config/{kind}s --direct",
    )
    def save(
        kafka: Kafka,
        paths: list[Path] = paths_argument,
        url: Url = None,
        direct: Direct = False,
        comment: Comment = "",
        dry_run: DryRun = False,
        wait: Wait = 0,
        as_json: AsJson = False,
    ) -> None:
        save_files(kind, paths, kafka, url, comment, wait, direct=direct, dry_run=dry_run, as_json=as_json)

    @command("export", f"Write all {kind}s to a file that `fraud {kind}s save` accepts.", f"> {kind}s.yaml")
    def export(
        kafka: Kafka,
        url: Url = None,
        direct: Direct = False,
        form: RuleFormat = typer.Option(RuleFormat.YAML, "--format", help="Format of the file."),
        output: Output = None,
    ) -> None:
        export_file(kind, kafka, url, form, output, direct=direct)

    @command("show", f"Print {_LINES[kind]} per line.", _FILES[kind], f"{example} --json | jq .{MEMBERS[kind]}")
    def show(name: str = name_argument, url: Url = None, as_json: AsJson = False) -> None:
        _show(kind, name, url, as_json=as_json)

    @command(
        "list",
        f"List the {kind}s: type, number of {MEMBERS[kind]}, revision or version, and the rules that name them.",
        "",
        "--json",
    )
    def list_all(kafka: Kafka, url: Url = None, direct: Direct = False, as_json: AsJson = False) -> None:
        _list(kind, kafka, url, direct=direct, as_json=as_json)


def _show(kind: CollectionKind, name: str, url: str | None, *, as_json: bool) -> None:
    client, path = connect(url), collection_path(kind, name)
    content = client.text(f"{path}/export")
    if not as_json:
        write_file(content, None)
        return
    found = client.get(path)
    print_json({**found, MEMBERS[kind]: _members(kind, found, content.decode())})


def _members(kind: CollectionKind, found: Mapping[str, Any], content: str) -> object:
    """The values or entries of a downloaded file."""
    if kind is CollectionKind.LIST:
        return [as_value(text, ListType(found["type"])) for text in content.splitlines()]
    return dict(fields_of(line) for _, line in content_lines(content))


def _list(kind: CollectionKind, kafka: Kafka, url: str | None, *, direct: bool, as_json: bool) -> None:
    client = control_plane(url, direct=direct)
    if client is None:
        print_collections(kind, read_rule_log(load_context(), kafka).timeline, as_json)
        return
    found = client.get(f"/{kind}s")["items"]
    if as_json:
        print_json(found)
        return
    rows = (
        (each["name"], _type_text(kind, each), f"{each['size']:,}", each["revision"], format_time(each["updatedAt"]),
         ", ".join(str(rule["ruleId"]) for rule in each["rules"]))
        for each in found
    )  # fmt: skip
    print_table((kind.value, "type", MEMBERS[kind], "revision", "changed", "rules"), rows, f"there are no {kind}s")


def _type_text(kind: CollectionKind, row: Mapping[str, Any]) -> str:
    return str(row["type"]) if kind is CollectionKind.LIST else f"{row['keyType']} to {row['valueType']}"
