"""`fraud control rules`: rules and approvals through the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fraud_control.client.display import (
    format_time,
    print_change,
    print_table,
    read_file,
    write_file,
)
from fraud_control.client.options import AsJson, Comment, TokenFile, Url, connect
from fraud_control.domain.errors import ControlPlaneError
from fraud_control.domain.lifecycle import StateName
from fraud_rules.cli.display.output import print_json, printable
from fraud_rules.codec.rules.export import RuleFormat

__all__ = ["approvals_app", "rules_app"]

rules_app = typer.Typer(
    help="Rules, through the API: with the role of a user, approvals and history.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
approvals_app = typer.Typer(help="Changes that wait for a second person.", no_args_is_help=True, rich_markup_mode=None)

RuleId = Annotated[int, typer.Argument(help="Id of the rule.", min=1, show_default=False)]
ApprovalId = Annotated[int, typer.Argument(help="Id of the request.", min=1, show_default=False)]


@rules_app.command(name="list")
def list_rules(
    url: Url,
    token_file: TokenFile = None,
    state: Annotated[StateName | None, typer.Option("--state", help="Only rules in this state.")] = None,
    query: Annotated[str | None, typer.Option("--text", help="Only rules with this text.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show all rules with state and revision.

    \b
    Examples:
      fraud control rules list --state ACTIVE
      fraud control rules list --json
    """
    rows: list[dict[str, Any]] = []
    with connect(url, token_file) as client:
        cursor = None
        while True:
            page = client.get("/rules", state=None if state is None else state.value, q=query, cursor=cursor)
            rows += page["items"]
            cursor = page["next"]
            if cursor is None:
                break
    if as_json:
        print_json(rows)
        return
    columns = ("rule", "name", "severity", "state", "revision", "changed", "by")
    shown = (
        (each["ruleId"], each["name"], each["severity"], each["state"], each["revision"],
         format_time(each["updatedAt"]), each["updatedBy"])
        for each in rows
    )  # fmt: skip
    print_table(columns, shown, "there are no such rules")


@rules_app.command()
def show(rule_id: RuleId, url: Url, token_file: TokenFile = None, as_json: AsJson = False) -> None:
    """Show a rule in words and as YAML.

    \b
    Examples:
      fraud control rules show 1
    """
    with connect(url, token_file) as client:
        rule = client.get(f"/rules/{rule_id}")
    if as_json:
        print_json(rule)
        return
    typer.echo(f"# {printable(rule['says'])}")
    typer.echo(f"# {rule['state']}, revision {rule['revision']} by {printable(rule['author'])}")
    typer.echo(rule["yaml"], nl=False)


@rules_app.command()
def save(
    path: Annotated[Path, typer.Argument(help="File with rules as YAML, JSON or lines; - is stdin.")],
    url: Url,
    token_file: TokenFile = None,
    comment: Comment = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check the file and show the effects.")] = False,
    as_json: AsJson = False,
) -> None:
    """Save all rules of a file, or none if one of them is not valid. New rules are drafts.

    \b
    Examples:
      fraud control rules save rules.yaml --dry-run
      fraud control rules save rules.yaml --comment "limits of November"
    """
    with connect(url, token_file) as client:
        body = {"content": read_file(path), "comment": comment}
        result, _ = client.change("POST", "/import", body, dryRun=str(dry_run).lower())
    if as_json:
        print_json(result)
    else:
        rows = ((each["where"], each["ruleId"], each["effect"], _reasons(each)) for each in result["items"])
        print_table(("place", "rule", "effect", "reasons"), rows, "the file has no rules")
    if not result["applied"] and not dry_run:
        raise ControlPlaneError("no rule was saved: see the reasons")


@rules_app.command()
def move(
    rule_id: RuleId,
    state: Annotated[StateName, typer.Argument(help="The new state.", show_default=False)],
    url: Url,
    token_file: TokenFile = None,
    comment: Comment = "",
    as_json: AsJson = False,
) -> None:
    """Give a rule another state. Under four eyes, an activation waits for approval.

    \b
    Examples:
      fraud control rules move 1 PAUSE --comment "too many false alerts"
    """
    with connect(url, token_file) as client:
        revision = client.get(f"/rules/{rule_id}")["revision"]
        body = {"state": state.value, "comment": comment}
        rule, waits = client.change("POST", f"/rules/{rule_id}/state", body, revision)
    print_change(rule, _place(rule), waits=waits, as_json=as_json)


