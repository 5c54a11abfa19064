"""`fraud approvals`: changes that wait for a second person, through the control plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from fraud_rules.cli.display.api_answers import format_time, print_table
from fraud_rules.cli.display.output import print_json, printable
from fraud_rules.cli.options import AsJson, Comment, Url, command_group, connect

app = command_group("Changes that wait for a second person, through the control plane.")

ApprovalId = Annotated[int, typer.Argument(help="Id of the request.", min=1, show_default=False)]


@app.command(name="list")
def list_approvals(url: Url = None, as_json: AsJson = False) -> None:
    """Show the open requests.

    \b
    Examples:
      fraud approvals list
    """
    found = connect(url).get("/approvals", open="true")["items"]
    if as_json:
        print_json(found)
        return
    print_approvals(found)


def print_approvals(approvals: Sequence[Mapping[str, Any]]) -> None:
    """Print requests as a table, then each rule in words."""
    columns = ("request", "action", "state", "of", "by", "since", "reason")
    rows = (
        (each["id"], each["action"], each["target"], _subject(each), each["requestedBy"],
         format_time(each["requestedAt"]), each["comment"])
        for each in approvals
    )  # fmt: skip
    print_table(columns, rows, "no change waits for approval")
    for each in approvals:
        if each["says"]:
            print(printable(f"request {each['id']}, {_subject(each)}: {each['says']}"))


@app.command()
def approve(
    approval_id: ApprovalId,
    url: Url = None,
    comment: Comment = "",
    as_json: AsJson = False,
) -> None:
    """Approve a request, and execute it.

    \b
    Examples:
      fraud approvals approve 7
    """
    _decide(approval_id, "approve", url, comment, as_json=as_json)


@app.command()
def reject(
    approval_id: ApprovalId,
    url: Url = None,
    comment: Comment = "",
    as_json: AsJson = False,
) -> None:
    """Reject a request.

    \b
    Examples:
      fraud approvals reject 7 --comment "the limit is too low"
    """
    _decide(approval_id, "reject", url, comment, as_json=as_json)


def _decide(approval_id: int, word: str, url: str | None, comment: str, *, as_json: bool) -> None:
    decided, _ = connect(url).change("POST", f"/approvals/{approval_id}/{word}", {"comment": comment})
    if as_json:
        print_json(decided)
        return
    print(f"request {approval_id}: {decided['action']} of {_subject(decided)} {decided['decision'].lower()}")


def _subject(approval: Mapping[str, Any]) -> str:
    names = {"rule": approval["ruleId"], "list": approval["listName"], "map": approval["mapName"]}
    return next(f"{kind} {name}" for kind, name in names.items() if name is not None)
