"""`fraud lists`: changes lists of values in the rule log, and shows the lists in force."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fraud_rules.cli.configured import CommandContext, load_context
from fraud_rules.cli.display import list_tables as show
from fraud_rules.cli.options import Kafka
from fraud_rules.cli.rules import await_live, write_export
from fraud_rules.codec.rules.apply import DEFAULT_SOURCE, RulesRejected, log_faults
from fraud_rules.codec.rules.export import RuleFormat
from fraud_rules.codec.rules.list_files import export_lists, parse_values, read_seed_lists, read_values
from fraud_rules.codec.rules.list_plan import plan_change, plan_set
from fraud_rules.codec.rules.lists import encode_list_records, list_key
from fraud_rules.errors import InputInvalid, RuleUnknown
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.model.value_list import ListOperation, ListType, ListValue, ValueList

if TYPE_CHECKING:
    from fraud_rules.model.ruleset import RuleTimeline

app = typer.Typer(
    help="Change and show lists of values that rules look up. Changes bypass the approvals of the control plane.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(help="Name of the list.", show_default=False)]
Values = Annotated[list[str] | None, typer.Argument(help="Values.", show_default=False)]
File = Annotated[
    Path | None, typer.Option("--file", help="File with one value per line; - is stdin.", show_default=False)
]
Source = Annotated[str, typer.Option("--source", help="Source of the records.")]
Wait = Annotated[
    float, typer.Option("--wait", min=0, max=3600, help="Seconds to wait until the detector has the change live.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command(name="set")
def set_list(
    name: Name,
    kafka: Kafka,
    values: Values = None,
    file: File = None,
    value_type: Annotated[
        ListType | None, typer.Option("--type", help="Type of the values.", show_default="the list's own, else long")
    ] = None,
    source: Source = DEFAULT_SOURCE,
    wait: Wait = 0,
) -> None:
    """Create a list, or give it exactly these values.

    This bypasses the approvals of the control plane.
    A list in force gets only the differences if they are shorter than the list. Long lists become several records.

    \b
    Examples:
      fraud lists set mules 1001 1002
      fraud lists set mules --file mules.txt --wait 10
      fraud lists set types CSH --type string
    """
    context = load_context()
    log = _read_log(context, kafka, settled=True)
    known = log.lists.get(name)
    kind = value_type or (ListType.LONG if known is None else known.type)
    given = _values(values, file, kind)
    _write(context, kafka, log, name, plan_set(known, name, kind, given, source, context.settings.limits), wait)


@app.command()
def add(
    name: Name, kafka: Kafka, values: Values = None, file: File = None, source: Source = DEFAULT_SOURCE, wait: Wait = 0
) -> None:
    """Add values to a list.

    This bypasses the approvals of the control plane.

    \b
    Examples:
      fraud lists add mules 1003
      fraud lists add mules --file more.txt
    """
    _change(name, ListOperation.ADD, kafka, values, file, source, wait)


@app.command()
def remove(
    name: Name, kafka: Kafka, values: Values = None, file: File = None, source: Source = DEFAULT_SOURCE, wait: Wait = 0
) -> None:
    """Remove values from a list.

    This bypasses the approvals of the control plane.

    \b
    Examples:
      fraud lists remove mules 1003
      fraud lists remove mules --file cleared.txt
    """
    _change(name, ListOperation.REMOVE, kafka, values, file, source, wait)


@app.command()
def delete(name: Name, kafka: Kafka, source: Source = DEFAULT_SOURCE, wait: Wait = 0) -> None:
    """Delete a list. The command fails while a rule names the list.

    This bypasses the approvals of the control plane.

    \b
    Examples:
      fraud lists delete mules
    """
    context = load_context()
    log = _read_log(context, kafka, settled=True)
    _known(log, name)
    most = context.settings.limits.max_list_record_bytes
    _write(context, kafka, log, name, encode_list_records(name, ListOperation.DELETE, None, [], source, most), wait)


@app.command()
def apply(
    paths: Annotated[list[Path], typer.Argument(help="Seed files of lists, or their folders.", show_default=False)],
    kafka: Kafka,
    source: Annotated[str, typer.Option("--source", help="Source of the records.")] = "seed",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes, but write nothing.")] = False,
    wait: Wait = 0,
) -> None:
    """Give lists the values of files: seed files, or exports. Lists that no file names stay as they are.

    The command writes nothing if a file is invalid, or if the rule log would reject a change.

    This bypasses the approvals of the control plane.

    \b
    Examples:
      fraud lists apply config/lists
      fraud lists apply lists.yaml --dry-run
    """
    context = load_context()
    limits = context.settings.limits
    seeds = read_seed_lists(paths, limits)
    log = _read_log(context, kafka, settled=True)
    planned = [
        (seed, plan_set(log.lists.get(seed.name), seed.name, seed.type, seed.values, source, limits)) for seed in seeds
    ]
    _check_against_log(context, log, [record for _, records in planned for record in records])
    if dry_run:
        for seed, records in planned:
            show.print_difference(log.lists.get(seed.name), seed.name, seed.values if records else None)
        return
    written = [version for seed, records in planned for version in _append(context, kafka, seed.name, records)]
    if wait > 0 and written:
        await_live(context, kafka, set(written), wait)


@app.command(name="export")
def export(
    kafka: Kafka,
    names: Annotated[list[str] | None, typer.Argument(help="Names of lists.", show_default="all lists")] = None,
    form: Annotated[RuleFormat, typer.Option("--format", help="Format of the file.")] = RuleFormat.YAML,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write.", show_default="stdout")] = None,
) -> None:
    """Write lists to a file that `fraud lists apply` accepts.

    \b
    Examples:
      fraud lists export > lists.yaml
      fraud lists export mules --format text --output mules.txt
    """
    log = _read_log(load_context(), kafka)
    text = export_lists([_known(log, name) for name in names or sorted(log.lists)], form)
    write_export(text, output)


@app.command(name="show")
def show_list(name: Name, kafka: Kafka, as_json: AsJson = False) -> None:
    """Print the values of a list, one per line.

    \b
    Examples:
      fraud lists show mules > mules.txt
      fraud lists show mules --json | jq .version
    """
    log = _read_log(load_context(), kafka)
    show.print_list(_known(log, name), log.rules_by_list.get(name, ()), as_json)


@app.command(name="list")
def list_lists(kafka: Kafka, as_json: AsJson = False) -> None:
    """List the lists in force: type, number of values, version, and the rules that name them.

    \b
    Examples:
      fraud lists list
      fraud lists list --json
    """
    log = _read_log(load_context(), kafka)
    show.print_lists([log.lists[name] for name in sorted(log.lists)], log.rules_by_list, as_json)


def _change(
    name: str,
    operation: ListOperation,
    kafka: KafkaConnection,
    values: list[str] | None,
    file: Path | None,
    source: str,
    wait: float,
) -> None:
    context = load_context()
    log = _read_log(context, kafka, settled=True)
    known = _known(log, name)
    given = _values(values, file, known.type)
    _write(context, kafka, log, name, plan_change(known, operation, given, source, context.settings.limits), wait)


def _values(values: list[str] | None, file: Path | None, value_type: ListType) -> list[ListValue]:
    """The given values. Raises InputInvalid unless either values or a file are given."""
    if (file is None) is not bool(values):
        raise InputInvalid("give values, or --file with one value per line")
    if file is None:
        return parse_values(values or [], value_type)
    found = read_values(file, sys.stdin.read() if str(file) == "-" else None)
    return parse_values([text for _, text in found], value_type, [line for line, _ in found])


def _known(log: RuleTimeline, name: str) -> ValueList:
    known = log.lists.get(name)
    if known is None:
        raise RuleUnknown(f"there is no list {name}: create it with fraud lists set {name}")
    return known


def _write(
    context: CommandContext, kafka: KafkaConnection, log: RuleTimeline, name: str, records: Sequence[bytes], wait: float
) -> None:
    """Write the records unless the log rejects one of them. Raises RulesRejected, and FraudError after `wait` s."""
    _check_against_log(context, log, records)
    versions = _append(context, kafka, name, records)
    if wait > 0 and versions:
        await_live(context, kafka, set(versions), wait)


def _check_against_log(context: CommandContext, log: RuleTimeline, records: Sequence[bytes]) -> None:
    """Raise RulesRejected if the log would reject a record."""
    faults = log_faults(log, records, context.schema, context.settings.limits)
    reasons = [str(reason) for each in faults for reason in each]
    if reasons:
        raise RulesRejected(f"nothing was written: {'; '.join(dict.fromkeys(reasons))}")


def _append(context: CommandContext, kafka: KafkaConnection, name: str, records: Sequence[bytes]) -> list[int]:
    """Write the records of a list, and return their versions."""
    from fraud_rules.kafka.record_writer import append_records

    if not records:
        print(f"list {name} is unchanged")
        return []
    versions = append_records(kafka, context.settings.topics.rules, [(list_key(name), record) for record in records])
    print(f"list {name}: version {versions[-1]}")
    return versions


def _read_log(context: CommandContext, kafka: KafkaConnection, *, settled: bool = False) -> RuleTimeline:
    from fraud_rules.kafka.reachable import require_broker
    from fraud_rules.logs.rule_status import read_rules

    require_broker(kafka)
    return read_rules(kafka, context.schema, context.settings, settled=settled).timeline
