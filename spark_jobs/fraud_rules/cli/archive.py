"""`fraud archive`: runs the batch jobs on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fraud_rules.cli.configured import CommandContext, load_context
from fraud_rules.cli.display.history_preview import print_previews
from fraud_rules.cli.options import AsJson, HistoryDryRun, Kafka, MaxRejected, command_group
from fraud_rules.model.limits import MOST_REJECTED
from fraud_rules.runtime.clock import now_ms

if TYPE_CHECKING:
    from fraud_rules.batch.archive.store import ArchiveStore

ARCHIVE_VARIABLE: Final = "FRAUD_ARCHIVE"

Archive = Annotated[
    str | None,
    typer.Option(
        "--archive",
        envvar=ARCHIVE_VARIABLE,
        show_envvar=True,
        help="Folder of the archive, or s3://BUCKET/PREFIX.",
        show_default="var/archive",
    ),
]
Master = Annotated[str, typer.Option(help="Spark's master.")]

app = command_group("Copy the logs to the archive, and evaluate past days.")


def archive_store(folder: str | None, context: CommandContext) -> ArchiveStore:
    """The archive in this folder, by default in var/archive."""
    from fraud_rules.batch.archive.store import ArchiveStore

    return ArchiveStore.at(folder or str(context.project.var / "archive"))


@app.command(name="run")
def archive(
    kafka: Kafka,
    folder: Archive = None,
    master: Master = "local[2]",
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="Skip records that retention removed before they were archived."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Copy the new records of the logs to the archive, exactly once.

    \b
    Examples:
      fraud archive run
      fraud archive run --archive /data/archive --json
    """
    from fraud_rules.batch.archive.job import ArchiveJob
    from fraud_rules.batch.archive.job import archive as run
    from fraud_rules.cli.display.output import print_json

    here = load_context()
    store = archive_store(folder, here)
    result = run(ArchiveJob(store, here.settings, here.schema, kafka, master, accept_loss=accept_loss))
    if as_json:
        print_json(result)
        return
    days = f" of {', '.join(result.days)}" if result.days else ""
    print(
        f"{result.transactions} transactions{days} archived in {result.seconds} s; {result.files} files in {store.root}"
    )


@app.command(name="import")
def import_files(
    files: Annotated[list[Path], typer.Argument(help="JSON Lines, CSV or Parquet.", show_default=False)],
    folder: Archive = None,
    dry_run: HistoryDryRun = False,
    max_rejected: MaxRejected = MOST_REJECTED,
    as_json: AsJson = False,
) -> None:
    """Import files of past transactions into the archive, for what-ifs. Needs no Kafka.

    The command reads records as the detector does, with the names, aliases and types of config/schema.yaml. Unreadable
    records go to the archived quarantine (`fraud quarantine list --archive`). If more than 1% of a file's records are
    unreadable, nothing of the file is imported (exit code 69). A file is imported once.

    \b
    Examples:
      fraud archive import --dry-run 2026-10.csv
      fraud archive import history/*.jsonl
      fraud archive import 2026-10.parquet && fraud whatif draft.yaml --days 30
    """
    from fraud_rules.batch.archive.importing import import_file
    from fraud_rules.cli.display.output import print_json

    here = load_context()
    if dry_run:
        print_previews(files, here)
        return
    store = archive_store(folder, here)
    for file in files:
        result = import_file(file, store, here.schema, here.settings, now_ms(), max_rejected)
        if as_json:
            print_json(result)
            continue
        days = f" of {len(result.days)} days, {result.days[0]} to {result.days[-1]}" if result.days else ""
        known = ", imported before" if result.known else ""
        print(f"{file}: {result.transactions} transactions{days}{known}")
        for reason, rejected in sorted(result.rejected.items(), key=lambda each: -each[1]):
            first = f" ({result.rejected_at[reason]})" if reason in result.rejected_at else ""
            print(f"  {rejected} records rejected: {reason}{first}")


@app.command()
def reevaluate(
    kafka: Kafka,
    day: Annotated[
        str, typer.Argument(help="The day of event time, for example 2026-11-20 (UTC).", show_default=False)
    ],
    folder: Archive = None,
    master: Master = "local[2]",
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Write the report, but publish no corrections.")
    ] = False,
    incomplete_history: Annotated[
        bool, typer.Option("--incomplete-history", help="Continue if windows start before the archive does.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate an archived day again with all its data, and publish missing and spurious alerts as corrections.

    \b
    Examples:
      fraud archive run && fraud archive reevaluate 2026-11-20
      fraud archive reevaluate 2026-11-21 --report-only --json | jq .rules
    """
    from fraud_rules.batch.reevaluation.job import ReevaluationJob
    from fraud_rules.batch.reevaluation.job import reevaluate as run
    from fraud_rules.batch.reevaluation.run import DayOptions
    from fraud_rules.cli.display.output import print_json
    from fraud_rules.model.day import Day

    here = load_context()
    options = DayOptions(
        Day.parse(day),
        archive_store(folder, here),
        here.settings,
        here.schema,
        incomplete_history=incomplete_history,
    )
    job = ReevaluationJob(options, kafka, master, publish=not report_only)
    result = run(job)
    if as_json:
        print_json(result)
        return
    said = f"nothing published ({result.withheld})" if result.withheld else f"{result.new_corrections} published now"
    print(
        f"{result.day}: {result.transactions} transactions; {result.published} alerts published, "
        f"{result.confirmed} confirmed, {result.added} added, {result.retracted} retracted; {said}\n"
        f"{options.store.page(options.day)}"
    )


@app.command(name="warm-up")
def warm_up(
    kafka: Kafka,
    folder: Archive = None,
    master: Master = "local[2]",
    as_json: AsJson = False,
) -> None:
    """Collect the past transactions for the rules that request them with `warmUp`, from the archive and the topic.

    The detector adds each result to its state. A request is executed once, however often the command runs.

    \b
    Examples:
      fraud archive warm-up
      fraud archive warm-up --archive /data/archive --json
    """
    from fraud_rules.batch.warm_up.job import WarmUpJob
    from fraud_rules.batch.warm_up.job import warm_up as run
    from fraud_rules.cli.display.output import print_json

    here = load_context()
    store = archive_store(folder, here)
    result = run(WarmUpJob(store, here.settings, here.schema, kafka, master))
    if as_json:
        print_json(result)
        return
    for each in result.warm_ups:
        said = f"refused: {each.fault}" if each.fault else f"{each.rows} past transactions"
        print(f"rule {each.rule_id}, version {each.version}: {said}")
    print(f"{len(result.warm_ups)} warm-ups in {result.seconds} s")
