"""`fraud rules`: rules through the control plane, or with --direct in the rule log itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fraud_rules.cli.configured import load_context
from fraud_rules.cli.display import rule_tables as show
from fraud_rules.cli.display.api_answers import format_time, print_change, print_import, print_table, write_file
from fraud_rules.cli.display.output import print_json, printable
from fraud_rules.cli.options import (
    ASKS,
    AsJson,
    Comment,
    Direct,
    DryRun,
    Kafka,
    Output,
    Url,
    Wait,
    command_group,
    connect,
    control_plane,
    refuse,
)
from fraud_rules.cli.rule_log import append, await_live, check_against_log, read_rule_log, write_rules
from fraud_rules.codec.rules.apply import RulesRejected, control_record, plan_records, validate_files
from fraud_rules.codec.rules.export import RuleFormat, export_rules
from fraud_rules.errors import ConfigError, InputInvalid
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.model.rule import ControlType

app = command_group("Rules, through the control plane; with --direct in the rule log itself.")

_REJECTED_EXIT_CODE = 1
_RESTORED_AT_ONCE = 500

Paths = Annotated[
    list[Path], typer.Argument(help="Files of rules (JSON, YAML or text form), or their folders.", show_default=False)
]
RuleId = Annotated[int, typer.Argument(help="Id of the rule.", min=1, show_default=False)]


@app.command(name="list")
def list_rules(kafka: Kafka, url: Url = None, direct: Direct = False, as_json: AsJson = False) -> None:
    """List the rules with state and revision; with --direct those in force, and the newest rejected records.

    Without a control plane, the command reads the rule log.

    \b
    Examples:
      fraud rules list
      fraud rules list --direct --json | jq '.[].ruleId'
    """
    client = control_plane(url, direct=direct)
    if client is None:
        context = load_context()
        show.print_rules(read_rule_log(context, kafka), context.schema, as_json)
        return
    page = client.get("/rules")
    rows: list[dict[str, Any]] = page["items"]
    while page["next"] is not None:
        page = client.get("/rules", cursor=page["next"])
        rows += page["items"]
    if as_json:
        print_json(rows)
        return
    columns = ("rule", "name", "severity", "state", "revision", "changed", "by")
    shown = (
        (each["ruleId"], each["name"], each["severity"], each["state"], each["revision"],
         format_time(each["updatedAt"]), each["updatedBy"])
        for each in rows
    )  # fmt: skip
    print_table(columns, shown, "there are no rules")


@app.command(name="show")
def show_rule(rule_id: RuleId, url: Url = None, as_json: AsJson = False) -> None:
    """Show a rule of the control plane in words and as YAML.

    \b
    Examples:
      fraud rules show 1
    """
    rule = connect(url).get(f"/rules/{rule_id}")
    if as_json:
        print_json(rule)
        return
    print(f"# {printable(rule['says'])}")
    print(f"# {rule['state']}, revision {rule['revision']} by {printable(rule['author'])}")
    print(rule["yaml"], end="")


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
def save(
    paths: Paths,
    kafka: Kafka,
    url: Url = None,
    direct: Direct = False,
    comment: Comment = "",
    dry_run: DryRun = False,
    wait: Wait = 0,
    as_json: AsJson = False,
) -> None:
    """Save the rules of files, or none of a file if one of them is not valid. New rules are drafts.

    With --direct, the command writes the rules to the rule log in order, in the states that the files name, unless they
    are in force. It writes nothing if a rule is invalid or names a missing list. A record with the ruleState DELETE
    deletes its rule.

    \b
    Examples:
      fraud rules save rules.yaml --comment "limits of November"
      fraud rules save config/rules --dry-run
      fraud rules save new-rule.yaml --direct --wait 10
    """
    client = control_plane(url, direct=direct, writes=not dry_run)
    if client is None:
        refuse("with --direct", comment=comment, json=as_json)
        _save_directly(paths, kafka, wait, dry_run=dry_run)
        return
    refuse("without --direct", wait=wait)
    columns = ("place", "rule", "effect", "reasons")
    print_import(client, "/import", paths, comment, (columns, "ruleId"), dry_run=dry_run, as_json=as_json)


@app.command()
def move(
    rule_id: RuleId,
    state: Annotated[
        str, typer.Argument(metavar="STATE", help="DRAFT, SHADOW, ACTIVE, PAUSE or DELETE.", show_default=False)
    ],
    url: Url = None,
    comment: Comment = "",
    as_json: AsJson = False,
) -> None:
    """Give a rule another state. Under four eyes, an activation waits for approval.

    \b
    Examples:
      fraud rules move 1 PAUSE --comment "too many false alerts"
    """
    _change(rule_id, "state", {"state": state}, url, comment, as_json=as_json)


@app.command()
def rollback(
    rule_id: RuleId,
    revision: Annotated[int, typer.Argument(help="Revision that returns.", min=1, show_default=False)],
    url: Url = None,
    comment: Comment = "",
    as_json: AsJson = False,
) -> None:
    """Save an earlier revision of a rule again, as a new revision.

    \b
    Examples:
      fraud rules rollback 1 3 --comment "the new limit misses frauds"
    """
    _change(rule_id, "rollback", {"revision": revision}, url, comment, as_json=as_json)


@app.command()
def export(
    kafka: Kafka,
    url: Url = None,
    direct: Direct = False,
    form: Annotated[RuleFormat, typer.Option("--format", help="Format of the file.")] = RuleFormat.YAML,
    output: Output = None,
) -> None:
    """Write the rules but drafts, with --direct those in force, to a file that `fraud rules save` accepts.

    \b
    Examples:
      fraud rules export > rules.yaml
      fraud rules export --format json --output rules.json
    """
    client = control_plane(url, direct=direct)
    if client is not None:
        write_file(client.text("/export", format=form.value), output)
        return
    in_force = read_rule_log(load_context(), kafka).timeline.latest.rules
    write_file(export_rules((in_force[rule_id].rule for rule_id in sorted(in_force)), form).encode(), output)


@app.command()
def control(
    kind: Annotated[ControlType, typer.Argument(metavar="TYPE", help=", ".join(ControlType), show_default=False)],
    kafka: Kafka,
    url: Url = None,
    direct: Direct = False,
    comment: Comment = "",
    yes: Annotated[bool, typer.Option("--yes", help="Clear or delete without confirmation.")] = False,
) -> None:
    """Send a control. It acts on all rules or on all state. The control plane accepts it only from an admin.

    CLEAR_STATE_ALL clears every window. CLEAR_STATE_ALL_STOP also stops the detector. DELETE_RULES_ALL deletes every
    rule. EXPORT_RULES_CURRENT makes the detector write the rules in force to the topic current-rules.

    \b
    Examples:
      fraud rules control EXPORT_RULES_CURRENT
      fraud rules control CLEAR_STATE_ALL --yes --direct
    """
    from fraud_rules.kafka.reachable import require_broker

    client = control_plane(url, direct=direct, writes=True)
    if client is None:
        refuse("with --direct", comment=comment)
    if kind is not ControlType.EXPORT_RULES_CURRENT and not yes:
        if not ASKS:
            raise InputInvalid(f"{kind} cannot be undone: add --yes to write it without confirmation")
        typer.confirm(f"{kind} cannot be undone. Write it?", abort=True)
    if client is not None:
        client.change("POST", "/controls", {"control": kind.value, "confirm": kind.value, "comment": comment})
        print(f"{kind} sent")
        return
    require_broker(kafka)
    context = load_context()
    (version,) = append(context, kafka, [(b"control", control_record(kind.value, None))])
    print(f"{kind} written to {context.settings.topics.rules} as version {version}")


@app.command()
def restore(
    kafka: Kafka,
    archive: Annotated[
        str, typer.Option("--archive", help="Folder of the archive, or s3://BUCKET/PREFIX.", show_default=False)
    ],
    direct: Direct = False,
) -> None:
    """Write the archived rule log to an empty rule log, after the loss of Kafka.

    The records keep their order and get new versions, append times and no headers. An interrupted restore continues:
    the rule log may hold the first records of the archived one, but no others (exit code 2).

    \b
    Examples:
      fraud rules restore --archive /data/archive --direct
    """
    from fraud_rules.batch.archive.restoring import archived_rules
    from fraud_rules.batch.archive.store import ArchiveStore
    from fraud_rules.kafka.consume import read_topic
    from fraud_rules.kafka.reachable import require_broker
    from fraud_rules.kafka.record_writer import append_records

    if not direct:
        raise ConfigError("a restore writes to the rule log itself: add --direct")
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


def _save_directly(paths: list[Path], kafka: KafkaConnection, wait: float, *, dry_run: bool) -> None:
    context = load_context()
    validated = validate_files(paths, context.schema, context.settings.limits)
    rejected = [each for each in validated if each.change is None]
    if rejected:
        show.print_rejected(rejected)
        raise RulesRejected(f"{len(rejected)} of {len(validated)} rules are not valid; nothing was written")
    log = read_rule_log(context, kafka, settled=True).timeline
    planned = plan_records(validated, log.latest, None)
    check_against_log(context, log, [(f"{each.where}: ", each.record) for each in planned if each.effect.writes])
    versions = {} if dry_run else write_rules(context, kafka, planned)
    show.print_applied(planned, context.schema, versions, "would be " if dry_run else "")
    if wait > 0 and versions:
        await_live(context, kafka, set(versions.values()), wait)


def _change(
    rule_id: int, action: str, body: dict[str, object], url: str | None, comment: str, *, as_json: bool
) -> None:
    client = connect(url)
    newest = client.get(f"/rules/{rule_id}")["revision"]
    rule, waits = client.change("POST", f"/rules/{rule_id}/{action}", body | {"comment": comment}, newest)
    line = f"rule {rule['ruleId']}: {rule['state']}, revision {rule['revision']}"
    print_change(rule, line, waits=waits, as_json=as_json)
