"""`fraud alerts`: shows alerts from their topic; exports and marks them through the control plane."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote

import typer

from fraud_rules.cli.configured import load_context
from fraud_rules.cli.display.api_answers import write_file
from fraud_rules.cli.display.output import print_json
from fraud_rules.cli.options import AsJson, Kafka, Output, Url, command_group, connect, time_ms_of
from fraud_rules.errors import InputInvalid
from fraud_rules.runtime.interrupts import interrupts_set

if TYPE_CHECKING:
    from rich.text import Text

    from fraud_rules.kafka.consume import ReceivedRecord

app = command_group("Alerts: those in their topic; exports and marks through the control plane.")

_NO_MARK: Final = "UNREVIEWED"
_FILTERS: Final = (
    "ruleId", "since", "until", "severity", "verdict", "entity", "text", "minAmount", "maxAmount", "caseId", "shadow",
    "corrections", "snoozed", "sort",
)  # fmt: skip

# A transaction marker occupies an offset: with one alert per batch, every other offset is a marker.
_OFFSETS_EACH = 2


@app.command(name="list")
def list_alerts(
    kafka: Kafka,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show new alerts until Ctrl-C.")] = False,
    last: Annotated[int, typer.Option("--last", "-n", min=0, help="Number of past alerts to show.")] = 10,
    shadow: Annotated[bool, typer.Option("--shadow", help="Include alerts of shadow rules.")] = False,
    corrections: Annotated[
        bool, typer.Option("--corrections", help="Show the corrections of re-evaluations instead.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the published JSON, one alert per line.")] = False,
) -> None:
    """Show the alerts in their topic, each exactly once.

    The command reads committed records only. The milliseconds at the end of a line are the time from the arrival of
    the transaction to the display of its alert. With --follow, stderr reports when the detector stops evaluating
    payments, and when it resumes.

    \b
    Examples:
      fraud alerts list --last 100
      fraud alerts list --follow --json | jq .key
      fraud alerts list --corrections --last 50
    """
    from fraud_rules.cli.display.alert_lines import read_alert_line, read_correction_line
    from fraud_rules.cli.display.outage_notices import OutageNotices
    from fraud_rules.cli.display.output import error_console
    from fraud_rules.kafka import consume
    from fraud_rules.kafka.reachable import require_broker
    from fraud_rules.monitoring.liveness_reader import LivenessWatch

    require_broker(kafka)
    topics = load_context().settings.topics
    names = [topics.alerts, topics.shadow_alerts] if shadow else [topics.alerts]
    line: Callable[[bytes, int], Text] = read_alert_line
    if corrections:
        names, line = [topics.alert_corrections], read_correction_line
    ends = {name: consume.topic_ends(kafka, name) for name in names}
    known = [
        consume.ReceivedRecord(name, 0, record, record.append_ms)
        for name in names
        for record in consume.tail_of(kafka, name, _OFFSETS_EACH * last, ends[name][0])
    ]
    for received in sorted(known, key=lambda each: each.record.append_ms)[len(known) - min(last, len(known)) :]:
        _print(received, line, as_json)
    if not follow:
        return
    stop = threading.Event()
    with interrupts_set(stop), LivenessWatch(kafka, load_context().settings) as watch:
        notices = OutageNotices()
        for found in consume.follow(kafka, ends, goes_on=lambda: not stop.is_set()):
            if found is not None:
                _print(found, line, as_json)
            for notice in notices.of(watch.liveness()):
                error_console().print(notice, soft_wrap=True)
    raise typer.Exit(130)


@app.command()
def mark(
    alert_id: Annotated[str, typer.Argument(help="Id of the alert.", show_default=False)],
    verdict: Annotated[
        str, typer.Argument(metavar="VERDICT", help="FRAUD, NOT_FRAUD, or UNREVIEWED to remove it.", show_default=False)
    ],
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Mark an alert as a fraud or as no fraud.

    \b
    Examples:
      fraud alerts mark ALERT_ID FRAUD
    """
    path = f"/alerts/{quote(alert_id, safe='')}/mark"
    if verdict == _NO_MARK:
        connect(url).change("DELETE", path)
    else:
        connect(url).change("PUT", path, {"verdict": verdict})
    if as_json:
        print_json({"alertId": alert_id, "verdict": verdict})
    else:
        print(f"alert {alert_id}: {verdict}")


@app.command()
def export(
    filters: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE", help=f"Filters: {', '.join(_FILTERS)}.", show_default=False),
    ] = None,
    url: Url = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first alerts.")] = None,
    form: Annotated[str, typer.Option("--format", help="csv or parquet.")] = "csv",
    output: Output = None,
) -> None:
    """Write all alerts that match the filters, each with its mark.

    The filters are those in the address of the page Alerts. since (inclusive) and until are ages or times in UTC.

    \b
    Examples:
      fraud alerts export ruleId=1 since=24h --limit 50
      fraud alerts export since=7d minAmount=1000 sort=amount --output alerts.csv
      fraud alerts export entity=payeeId:1001 severity=high severity=critical --format parquet --output alerts.parquet
    """
    write_file(connect(url).text("/alerts/export", format=form, limit=limit, **alert_filters(filters or ())), output)


def alert_filters(texts: Iterable[str]) -> dict[str, object]:
    """The parameters of the API for filters NAME=VALUE. Raises InputInvalid."""
    found: dict[str, list[object]] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if name not in _FILTERS or not separator:
            raise InputInvalid(f"{text[:100]!r} is no filter NAME=VALUE; the names are {', '.join(_FILTERS)}")
        found.setdefault(name, []).append(time_ms_of(value) if name in ("since", "until") else value)
    return dict(found)


def _print(received: ReceivedRecord, line: Callable[[bytes, int], Text], as_json: bool) -> None:
    """Print a record. An unreadable record is reported on stderr instead."""
    from fraud_rules.cli.display.output import console
    from fraud_rules.kafka.decoding import decode_or_skip

    record = received.record
    shown = decode_or_skip(received.topic, record, lambda value: line(value, received.received_ms), received.partition)
    if shown is None or record.value is None:
        return
    if as_json:
        print(record.value.decode(), flush=True)
    else:
        console().print(shown, soft_wrap=True)
