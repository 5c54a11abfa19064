"""`fraud rules`: writes rules to the rule log, lists the rules in force, and checks rule files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fraud_rules.cli.configured import CommandContext, load_context
from fraud_rules.cli.display import rule_tables as show
from fraud_rules.cli.options import ASKS, Kafka
from fraud_rules.codec.rules.apply import PlannedRecord, RulesRejected, control_record, log_faults, validate_files
from fraud_rules.codec.rules.apply import plan_records as plan_rules
from fraud_rules.codec.rules.export import RuleFormat, export_rules
from fraud_rules.errors import FraudError, InputInvalid
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.model.rule import ControlType

if TYPE_CHECKING:
    from fraud_rules.logs.rule_status import RuleLogStatus
    from fraud_rules.model.ruleset import RuleTimeline

app = typer.Typer(
    help="Apply, list, export and check rules. Writes bypass the approvals of the control plane.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_REJECTED_EXIT_CODE = 1
_RESTORED_AT_ONCE = 500

Paths = Annotated[
    list[Path], typer.Argument(help="Files of rules (JSON, YAML or text form), or their folders.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Source = Annotated[
    str | None,
    typer.Option("--source", help="Source of the records.", show_default="the record's source, else cli"),
]
Wait = Annotated[
    float, typer.Option("--wait", min=0, max=3600, help="Seconds to wait until the detector has the rules live.")
]


@app.command()
def check(paths: Paths, as_json: AsJson = False) -> None:
    """Check rule files without a broker. Print every fault by field. The exit code is 1 if a rule is rejected.

    \b
    Examples:
      fraud rules check my-rule.yaml
      fraud rules check config/rules --json
    """
    context = load_context()
    validated = validate_files(paths, context.schema, context.settings.limits)
    show.print_validated(validated, context.schema, as_json)
    if any(each.change is None for each in validated):
        raise typer.Exit(_REJECTED_EXIT_CODE)


@app.command()
def apply(
    paths: Paths,
    kafka: Kafka,
    source: Source = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes, but write nothing.")] = False,
    wait: Wait = 0,
) -> None:
    """Write rules to the rule log, in order.

    This bypasses the approvals of the control plane.
    The command writes nothing if a rule is invalid or names a missing list, and skips rules that are already in force.
    A record whose ruleState is DELETE deletes its rule.

    \b
    Examples:
      fraud rules apply config/rules
      fraud rules apply new-rule.yaml --dry-run
      fraud rules apply new-rule.yaml --wait 10
    """
    context = load_context()
    validated = validate_files(paths, context.schema, context.settings.limits)
    rejected = [each for each in validated if each.change is None]
    if rejected:
        show.print_rejected(rejected)
        raise RulesRejected(f"{len(rejected)} of {len(validated)} rules are not valid; nothing was written")
    seen = _read_rules(context, kafka, settled=True)
    applied = plan_rules(validated, seen.timeline.latest, source)
    _check_against_log(context, seen.timeline, applied)
    if dry_run:
        show.print_applied(applied, context.schema, {}, "would be ")
        return
    versions = write(context, kafka, applied)
    show.print_applied(applied, context.schema, versions, "")
    if wait > 0 and versions:
        await_live(context, kafka, set(versions.values()), wait)


@app.command(name="list")
def list_rules(kafka: Kafka, as_json: AsJson = False) -> None:
    """List the rules in force with the time when they went live, and the newest rejected records.

    With --json, the command lists only the rules in force; `fraud status --json` has the rejected records.

    \b
    Examples:
      fraud rules list
      fraud rules list --json | jq '.[].ruleId'
    """
    context = load_context()
    show.print_rules(_read_rules(context, kafka), context.schema, as_json)


@app.command()
def export(
    kafka: Kafka,
    form: Annotated[RuleFormat, typer.Option("--format", help="Format of the file.")] = RuleFormat.YAML,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write.", show_default="stdout")] = None,
) -> None:
    """Write the rules in force to a file that `fraud rules apply` accepts.

    \b
    Examples:
      fraud rules export > rules.yaml
      fraud rules export --format json --output rules.json
    """
    in_force = _read_rules(load_context(), kafka).timeline.latest.rules
    text = export_rules((in_force[rule_id].rule for rule_id in sorted(in_force)), form)
    write_export(text, output)


def write_export(text: str, output: Path | None) -> None:
    """Write the text of an export to a file, or print it. Raises InputInvalid for a file that cannot be written."""
    if output is None:
        print(text, end="")
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputInvalid(f"{output} cannot be written: {error.strerror}") from error


@app.command()
def control(
    kind: Annotated[ControlType, typer.Argument(metavar="TYPE", help=", ".join(ControlType), show_default=False)],
    kafka: Kafka,
    source: Source = None,
    yes: Annotated[bool, typer.Option("--yes", help="Clear or delete without confirmation.")] = False,
) -> None:
    """Write a control record to the rule log. It acts on all rules or on all state.

    This bypasses the roles of the control plane, where only admins send controls.
    CLEAR_STATE_ALL clears every window. CLEAR_STATE_ALL_STOP also stops the detector. DELETE_RULES_ALL deletes every
    rule. EXPORT_RULES_CURRENT makes the detector write the rules in force to the topic current-rules.

    \b
    Examples:
      fraud rules control EXPORT_RULES_CURRENT
      fraud rules control CLEAR_STATE_ALL --yes
    """
    from fraud_rules.kafka.reachable import require_broker
    from fraud_rules.kafka.record_writer import append_records

    if kind is not ControlType.EXPORT_RULES_CURRENT and not yes:
        if not ASKS:
            raise InputInvalid(f"{kind} cannot be undone: add --yes to write it without confirmation")
        typer.confirm(f"{kind} cannot be undone. Write it?", abort=True)
    require_broker(kafka)
    topic = load_context().settings.topics.rules
    (version,) = append_records(kafka, topic, [(b"control", control_record(kind.value, source))])
    print(f"{kind} written to {topic} as version {version}")


@app.command()
def restore(
    kafka: Kafka,
    archive: Annotated[
        str, typer.Option("--archive", help="Folder of the archive, or s3://BUCKET/PREFIX.", show_default=False)
    ],
) -> None:
    """Write the archived rule log to an empty rule log, after the loss of Kafka.

    The records keep their order and get new versions, append times and no headers. An interrupted restore continues:
    the rule log may hold the first records of the archived one, but no others (exit code 2).

    \b
    Examples:
      fraud rules restore --archive /data/archive
    """
    from fraud_rules.batch.archive.restoring import archived_rules
    from fraud_rules.batch.archive.store import ArchiveStore
    from fraud_rules.kafka.consume import read_topic
    from fraud_rules.kafka.reachable import require_broker
    from fraud_rules.kafka.record_writer import append_records

    require_broker(kafka)
    records, topic = archived_rules(ArchiveStore.at(archive)), load_context().settings.topics.rules
    found = read_topic(kafka, topic, settled=True).values()
    present = [(record.key, record.value) for each in found for record in each]
    if present != records[: len(present)]:
        raise InputInvalid(f"{topic} has other records than {archive}: a restore needs an empty rule log")
    rest = records[len(present) :]
    for start in range(0, len(rest), _RESTORED_AT_ONCE):
        append_records(kafka, topic, rest[start : start + _RESTORED_AT_ONCE])
    print(f"{len(rest)} records written to {topic}" + (f", {len(present)} were there before" if present else ""))


def _check_against_log(context: CommandContext, log: RuleTimeline, applied: list[PlannedRecord]) -> None:
    """Raise RulesRejected if the detector would reject a record because of the log before it."""
    written = [each for each in applied if each.effect.writes]
    found = log_faults(log, [each.record for each in written], context.schema, context.settings.limits)
    faults = [f"{each.where}: {reason}" for each, reasons in zip(written, found, strict=True) for reason in reasons]
    if faults:
        raise RulesRejected(f"nothing was written: {'; '.join(faults)}")


def write(context: CommandContext, kafka: KafkaConnection, applied: list[PlannedRecord]) -> dict[int, int]:
    """Append the records that have an effect. Return the version of each, by its position in `applied`."""
    from fraud_rules.kafka.record_writer import append_records

    positions = [position for position, each in enumerate(applied) if each.effect.writes]
    records = [(_key(applied[position]), applied[position].record) for position in positions]
    versions = append_records(kafka, context.settings.topics.rules, records) if records else []
    return dict(zip(positions, versions, strict=True))


def await_live(context: CommandContext, kafka: KafkaConnection, versions: set[int], timeout_s: float) -> None:
    """Wait until all versions of rules or lists are live, and print the batch. Raises RulesRejected, and FraudError if
    no report comes within `timeout_s`.
    """
    from fraud_rules.logs.rule_status import await_operations

    reports = await_operations(kafka, context.settings.topics.rule_operations, versions, timeout_s)
    refused = [report for report in reports.values() if report.rejected]
    if refused:
        why = dict.fromkeys(f"{each.field}: {each.message}" for report in refused for each in report.reasons)
        raise RulesRejected(f"the detector rejected {len(refused)} of {len(versions)} records: {'; '.join(why)}")
    if len(reports) < len(versions):
        missing = ", ".join(map(str, sorted(versions - reports.keys())))
        raise FraudError(f"the detector did not report on version {missing} within {timeout_s:g} s (see fraud status)")
    print(f"live since batch {max(report.batch_id for report in reports.values())}")


def _key(applied: PlannedRecord) -> bytes:
    return b"control" if applied.rule_id is None else str(applied.rule_id).encode()


def _read_rules(context: CommandContext, kafka: KafkaConnection, *, settled: bool = False) -> RuleLogStatus:
    from fraud_rules.kafka.reachable import require_broker
    from fraud_rules.logs.rule_status import read_rules

    require_broker(kafka)
    return read_rules(kafka, context.schema, context.settings, settled=settled)
