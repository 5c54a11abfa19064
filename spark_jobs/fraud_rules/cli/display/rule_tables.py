"""The output of the rule commands: tables or JSON on stdout, reasons of rejection on stderr."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from fraud_rules.cli.display.output import console, print_json, printable
from fraud_rules.codec.rules.apply import PlannedRecord, ValidatedRecord
from fraud_rules.codec.rules.sentence import rule_sentence
from fraud_rules.model.rule import Control, Rule, RuleChange, RuleDeletion
from fraud_rules.runtime.clock import utc_text

if TYPE_CHECKING:
    from fraud_rules.logs.rule_status import RuleLogStatus, RuleOperation
    from fraud_rules.model.schema import TransactionSchema


_REJECTED_SHOWN = 10


def summary(change: RuleChange, schema: TransactionSchema) -> str:
    """Describe a change in words."""
    match change:
        case Rule() as rule:
            name, sentence = rule.document.get("name"), rule_sentence(rule, schema)
            return f"{name}: {sentence}" if name else sentence
        case RuleDeletion(rule_id):
            return f"delete rule {rule_id}"
        case Control(kind):
            return kind.value


def print_validated(validated: Sequence[ValidatedRecord], schema: TransactionSchema, as_json: bool) -> None:
    """Print each record with its change, or with the reasons of its rejection."""
    if as_json:
        print_json([_validation_document(each, schema) for each in validated])
        return
    for each in validated:
        if each.change is not None:
            print(f"ok        {each.where}: {printable(summary(each.change, schema))}")
        else:
            print(f"rejected  {each.where}")
            for reason in each.reasons:
                print(f"          {reason.field}: {reason.message}")


def print_rejected(rejected: Sequence[ValidatedRecord]) -> None:
    """Print the reasons of rejection on stderr, one per line."""
    for each in rejected:
        for reason in each.reasons:
            sys.stderr.write(f"{each.where}: {reason.field}: {reason.message}\n")


def print_applied(
    applied: Sequence[PlannedRecord], schema: TransactionSchema, versions: Mapping[int, int], mood: str
) -> None:
    """Print the effect of each record. `versions` are by position; `mood` precedes the effect (`would be `)."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("rule", justify="right")
    table.add_column("what")
    table.add_column("version", justify="right")
    table.add_column("says", overflow="fold")
    table.add_column("from", style="dim", overflow="fold")
    for position, each in enumerate(applied):
        rule_id = "" if each.rule_id is None else str(each.rule_id)
        done = each.effect.value if not each.effect.writes else f"{mood}{each.effect.value}"
        version = str(versions.get(position, ""))
        table.add_row(rule_id, done, version, _cell(summary(each.change, schema)), _cell(each.where))
    console().print(table)


def print_rules(seen: RuleLogStatus, schema: TransactionSchema, as_json: bool) -> None:
    """Print the rules in force, by id, and the rejected records."""
    in_force = seen.timeline.latest.rules
    chosen = [in_force[rule_id] for rule_id in sorted(in_force)]
    if as_json:
        print_json(
            [
                {
                    "ruleId": each.rule.rule_id,
                    "ruleVersion": each.version,
                    "live": _since(seen.operations.get(each.version)),
                    "warmUp": None if (report := seen.operations.get(each.version)) is None else report.warm_up,
                    "rule": each.rule.document,
                }
                for each in chosen
            ]
        )
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, justify in (("rule", "right"), ("version", "right"), ("state", "left"), ("live since (UTC)", "left")):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("source")
    table.add_column("says", overflow="fold")
    for each in chosen:
        rule = each.rule
        operation = seen.operations.get(each.version)
        live = ", ".join(filter(None, (_since(operation) or "not yet", _warmth(operation))))
        cells = (str(rule.rule_id), str(each.version), rule.state.value, live, rule.source or "", summary(rule, schema))
        table.add_row(*map(_cell, cells))
    console().print(table)
    if not chosen:
        print("no rules are in force")
    _print_rejected(seen.rejected)


def _print_rejected(rejected: Sequence[RuleOperation]) -> None:
    """Print the newest records that the detector rejected, newest first. Print nothing if there are none."""
    if not rejected:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="Rejected records, newest first", title_justify="left")
    for name, justify in (("offset", "right"), ("rule", "right"), ("rejected at (UTC)", "left")):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("reasons", overflow="fold")
    for report in rejected[:_REJECTED_SHOWN]:
        rule_id = "unreadable" if report.rule_id is None else str(report.rule_id)
        rule_id = rule_id if report.list_name is None else f"list {report.list_name}"
        rule_id = rule_id if report.map_name is None else f"map {report.map_name}"
        reasons = "\n".join(f"{reason.field}: {reason.message}" for reason in report.reasons)
        table.add_row(str(report.rule_version), rule_id, utc_text(report.time), _cell(reasons))
    console().print(table)
    if len(rejected) > _REJECTED_SHOWN:
        print(f"{len(rejected) - _REJECTED_SHOWN} older rejected records are in the topic rule-operations")


def _validation_document(validated: ValidatedRecord, schema: TransactionSchema) -> Mapping[str, object]:
    reasons = [{"field": reason.field, "message": reason.message} for reason in validated.reasons]
    says = None if validated.change is None else summary(validated.change, schema)
    return {"where": validated.where, "accepted": validated.change is not None, "says": says, "reasons": reasons}


def _since(operation: RuleOperation | None) -> str | None:
    """The time when a version went live, in UTC. None while it is not live."""
    if operation is None or operation.rejected:
        return None
    return utc_text(operation.time)


def _warmth(operation: RuleOperation | None) -> str:
    """The state of a rule's warm-up in words. Empty for a rule that requests none."""
    from fraud_rules.logs.rule_status import WarmUpState

    report = None if operation is None else operation.warm_up
    if report is None:
        return ""
    words = {
        WarmUpState.REQUESTED: "warm-up requested",
        WarmUpState.RUNNING: f"warming, {report.progress or 0:.0%}",
        WarmUpState.WARM: "warm" if report.time is None else f"warm since {utc_text(report.time)}",
        WarmUpState.REFUSED: f"warm-up refused: {report.reason}",
    }
    return words[report.state]


def _cell(text: str) -> Text:
    """A cell of a table. It shows `[` of a name or a filter as it is: rich would read a plain string as markup."""
    return Text(printable(text))
