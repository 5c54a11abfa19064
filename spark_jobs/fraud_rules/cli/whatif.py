"""`fraud whatif`: evaluates a rule on past days."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from fraud_rules.cli.archive import Archive, archive_store
from fraud_rules.cli.configured import load_context
from fraud_rules.cli.options import AsJson

if TYPE_CHECKING:
    from fraud_rules.batch.archive.store import ArchiveStore
    from fraud_rules.batch.whatif.result import WhatIfResult

MOST_SHOWN = 10


def whatif(
    rule: Annotated[str, typer.Argument(help="A rule file, or the id of a rule in force.", show_default=False)],
    days: Annotated[int, typer.Option("--days", min=1, max=400, help="Number of days.")] = 7,
    until: Annotated[
        str | None,
        typer.Option(help="The last day, for example 2026-11-20 (UTC).", show_default="the last archived day"),
    ] = None,
    limits: Annotated[
        str, typer.Option(help="Limits to try, separated by commas.", show_default="quantiles of the aggregate")
    ] = "",
    windows: Annotated[
        bool, typer.Option("--windows/--no-windows", help="Also try shorter and longer windows.")
    ] = True,
    labels: Annotated[
        str | None,
        typer.Option(help="File of labels: CSV, JSON Lines or Parquet.", show_default="those of the control plane"),
    ] = None,
    fires: Annotated[
        Path | None, typer.Option(help="File for a list of all alerts (.csv, .jsonl, .parquet).", show_default=False)
    ] = None,
    alerts_per_day: Annotated[
        float | None, typer.Option(min=0, help="Suggest a limit with at most this many alerts.", show_default=False)
    ] = None,
    precision: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Suggest a limit with this precision (0 to 1).", show_default=False),
    ] = None,
    folder: Archive = None,
    processes: Annotated[int, typer.Option(min=1, max=64, help="Number of processes.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Evaluate a rule on past days: its alerts by count, key and time, and its overlap with other rules.

    The command reads the archive only and publishes nothing. With labels of transactions or alerts, it counts the
    caught frauds and the false alerts. The control plane keeps its labels in the archive.

    \b
    Examples:
      fraud whatif draft.yaml --days 7
      fraud whatif 3 --days 30 --limits 100,200,500,1000 --json | jq .limits
      fraud whatif draft.yaml --labels chargebacks.csv --precision 0.8 --fires hits.csv
    """
    from fraud_rules.batch.whatif.fires_file import check_fires_file
    from fraud_rules.batch.whatif.run import WhatIfQuery, last_day, save_result, what_if
    from fraud_rules.batch.whatif.variants import limits_of
    from fraud_rules.cli.display.output import print_json
    from fraud_rules.model.day import Day

    here = load_context()
    store = archive_store(folder, here)
    if fires is not None:
        check_fires_file(fires)
    last = Day.parse(until) if until else last_day(store)
    with TemporaryDirectory(prefix="fraud-whatif-") as copies:
        question = WhatIfQuery(
            rule,
            last.plus(1 - days),
            last,
            limits_of(limits),
            windows,
            processes,
            _labels(labels, store, Path(copies)),
            fires,
            alerts_per_day,
            precision,
        )
        result = what_if(question, store, here.schema, here.settings)
    page = save_result(result, store)
    if as_json:
        print_json(result)
        return
    print_result(result)
    if fires is not None:
        print(fires)
    print(page)


def _labels(named: str | None, store: ArchiveStore, copies: Path) -> Path | None:
    """The named file of labels, or that of the control plane, as a file of this host. None without both."""
    from fraud_rules.batch.archive.place import archive_path
    from fraud_rules.batch.archive.store import local_file, named_storage_errors
    from fraud_rules.batch.whatif.place import LABELS_FILE

    if named is not None:
        return local_file(archive_path(named), copies)
    known = store.root / LABELS_FILE
    with named_storage_errors(known):
        return local_file(known, copies) if known.exists() else None


def print_result(result: WhatIfResult) -> None:
    """Print the result for a terminal."""
    from fraud_rules.batch.whatif.result import coverage_text, label_text, suggestion_text
    from fraud_rules.cli.display.output import printable

    print(printable(result.says))
    print(
        f"{result.days[0]} to {result.days[-1]}: {result.transactions:,} transactions, would have fired "
        f"{result.fires:,} times for {result.keys:,} keys ({result.suppressed:,} more suppressed by its cool-down), "
        f"in {result.seconds} s"
    )
    if covered := coverage_text(result):
        print(f"  {covered}")
    for line in label_text(result):
        print(f"  {line}")
    for each in result.suggestions:
        print(f"  {suggestion_text(each, result)}")
    for key, count in result.busiest[:MOST_SHOWN]:
        print(f"  {count:>8,}  {', '.join(f'{name}={value}' for name, value in key.items()) or 'all transactions'}")
    for other in result.overlap:
        print(
            f"  rule {other.rule_id} {other.name}: {other.both:,} of its {other.alerts:,} alerts "
            "on the same transactions"
        )
