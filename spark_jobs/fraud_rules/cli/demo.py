"""`fraud demo`: everything at work on this machine; see the package `demo`."""

from __future__ import annotations

from typing import Annotated

import typer

from fraud_rules.cli.configured import configured


def demo(
    seconds: Annotated[
        float | None, typer.Option(min=10, help="End by itself after so long.", show_default="until Ctrl-C")
    ] = None,
    rate: Annotated[float, typer.Option(help="Ordinary transactions a second.")] = 100,
    seed: Annotated[int, typer.Option(help="Same seed, same traffic (ids and times aside).")] = 1,
    stop: Annotated[bool, typer.Option("--stop", help="Only stop what an earlier demo left running.")] = False,
) -> None:
    """Show it all: broker, detector, traffic, planted frauds.

    With --seconds it ends by itself, and exits with 0 only if the alerts published equal a replay of the recorded logs,
    every planted fraud raised one, and hardly anything else did. Files are under var/demo, made anew each time.

    \b
    Examples:
      fraud demo
      fraud demo --seconds 60 --rate 500
      fraud demo --stop
    """
    from fraud_rules.demo.run import DemoOptions, run_demo, stop_left_over
    from fraud_rules.traffic import TrafficSettings

    context = configured()
    if stop:
        stopped = stop_left_over(context)
        print(f"stopped: {', '.join(stopped)}" if stopped else "no demo was running")
        return
    traffic = TrafficSettings(
        rate_per_s=rate,
        seconds=seconds,
        payers=max(20_000, int(200 * rate)),
        seed=seed,
        out_of_order=0.02,
        late=0.002,
        max_out_of_orderness_ms=max(1, context.settings.max_out_of_orderness_ms),
        duplicates=0.005,
        malformed=0.005,
    )
    raise typer.Exit(run_demo(DemoOptions(traffic), context))
