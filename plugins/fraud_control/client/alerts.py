"""`fraud control alerts`: search, mark and export alerts through the API."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from fraud_control.client.connection import Client
from fraud_control.client.display import format_time, print_table, write_file
from fraud_control.client.options import AsJson, TokenFile, Url, connect
from fraud_control.domain.alert_search import AlertSeverity, AlertSort, ReviewVerdict
from fraud_rules.cli.display.output import print_json
from fraud_rules.cli.options import time_ms_of
from fraud_rules.runtime.grouped_number import grouped

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


def alert_filters(
    rule: Annotated[int | None, typer.Option("--rule", min=1, help="Only alerts of this rule.")] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", help="Earliest time: 30m, 24h, 7d ago, or for example 2026-11-20T12:00 (UTC)."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="The time before which the search ends, as for --since.")
    ] = None,
    severity: Annotated[
        list[AlertSeverity] | None, typer.Option("--severity", help="Only this severity; may be repeated.")
    ] = None,
    verdict: Annotated[ReviewVerdict | None, typer.Option("--verdict", help="Only alerts with this verdict.")] = None,
    entity: Annotated[str | None, typer.Option("--entity", help="A member of the key, FIELD:VALUE.")] = None,
    text: Annotated[str | None, typer.Option("--text", help="The beginning of a value.")] = None,
    min_amount: Annotated[
        float | None, typer.Option("--min-amount", help="Only payments of at least this amount.")
    ] = None,
    max_amount: Annotated[
        float | None, typer.Option("--max-amount", help="Only payments of at most this amount.")
    ] = None,
    case: Annotated[int | None, typer.Option("--case", min=1, help="Only alerts of this case.")] = None,
    shadow: Annotated[
        bool | None, typer.Option("--shadow/--no-shadow", help="Only alerts of shadow rules, or no such.")
    ] = None,
    corrections: Annotated[
        bool | None, typer.Option("--corrections/--no-corrections", help="Only corrected alerts, or no such.")
    ] = None,
    snoozed: Annotated[bool, typer.Option("--snoozed", help="Also alerts of snoozed rules and keys.")] = False,
    sort: Annotated[AlertSort, typer.Option("--sort", help="Order of the alerts.")] = AlertSort.NEWEST,
) -> dict[str, object]:
    """The filters of a search as parameters of the API. Raises InputInvalid."""
    return {
        "ruleId": rule,
        "since": None if since is None else time_ms_of(since),
        "until": None if until is None else time_ms_of(until),
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


def filtered(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `alert_filters` before its own, and pass it their result as `filters`.

    Typer reads the options from the signature of the returned function.
    """
    filters, own = (inspect.signature(each, eval_str=True).parameters for each in (alert_filters, command))
    parameters = [*filters.values(), *(each for name, each in own.items() if name != "filters")]
    keyword_only = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]

    @wraps(command)
    def with_filters(**options: Any) -> None:
        chosen = alert_filters(**{name: options.pop(name) for name in filters})
        command(filters=chosen, **options)

    with_filters.__annotations__ = {each.name: each.annotation for each in keyword_only}
    with_filters.__dict__["__signature__"] = inspect.Signature(keyword_only)
    return with_filters


@app.command()
@filtered
def search(
    filters: dict[str, object],
    url: Url,
    token_file: TokenFile = None,
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
    with connect(url, token_file) as client:
        found, missing = _found(client, filters, limit)
    if as_json:
        print_json(found)
        return
    print_alerts(found)
    if missing:
        typer.echo(f"not complete: {missing}", err=True)


@app.command()
def mark(
    alert_id: Annotated[str, typer.Argument(help="Id of the alert.", show_default=False)],
    verdict: Annotated[ReviewVerdict, typer.Argument(help="UNREVIEWED removes the mark.", show_default=False)],
    url: Url,
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
@filtered
def export(
    filters: dict[str, object],
    url: Url,
    token_file: TokenFile = None,
    form: Annotated[AlertFormat, typer.Option("--format", help="Format of the file.")] = AlertFormat.CSV,
    output: Annotated[Path | None, typer.Option("--output", help="File; default: standard output.")] = None,
) -> None:
    """Write all alerts that match the filters to a file.

    \b
    Examples:
      fraud control alerts export --since 7d --output alerts.csv
    """
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


def print_alerts(alerts: Sequence[Mapping[str, Any]]) -> None:
    """Print alerts as a table."""
    rows = ((format_time(each["eventTime"]), *_cells(each)) for each in alerts)
    print_table(("event time", "alert", "rule", "key", "value", "verdict"), rows, "no alert matches")


def _cells(alert: Mapping[str, Any]) -> tuple[object, ...]:
    key = ", ".join(f"{name} {value}" for name, value in alert["key"].items())
    mark_of = alert["mark"]
    verdict = None if mark_of is None else mark_of["verdict"]
    return alert["alertId"], alert["ruleId"], key, grouped(str(alert["triggeringValue"])), verdict
