"""`fraud load`: sends past transactions to the detector in the order of event time."""

from __future__ import annotations

import hashlib
import tempfile
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fraud_rules.cli.configured import CommandContext, load_context
from fraud_rules.cli.options import Kafka
from fraud_rules.errors import HistoryTooLate
from fraud_rules.runtime.clock import now_ms

if TYPE_CHECKING:
    from fraud_rules.kafka.connection import KafkaConnection


def load(
    kafka: Kafka,
    files: Annotated[list[Path], typer.Argument(help="JSON Lines, CSV or Parquet.", show_default=False)],
) -> None:
    """Send past transactions to the detector in the order of their event times, each once.

    All records go to one partition, because Kafka keeps the order only within a partition. The files may be in any
    order. Load history before payments arrive: the detector treats a transaction that is older than its watermark as
    late, and this command refuses to send it (exit code 48). An interrupted load continues where it ended.

    \b
    Examples:
      fraud load history/*.jsonl
      fraud load 2026-09.parquet 2026-10.parquet
    """
    from fraud_rules.batch.event_order import OrderedHistory
    from fraud_rules.codec.transactions.history_files import history_records
    from fraud_rules.kafka.history_writer import loaded_records, send_history
    from fraud_rules.kafka.reachable import require_broker

    require_broker(kafka)
    context = load_context()
    topic = context.settings.topics.transactions
    name = load_name(files)
    with tempfile.TemporaryDirectory(prefix="fraud-load-") as folder:
        history = OrderedHistory(Path(folder), context.schema, context.settings, now_ms())
        for file in files:
            history.add(history_records(file, context.schema))
        done = loaded_records(kafka, topic, name)
        first = next(islice(history.rows(), done, None), None)
        if first is not None:
            _require_in_time(kafka, context, first[0])
            rest = islice(enumerate(history.rows()), done, None)
            send_history(kafka, topic, name, ((position, row[2]) for position, row in rest))
    sent = f"{history.records - done} records sent to {topic}"
    print(f"{sent}, {done} were sent before" if done else sent)
    for reason, count in history.refused.most_common():
        print(f"  {count} of them are unreadable, so the detector quarantines them: {reason}")


def load_name(files: list[Path]) -> str:
    """Name a load by a digest of its files, in their order. Raises InputInvalid."""
    from fraud_rules.codec.transactions.history_files import digest_of

    return hashlib.sha256("".join(map(digest_of, files)).encode()).hexdigest()[:16]


def _require_in_time(kafka: KafkaConnection, context: CommandContext, first_ms: int) -> None:
    """Raise HistoryTooLate if the detector's watermark is newer than the first record of the history."""
    from fraud_rules.cli.status import read_status

    detector = read_status(kafka, context).detector
    if detector is not None and detector.watermark is not None and detector.watermark > first_ms:
        raise HistoryTooLate(
            f"the detector's watermark is {_when(detector.watermark)}, so history from {_when(first_ms)} on would be "
            "late: load it before payments arrive, or import it for what-ifs (fraud archive import)"
        )


def _when(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M UTC")
