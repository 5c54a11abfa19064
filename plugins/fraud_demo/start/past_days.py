"""Archives two generated past days, so that a what-if has days to evaluate from the first minute on.

The demo runs this module as a process of low priority beside its start, with the argument `--past-days=ARCHIVE`.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from fraud_demo.traffic import TrafficRecord, TrafficSettings, generate
from fraud_rules.batch.archive.importing import import_file
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.cli.configured import load_context
from fraud_rules.errors import ArchiveBusy
from fraud_rules.model.day import DAY_MS, Day
from fraud_rules.runtime.clock import now_ms

DAYS: Final = 2
ARGUMENT: Final = "--past-days="
"""The prefix of the only argument, by which the next demo finds the process."""

_A_DAY: Final = 20_000
_FRAUD_EVERY_S: Final = 1_800.0
_BUSY_S: Final = 5.0
_ATTEMPTS: Final = 60

_REPORTED: Final[Mapping[str, int]] = {
    "emptied-account": 2,
    "huge-payment": 0,
    "mule-fan-out": 4,
    "scripted-payer": 80,
    "cash-collector": 0,
    "structured-payments": 2,
    "tested-cards": 9,
    "tested-and-used-card": 4,
    "unusual-amount": 12,
}
"""The payment of a fraud, from 0, with which the pattern is complete: the victim notices it and reports it."""


def past_day(day: Day) -> Iterator[bytes]:
    """Generate the payments of a day, as JSON: ordinary traffic, and a planted fraud each half hour."""
    return (record.value for record in _records(day))


def past_days() -> list[Day]:
    """The archived days, in order."""
    return [Day.today().plus(-back) for back in range(DAYS, 0, -1)]


def fraud_labels(days: Iterable[Day]) -> str:
    """The labels of the planted frauds of days, as CSV: one reported payment of each fraud."""
    return "".join(["transactionId,label\n", *(f"{each},FRAUD\n" for day in days for each in reported(_records(day)))])


def reported(records: Iterable[TrafficRecord]) -> Iterator[int]:
    """The transaction ids of the reported payments of planted frauds."""
    payments: Counter[str] = Counter()
    for record in records:
        if record.planted is None or record.transaction_id is None:
            continue
        if payments[record.planted] == _REPORTED[record.planted.rpartition("-")[0]]:
            yield record.transaction_id
        payments[record.planted] += 1


def _records(day: Day) -> Iterator[TrafficRecord]:
    seconds = DAY_MS / 1_000
    settings = TrafficSettings(
        rate_per_s=_A_DAY / seconds,
        seconds=seconds,
        seed=day.number,
        first_fraud_s=_FRAUD_EVERY_S,
        fraud_every_s=_FRAUD_EVERY_S,
    )
    for record in generate(settings, day.start_ms):
        if record.due_ms >= day.start_ms + DAY_MS:
            return  # a fraud of the last minutes would reach into the next day
        yield record


def archive_past_days(folder: Path) -> int:
    """Import the days before today into the archive, and return the number of payments. Raises FraudError."""
    context = load_context()
    store = ArchiveStore(folder)
    imported = 0
    with TemporaryDirectory(prefix="fraud-demo-") as temporary:
        for day in past_days():
            file = Path(temporary, f"{day}.jsonl")
            file.write_bytes(b"\n".join(past_day(day)) + b"\n")
            imported += import_file(file, store, context.schema, context.settings, now_ms()).transactions
    return imported


def main() -> None:
    """Archive the days into the folder of the argument. Wait while the archive job has the archive."""
    folder = Path(sys.argv[1].removeprefix(ARGUMENT))
    for _ in range(_ATTEMPTS):
        try:
            imported = archive_past_days(folder)
        except ArchiveBusy:
            time.sleep(_BUSY_S)
        else:
            print(f"{imported} payments of {DAYS} past days archived")
            return
    raise SystemExit("the archive is busy")


if __name__ == "__main__":
    main()
