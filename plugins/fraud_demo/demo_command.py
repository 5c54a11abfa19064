"""`fraud demo`: runs the whole product on this machine with generated traffic; see the package `demo`."""

from __future__ import annotations

from typing import Annotated

import typer

from fraud_rules.cli.configured import load_context


def demo(
    seconds: Annotated[
        float | None, typer.Option(min=10, help="Length of the demo in seconds.", show_default="until Ctrl-C")
    ] = None,
    rate: Annotated[float, typer.Option(help="Ordinary transactions per second.")] = 100,
    stop: Annotated[bool, typer.Option("--stop", help="Only stop the demo that runs or was killed.")] = False,
) -> None:
    """Run the whole product: broker, Airflow, detector, and traffic with planted frauds.

    With --seconds the demo ends by itself. Then the exit code is 0 only if the published alerts equal a replay of the
    recorded logs, every planted fraud raised an alert, and at most one ordinary transaction in a thousand did. Each
    run writes its files to a new var/demo.

    \b
    Examples:
      fraud demo
      fraud demo --seconds 60 --rate 500
      fraud demo --stop
    """
    from fraud_demo.fraud_patterns import FRAUDS
    from fraud_demo.run import run_demo, stop_left_over
    from fraud_demo.traffic import TrafficSettings

    context = load_context()
    if stop:
        stopped = stop_left_over(context)
        print(f"stopped: {', '.join(stopped)}" if stopped else "no demo is running")
        return
    traffic = TrafficSettings(
        rate_per_s=rate,
        seconds=seconds,
        payers=max(20_000, int(200 * rate)),
        out_of_order=0.02,
        late=0.002,
        max_out_of_orderness_ms=max(1, context.settings.max_out_of_orderness_ms),
        duplicates=0.005,
        malformed=0.005,
        patterns=tuple(FRAUDS),
    )
    raise typer.Exit(run_demo(traffic, context))
