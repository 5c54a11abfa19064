"""`fraud control alerts`: search, mark and export alerts through the API."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from fraud_ops.control_plane.client.display import print_table, said_time, write_file
from fraud_ops.control_plane.client.options import LOCAL_URL, AsJson, TokenFile, Url, connect
from fraud_ops.control_plane.domain.alert_search import AlertSeverity, ReviewVerdict
from fraud_rules.cli.display.output import print_json

__all__ = ["app"]

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
Amount = Annotated[float | None, typer.Option("--min-amount", help="Only payments of at least this amount.")]


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
    min_amount: Amount = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=200, help="The number of alerts.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Show the newest alerts that match all filters.

    \b
    Examples:
      fraud control alerts search --rule 1 --since 24h
      fraud control alerts search --entity payeeId:1001 --json
    """
    filters = _filters(rule, since, until, severity, verdict, entity, text, min_amount)
    with connect(url, token_file) as client:
        found = client.get("/alerts", limit=limit, **filters)
    if as_json:
        print_json(found["items"])
        return
    rows = ((said_time(each["eventTime"]), *_cells(each)) for each in found["items"])
    print_table(("event time", "alert", "rule", "key", "value", "verdict"), rows, "no alert matches")
    if found["missing"]:
        typer.echo(f"not complete: {found['missing']}", err=True)


@app.command()
def mark(
    alert_id: Annotated[str, typer.Argument(help="Id of the alert.", show_default=False)],
    verdict: Annotated[ReviewVerdict, typer.Argument(help="UNREVIEWED removes the mark.", show_default=False)],
    url: Url = LOCAL_URL,
    token_file: TokenFile = None,
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
    min_amount: Amount = None,
    form: Annotated[AlertFormat, typer.Option("--format", help="Format of the file.")] = AlertFormat.CSV,
    output: Annotated[Path | None, typer.Option("--output", help="File; default: standard output.")] = None,
) -> None:
    """Write all alerts that match the filters to a file.

    \b
    Examples:
      fraud control alerts export --since 7d --output alerts.csv
    """
    filters = _filters(rule, since, until, severity, verdict, entity, text, min_amount)
    with connect(url, token_file) as client:
        write_file(client.text("/alerts/export", format=form.value, **filters), output)


def _filters(
    rule: int | None,
    since: str | None,
    until: str | None,
    severity: list[AlertSeverity] | None,
    verdict: ReviewVerdict | None,
    entity: str | None,
    text: str | None,
    min_amount: float | None,
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
    }


def _cells(alert: dict[str, Any]) -> tuple[object, ...]:
    key = ", ".join(f"{name} {value}" for name, value in alert["key"].items())
    mark_of = alert["mark"]
    verdict = None if mark_of is None else mark_of["verdict"]
    return alert["alertId"], alert["ruleId"], key, alert["triggeringValue"], verdict
