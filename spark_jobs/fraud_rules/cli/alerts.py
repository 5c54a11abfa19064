"""`fraud alerts`: shows the detector's alerts, past and new."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from fraud_rules.cli.configured import load_context
from fraud_rules.cli.options import Kafka
from fraud_rules.runtime.interrupts import interrupts_set

if TYPE_CHECKING:
    from rich.text import Text

    from fraud_rules.kafka.consume import ReceivedRecord

# A transaction marker occupies an offset: with one alert per batch, every other offset is a marker.
_OFFSETS_EACH = 2


def alerts(
    kafka: Kafka,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show new alerts until Ctrl-C.")] = False,
    last: Annotated[int, typer.Option("--last", "-n", min=0, help="Number of past alerts to show.")] = 10,
    shadow: Annotated[bool, typer.Option("--shadow", help="Include alerts of shadow rules.")] = False,
    corrections: Annotated[
        bool, typer.Option("--corrections", help="Show the corrections of re-evaluations instead.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the published JSON, one alert per line.")] = False,
) -> None:
    """Show alerts, each exactly once.

    The command reads committed records only. The milliseconds at the end of a line are the time from the arrival of
    the transaction to the display of its alert. With --follow, stderr reports when the detector stops evaluating
    payments, and when it resumes.

    \b
    Examples:
      fraud alerts --last 100
      fraud alerts --follow
      fraud alerts --follow --json | jq .key
      fraud alerts --corrections --last 50
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