@rules_app.command()
def rollback(
    rule_id: RuleId,
    revision: Annotated[int, typer.Argument(help="Revision that returns.", min=1, show_default=False)],
    url: Url,
    token_file: TokenFile = None,
    comment: Comment = "",
    as_json: AsJson = False,
) -> None:
    """Save an earlier revision of a rule again, as a new revision.

    \b
    Examples:
      fraud control rules rollback 1 3 --comment "the new limit misses frauds"
    """
    with connect(url, token_file) as client:
        newest = client.get(f"/rules/{rule_id}")["revision"]
        body = {"revision": revision, "comment": comment}
        rule, waits = client.change("POST", f"/rules/{rule_id}/rollback", body, newest)
    print_change(rule, _place(rule), waits=waits, as_json=as_json)


@rules_app.command()
def export(
    url: Url,
    token_file: TokenFile = None,
    form: Annotated[RuleFormat, typer.Option("--format", help="Format of the file.")] = RuleFormat.YAML,
    output: Annotated[Path | None, typer.Option("--output", help="File; default: standard output.")] = None,
) -> None:
    """Write all rules of the store to a file.

    \b
    Examples:
      fraud control rules export --output rules.yaml
    """
    with connect(url, token_file) as client:
        write_file(client.text("/export", format=form.value), output)


@approvals_app.command(name="list")
def list_approvals(url: Url, token_file: TokenFile = None, as_json: AsJson = False) -> None:
    """Show the open requests.

    \b
    Examples:
      fraud control approvals list
    """
    with connect(url, token_file) as client:
        found = client.get("/approvals", open="true")["items"]
    if as_json:
        print_json(found)
        return
    print_approvals(found)


def print_approvals(approvals: Sequence[Mapping[str, Any]]) -> None:
    """Print requests as a table, then each rule in words. A server of an older version does not send these words."""
    columns = ("request", "action", "state", "of", "by", "since", "reason")
    rows = (
        (each["id"], each["action"], each["target"], _subject(each), each["requestedBy"],
         format_time(each["requestedAt"]), each["comment"])
        for each in approvals
    )  # fmt: skip
    print_table(columns, rows, "no change waits for approval")
    for each in approvals:
        if each.get("says"):
            typer.echo(printable(f"request {each['id']}, {_subject(each)}: {each['says']}"))


@approvals_app.command()
def approve(
    approval_id: ApprovalId,
    url: Url,
    token_file: TokenFile = None,
    comment: Comment = "",
    as_json: AsJson = False,
) -> None:
    """Approve a request, and execute it.

    \b
    Examples:
      fraud control approvals approve 7
    """
    _decide(approval_id, "approve", url, token_file, comment, as_json=as_json)


@approvals_app.command()
def reject(
    approval_id: ApprovalId,
    url: Url,
    token_file: TokenFile = None,
    comment: Comment = "",
    as_json: AsJson = False,
) -> None:
    """Reject a request.

    \b
    Examples:
      fraud control approvals reject 7 --comment "the limit is too low"
    """
    _decide(approval_id, "reject", url, token_file, comment, as_json=as_json)


def _decide(approval_id: int, word: str, url: str, token_file: Path | None, comment: str, *, as_json: bool) -> None:
    with connect(url, token_file) as client:
        decided, _ = client.change("POST", f"/approvals/{approval_id}/{word}", {"comment": comment})
    if as_json:
        print_json(decided)
        return
    typer.echo(f"request {approval_id}: {decided['action']} of {_subject(decided)} {decided['decision'].lower()}")


def _subject(approval: Mapping[str, Any]) -> str:
    return f"list {approval['listName']}" if approval["ruleId"] is None else f"rule {approval['ruleId']}"


def _place(rule: dict[str, Any]) -> str:
    return f"rule {rule['ruleId']}: {rule['state']}, revision {rule['revision']}"


def _reasons(item: dict[str, Any]) -> str:
    return "; ".join(f"{each['field']}: {each['message']}" for each in item["reasons"])
