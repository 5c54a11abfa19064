"""`fraud control alerts`: search, mark and export alerts through the API."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from fraud_ops.control_plane.client.connection import Client
from fraud_ops.control_plane.client.display import print_table, said_time, write_file
from fraud_ops.control_plane.client.options import LOCAL_URL, AsJson, TokenFile, Url, connect
from fraud_ops.control_plane.domain.alert_search import AlertSeverity, AlertSort, ReviewVerdict
from fraud_rules.cli.display.output import print_json

__all__ = ["MOST_ALERTS", "app"]

MOST_ALERTS: Final = 10_000
_PAGE_SIZE: Final = 500

app = typer.Typer(
    help="Alerts, through the API: with the filters of the page.", no_args_is_help=True, rich_markup_mode=None
)


class AlertFormat(StrEnum):
    """The formats of an export."""

    CSV = "csv"
    PARQUET = "parquet"


Rule = Annotated[int | None, typer.Option("--rule", min=1, help="Only alerts of this rule.")]
Since = Annotated[str | None, typer.Option("--since", help="Epoch ms, or an age such as 30m, 24h or 7d.")]
Until = Annotated[str | None, typer.Option("--until", help="Epoch ms, or an age.")]
Severity = Annotated[
    list[AlertSeverity] | None, typer.Option("--severity", help="Only this severity; may be repeated.")
]
ReviewedAs = Annotated[ReviewVerdict | None, typer.Option("--verdict", help="Only alerts with this review.")]
Entity = Annotated[str | None, typer.Option("--entity", help="A member of the key, FIELD:VALUE.")]
Beginning = Annotated[str | None, typer.Option("--text", help="The beginning of a value.")]
MinAmount = Annotated[float | None, typer.Option("--min-amount", help="Only payments of at least this amount.")]
MaxAmount = Annotated[float | None, typer.Option("--max-amount", help="Only payments of at most this amount.")]
Case = Annotated[int | None, typer.Option("--case", min=1, help="Only alerts of this case.")]
Shadow = Annotated[bool | None, typer.Option("--shadow/--no-shadow", help="Only alerts of shadow rules, or no such.")]
Corrected = Annotated[
    bool | None, typer.Option("--corrections/--no-corrections", help="Only corrected alerts, or no such.")
]
Snoozed = Annotated[bool, typer.Option("--snoozed", help="Also alerts of snoozed rules and keys.")]
Order = Annotated[AlertSort, typer.Option("--sort", help="Order of the alerts.")]


@app.command()
def search(
    url: Url = LOCAL_URL,
    token_file: TokenFile = None,
    rule: Rule = None,
    since: Since = None,
    until: Until = None,
    severity: Severity = None,
    verdict: ReviewedAs = None,
    entity: Entity = None,
    text: Beginning = None,
    min_amount: MinAmount = None,
    max_amount: MaxAmount = None,
    case: Case = None,
    shadow: Shadow = None,
    corrections: Corrected = None,
    snoozed: Snoozed = False,
    sort: Order = AlertSort.NEWEST,
    limit: Annotated[int, typer.Option("--limit", min=1, max=MOST_ALERTS, help="The number of alerts.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Show the first alerts that match all filters. `export` writes all of them.

    \b
    Examples:
      fraud control alerts search --rule 1 --since 24h
      fraud control alerts search --since 7d --min-amount 1000 --sort amount --limit 500
      fraud control alerts search --entity payeeId:1001 --json
    """
    filters = _filters(
        rule,
        since,
        until,
        severity,
        verdict,
        entity,
        text,
        min_amount,
        max_amount,
        case,
        shadow,
        corrections,
        snoozed,
        sort,
    )
    with connect(url, token_file) as client:
        found, missing = _found(client, filters, limit)
    if as_json:
        print_json(found)
        return
    rows = ((said_time(each["eventTime"]), *_cells(each)) for each in found)
    print_table(("event time", "alert", "rule", "key", "value", "verdict"), rows, "no alert matches")
    if missing:
        typer.echo(f"not complete: {missing}", err=True)


