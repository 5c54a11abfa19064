"""`fraud streams`: records and replays what a detector evaluated, and sends past transactions to it."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fraud_rules.cli.configured import CommandContext, load_context
from fraud_rules.cli.display.history_preview import print_previews
from fraud_rules.cli.options import HistoryDryRun, Kafka, MaxRejected, Output, command_group
from fraud_rules.errors import HistoryTooLate, InputInvalid
from fraud_rules.model.limits import MOST_REJECTED
from fraud_rules.runtime.clock import now_ms, utc_text
from fraud_rules.runtime.zones_release import other_releases

if TYPE_CHECKING:
    from fraud_rules.kafka.connection import KafkaConnection

app = command_group("Record, replay, load and generate streams of transactions.")


@app.command()
def record(kafka: Kafka, output: Output = None) -> None:
    """Write the detector's input as a recording.

    A recording holds the transactions and the rule log from the start of the history to the last batch, and the
    offsets and pins of each batch. `fraud streams replay` of the file gives the alerts that the detector published.

    \b
    Examples:
      fraud streams record --output run.json && fraud streams replay run.json
      fraud streams record | fraud streams replay - | jq '.alerts | length'
    """
    from fraud_rules.kafka.reachable import require_broker
    from fraud_rules.logs.recorder import record_run

    require_broker(kafka)
    context = load_context()
    recording = record_run(kafka, context.settings, context.schema)
    if output is None:
        sys.stdout.buffer.writelines(recording.lines())
        return
    try:
        recording.write(output)
    except OSError as error:
        raise InputInvalid(f"{output} cannot be written: {error.strerror}") from error
    print(
        f"{len(recording.transactions)} transactions, {len(recording.rules)} rule records and "
        f"{len(recording.batches)} batches written to {output}"
    )


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(help="The recording; - reads standard input.", show_default=False)],
) -> None:
    """Evaluate a recording with the detector's engine.

    A recording is {"keyGroups": 1, "steps": [{"at": ms, "rule": {...}}, {"at": ms, "tx": {...}}, ...]}, in append
    order. With "batches", the replay uses the recorded offsets and pins, so it recomputes a live run exactly; the
    command `record` writes such a file. The output is one JSON object with the alerts, the decisions, the ids of late,
    quarantined and ignored transactions, and the rejected rules. A warning names other releases of the time zones that
    the batches used. The exit code is 2 if the file is not a recording.

    \b
    Examples:
      fraud streams replay recording.json
      fraud streams record | fraud streams replay - | jq '.alerts | length'
    """
    from fraud_rules.replay.recording import Recording
    from fraud_rules.replay.replay import encode_exactly, replay_recording

    context = load_context()
    recording = Recording.read(_content(file), "standard input" if str(file) == "-" else str(file))
    answer = replay_recording(recording, context.schema, context.settings)
    others = other_releases(batch.time_zones for batch in recording.batches)
    if others:
        text = f"the batches used another release of the time zones than this replay: {', '.join(others)}"
        sys.stderr.write(f"fraud: warning: {text}\n")
    sys.stdout.buffer.write(encode_exactly(answer) + b"\n")


@app.command()
def load(
    kafka: Kafka,
    files: Annotated[
        list[Path] | None, typer.Argument(help="JSON Lines, CSV or Parquet.", show_default="the archive's files")
    ] = None,
    archive: Annotated[
        str | None,
        typer.Option("--archive", help="Send the transactions of the archive in this folder or s3://BUCKET/PREFIX."),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="First event day of the archive to send.", show_default="the first")
    ] = None,
    dry_run: HistoryDryRun = False,
    max_rejected: MaxRejected = MOST_REJECTED,
) -> None:
    """Send past transactions to the detector in the order of their event times, each once.

    All records go to one partition, because Kafka keeps the order only within a partition. The files may be in any
    order. Load history before payments arrive: the detector treats a transaction that is older than its watermark as
    late, and this command refuses to send it (exit code 48). If more than 1% of the records are unreadable, it sends
    none (exit code 69). An interrupted load continues where it ended.

    With --archive, the command sends the archived transactions instead of files, after the loss of Kafka.

    \b
    Examples:
      fraud streams load --dry-run 2026-09.csv
      fraud streams load history/*.jsonl
      fraud streams load 2026-09.parquet 2026-10.parquet
      fraud streams load --archive /data/archive --since 2026-11-01
    """
    from fraud_rules.batch.event_order import OrderedHistory
    from fraud_rules.codec.history.producer_form import producer_records
    from fraud_rules.kafka.history_writer import loaded_records, send_history
    from fraud_rules.kafka.reachable import require_broker

    context = load_context()
    if not dry_run:
        require_broker(kafka)
    topic = context.settings.topics.transactions
    with tempfile.TemporaryDirectory(prefix="fraud-load-") as folder:
        files = _files_to_load(files or [], archive, since, Path(folder))
        if dry_run:
            print_previews(files, context)
            return
        name = load_name(files)
        history = OrderedHistory(Path(folder), context.schema, context.settings, now_ms())
        for file in files:
            history.add(file.name, producer_records(file, context.schema))
        history.rejected.require_share(files, max_rejected)
        done = loaded_records(kafka, topic, name)
        first = next(islice(history.rows(), done, None), None)
        if first is not None:
            _require_in_time(kafka, context, first[0])
            rest = islice(enumerate(history.rows()), done, None)
            send_history(kafka, topic, name, ((position, row[2]) for position, row in rest))
    sent = f"{history.records - done} records sent to {topic}"
    print(f"{sent}, {done} were sent before" if done else sent)
    for line in history.rejected.lines():
        print(f"  the detector quarantines {line}")


def _content(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise InputInvalid(f"{file} cannot be read: {error.strerror}") from error


def _files_to_load(files: list[Path], archive: str | None, since: str | None, copies: Path) -> list[Path]:
    """The given files, or those of the archive, with copies of the files of an object store.

    Raises InputInvalid unless the caller names exactly one of both.
    """
    from fraud_rules.batch.archive.restoring import archived_transactions
    from fraud_rules.batch.archive.store import ArchiveStore
    from fraud_rules.model.day import Day

    if bool(files) is (archive is not None) or (since is not None and archive is None):
        raise InputInvalid("name either files, or --archive with an optional --since")
    if archive is None:
        return files
    return archived_transactions(ArchiveStore.at(archive), copies, None if since is None else Day.parse(since))


def load_name(files: list[Path]) -> str:
    """Name a load by a digest of its files, in their order. Raises InputInvalid."""
    from fraud_rules.codec.history.files import digest_of

    return hashlib.sha256("".join(map(digest_of, files)).encode()).hexdigest()[:16]


def _require_in_time(kafka: KafkaConnection, context: CommandContext, first_ms: int) -> None:
    """Raise HistoryTooLate if the detector's watermark is newer than the first record of the history."""
    from fraud_rules.cli.status import read_status

    detector = read_status(kafka, context).detector
    if detector is not None and detector.watermark is not None and detector.watermark > first_ms:
        newest, first = utc_text(detector.watermark), utc_text(first_ms)
        raise HistoryTooLate(
            f"the detector's watermark is {newest}, so history from {first} on would be late: "
            "load it before payments arrive, or import it for what-ifs (fraud archive import)"
        )
