"""`fraud streams generate`: sends generated traffic with planted frauds and faulty records."""

from __future__ import annotations

import threading
import time
from typing import Annotated

import typer

from fraud_rules.cli.configured import load_context
from fraud_rules.cli.options import Kafka
from fraud_rules.runtime import clock
from fraud_rules.runtime.interrupts import interrupts_set


def generate(
    kafka: Kafka,
    rate: Annotated[float, typer.Option(help="Ordinary transactions per second.")] = 100,
    seconds: Annotated[
        float | None, typer.Option(help="Length of the run in seconds.", show_default="until Ctrl-C")
    ] = None,
    out_of_order: Annotated[float, typer.Option(help="Fraction that arrives out of order, but not late.")] = 0,
    late: Annotated[float, typer.Option(help="Fraction that arrives too late for the detector.")] = 0,
    duplicates: Annotated[float, typer.Option(help="Fraction that is sent twice.")] = 0,
    malformed: Annotated[float, typer.Option(help="Fraction that is unreadable.")] = 0,
) -> None:
    """Send generated transactions at a steady rate.

    Event times follow the wall clock. The planted frauds are not part of the rate.

    \b
    Examples:
      fraud streams generate --rate 1000 --seconds 60
      fraud streams generate --rate 200 --out-of-order 0.1 --late 0.01 --duplicates 0.01 --malformed 0.01
    """
    from fraud_demo.traffic import TrafficSettings
    from fraud_demo.traffic import generate as traffic
    from fraud_demo.traffic_writer import TrafficWriter
    from fraud_rules.kafka.reachable import require_broker

    settings = load_context().settings
    wanted = TrafficSettings(
        rate_per_s=rate,
        seconds=seconds,
        payers=max(20_000, int(10 * rate)),  # with fewer, the seed rules fire
        out_of_order=out_of_order,
        late=late,
        max_out_of_orderness_ms=max(1, settings.max_out_of_orderness_ms),
        duplicates=duplicates,
        malformed=malformed,
    )
    require_broker(kafka)
    writer = TrafficWriter(kafka, settings.topics.transactions)
    stop = threading.Event()
    started_s = time.monotonic()
    with interrupts_set(stop):
        sent = writer.send(traffic(wanted, clock.now_ms()), stop)
    took_s = max(time.monotonic() - started_s, 1e-3)
    pace = f"{took_s:.1f} s ({sent.records / took_s:.0f}/s)"
    print(f"sent {sent.records} records in {pace}; planted frauds: {sent.planted}, malformed: {sent.malformed}")
    if stop.is_set():
        raise typer.Exit(130)