@app.command()
def mark(
    alert_id: Annotated[str, typer.Argument(help="Id of the alert.", show_default=False)],
    verdict: Annotated[ReviewVerdict, typer.Argument(help="UNREVIEWED removes the mark.", show_default=False)],
    url: Url = LOCAL_URL,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Mark an alert as a fraud or as no fraud.

    \b
    Examples:
      fraud control alerts mark ALERT_ID FRAUD
    """
    path = f"/alerts/{quote(alert_id, safe='')}/mark"
    with connect(url, token_file) as client:
        if verdict is ReviewVerdict.UNREVIEWED:
            client.change("DELETE", path)
        else:
            client.change("PUT", path, {"verdict": verdict.value})
    if as_json:
        print_json({"alertId": alert_id, "verdict": verdict.value})
    else:
        typer.echo(f"alert {alert_id}: {verdict.value}")


@app.command()
def export(
    url: Url = LOCAL_URL,
    token_file: TokenFile = None,
    rule: Rule = None,
    since: Since = None,
    until: Until = None,
    severity: Severity = None,
    verdict: ReviewedAs = None,
    entity: Entity = None,
    text: Beginning = None,
    min_amount: MinAmount = None,
    max_amount: MaxAmount = None,
    case: Case = None,
    shadow: Shadow = None,
    corrections: Corrected = None,
    snoozed: Snoozed = False,
    sort: Order = AlertSort.NEWEST,
    form: Annotated[AlertFormat, typer.Option("--format", help="Format of the file.")] = AlertFormat.CSV,
    output: Annotated[Path | None, typer.Option("--output", help="File; default: standard output.")] = None,
) -> None:
    """Write all alerts that match the filters to a file.

    \b
    Examples:
      fraud control alerts export --since 7d --output alerts.csv
    """
    filters = _filters(
        rule,
        since,
        until,
        severity,
        verdict,
        entity,
        text,
        min_amount,
        max_amount,
        case,
        shadow,
        corrections,
        snoozed,
        sort,
    )
    with connect(url, token_file) as client:
        write_file(client.text("/alerts/export", format=form.value, **filters), output)


def _found(client: Client, filters: dict[str, object], limit: int) -> tuple[list[dict[str, Any]], str | None]:
    """Read the first alerts of a search page by page, and the text that says which alerts are missing."""
    found: list[dict[str, Any]] = []
    before = None
    while True:
        page = client.get("/alerts", limit=min(limit - len(found), _PAGE_SIZE), before=before, **filters)
        found += page["items"]
        before = page["next"]
        if before is None or len(found) >= limit:
            return found, page["missing"]


def _filters(
    rule: int | None,
    since: str | None,
    until: str | None,
    severity: list[AlertSeverity] | None,
    verdict: ReviewVerdict | None,
    entity: str | None,
    text: str | None,
    min_amount: float | None,
    max_amount: float | None,
    case: int | None,
    shadow: bool | None,
    corrections: bool | None,
    snoozed: bool,
    sort: AlertSort,
) -> dict[str, object]:
    return {
        "ruleId": rule,
        "since": since,
        "until": until,
        "severity": [each.value for each in severity or ()],
        "verdict": None if verdict is None else verdict.value,
        "entity": entity,
        "text": text,
        "minAmount": min_amount,
        "maxAmount": max_amount,
        "caseId": case,
        "shadow": shadow,
        "corrections": corrections,
        "snoozed": snoozed,
        "sort": sort.value,
    }


def _cells(alert: dict[str, Any]) -> tuple[object, ...]:
    key = ", ".join(f"{name} {value}" for name, value in alert["key"].items())
    mark_of = alert["mark"]
    verdict = None if mark_of is None else mark_of["verdict"]
    return alert["alertId"], alert["ruleId"], key, alert["triggeringValue"], verdict
