"""`fraud quarantine`: lists the records that the detector could not read, and replays them."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fraud_rules.cli.configured import load_context
from fraud_rules.cli.options import Kafka, command_group, time_ms_of
from fraud_rules.errors import InputInvalid, StillUnreadable
from fraud_rules.runtime.clock import utc_text

if TYPE_CHECKING:
    from fraud_rules.codec.transactions.quarantine import QuarantinedRecord, QuarantineSelection
    from fraud_rules.kafka.connection import KafkaConnection

app = command_group("List and replay quarantined records.")

_SHOWN = 50
_MOST_NAMED = 10

Since = Annotated[
    str, typer.Option("--since", help="Earliest time: 30m, 12h, 7d ago, or for example 2026-11-20T12:00 (UTC).")
]
Reasons = Annotated[list[str], typer.Option("--reason", help="Only records with this reason; may be repeated.")]
Archive = Annotated[
    str | None,
    typer.Option(
        "--archive", help="Read the archive in this folder or s3://BUCKET/PREFIX.", show_default="read the topic"
    ),
]


@app.command(name="list")
def list_records(
    kafka: Kafka,
    since: Since = "",
    reason: Reasons = [],  # noqa: B006 - typer copies it
    last: Annotated[
        int | None,
        typer.Option("--last", "-n", min=1, help="Number of newest records.", show_default="50; all with --json"),
    ] = None,
    archive: Archive = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines, which `replay --from` reads.")] = False,
) -> None:
    """List quarantined records with position, time, origin, reason and first characters.

    Records that `fraud quarantine replay` has sent are marked as replayed.

    \b
    Examples:
      fraud quarantine list --since 12h
      fraud quarantine list --reason missing_field --last 5
      fraud quarantine list --json > quarantined.jsonl
    """
    from fraud_rules.codec.transactions.quarantine import to_line
    from fraud_rules.kafka.reachable import require_broker
    from fraud_rules.logs.quarantine import read_marks

    require_broker(kafka)
    marks = read_marks(kafka, load_context().settings.topics.quarantine_replays)
    found = _records(kafka, archive, _selection([], reason, since))
    if as_json:
        for record in deque(found, maxlen=last) if last else found:
            print(to_line(record, replayed=record.mark in marks).decode())
        return
    reasons: Counter[str] = Counter()
    shown: deque[QuarantinedRecord] = deque(maxlen=last or _SHOWN)
    for record in found:
        reasons[record.reason] += 1
        shown.append(record)
    for record in shown:
        print(_line(record, replayed=record.mark in marks))
    summary = ", ".join(f"{count} {name}" for name, count in reasons.most_common())
    print(f"{reasons.total()} quarantined records{': ' if summary else ''}{summary}")


@app.command()
def replay(
    kafka: Kafka,
    positions: Annotated[
        list[str],
        typer.Argument(metavar="[POSITION]...", help="Positions as listed, for example 0:17.", show_default="all"),
    ] = [],  # noqa: B006 - typer copies it
    since: Since = "",
    reason: Reasons = [],  # noqa: B006 - typer copies it
    repaired: Annotated[
        Path | None, typer.Option("--from", help="File of `list --json` lines with repaired records.")
    ] = None,
    archive: Archive = None,
) -> None:
    """Send quarantined records to the topic of transactions again: the selected ones, or all.

    Correct the cause first, for example by an alias in config/schema.yaml, and deploy the correction. The command
    sends each quarantined record once, even if you repeat it, and skips records that are still unreadable. The
    detector evaluates a record by its event time and its new append time. A record older than
    max_out_of_orderness_ms is late, and the nightly re-evaluation adds its missing alerts. The exit code is 47 if
    records are still unreadable.

    \b
    Examples:
      fraud quarantine replay
      fraud quarantine replay 0:17 0:18
      fraud quarantine replay --reason missing_field --since 2h
      fraud quarantine replay --from repaired.jsonl
    """
    from fraud_rules.kafka.reachable import require_broker
    from fraud_rules.logs.quarantine import replay as feed

    require_broker(kafka)
    context = load_context()
    selection = _selection(positions, reason, since)
    records = _records(kafka, archive, selection) if repaired is None else selection.select(_lines(repaired))
    result = feed(kafka, context.settings, context.schema, records)
    print(f"{result.fed} records sent to {context.settings.topics.transactions}, {result.before} were sent before")
    if result.unreadable:
        for position, why in result.unreadable[:_MOST_NAMED]:
            print(f"{position}  {why}")
        raise StillUnreadable(
            f"{len(result.unreadable)} records are still unreadable and were not sent: correct the schema, or repair "
            "the records in the output of `fraud quarantine list --json` and use --from"
        )


def _records(
    kafka: KafkaConnection, archive: str | None, selection: QuarantineSelection
) -> Iterator[QuarantinedRecord]:
    from fraud_rules.batch.archive.quarantine import archived_quarantine
    from fraud_rules.batch.archive.store import ArchiveStore
    from fraud_rules.logs.quarantine import read_quarantine

    if archive is not None:
        return selection.select(archived_quarantine(ArchiveStore.at(archive), selection.since_ms))
    return selection.select(read_quarantine(kafka, load_context().settings.topics.quarantine, selection.since_ms))


def _lines(path: Path) -> Iterator[QuarantinedRecord]:
    from fraud_rules.codec.transactions.quarantine import from_line

    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield from_line(line, f"{path}, line {number},")
    except OSError as error:
        raise InputInvalid(f"{path} cannot be read: {error.strerror}") from error


def _selection(positions: Iterable[str], reasons: Iterable[str], since: str) -> QuarantineSelection:
    from fraud_rules.codec.transactions.quarantine import QuarantineSelection

    wrong = [each for each in positions if not re.fullmatch("-?[0-9]+:[0-9]+", each)]
    if wrong:
        raise InputInvalid(f"{wrong[0]!r} is not a position: write it as 0:17, as `fraud quarantine list` shows it")
    return QuarantineSelection(frozenset(positions), frozenset(reasons), time_ms_of(since) if since else 0)


def _line(record: QuarantinedRecord, *, replayed: bool) -> str:
    when = utc_text(record.time_ms)
    about = f"{record.reason} ({record.detail[:80]})" if record.detail else record.reason
    state = "  replayed" if replayed else ""
    origin = ascii(f"{record.source}  {about}")[1:-1]
    return f"{record.position}  {when}  {origin}{state}\n    {record.excerpt}"
