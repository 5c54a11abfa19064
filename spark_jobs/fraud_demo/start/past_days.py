"""Archives two generated past days, so that a what-if has days to evaluate from the first minute on.

The demo runs this module as a process of low priority beside its start, with the argument `--past-days=ARCHIVE`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from fraud_demo.traffic import TrafficSettings, generate
from fraud_rules.batch.archive.importing import import_file
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.cli.configured import load_context
from fraud_rules.errors import ArchiveBusy
from fraud_rules.model.day import DAY_MS, Day
from fraud_rules.runtime.clock import now_ms

__all__ = ["ARGUMENT", "DAYS", "archive_past_days", "past_day"]

DAYS: Final = 2
ARGUMENT: Final = "--past-days="
"""The prefix of the only argument, by which the next demo finds the process."""

_A_DAY: Final = 20_000
_FRAUD_EVERY_S: Final = 1_800.0
_BUSY_S: Final = 5.0
_ATTEMPTS: Final = 60


def past_day(day: Day) -> Iterator[bytes]:
    """Generate the payments of a day, as JSON: ordinary traffic, and a planted fraud each half hour."""
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
        yield record.value


def archive_past_days(folder: Path) -> int:
    """Import the days before today into the archive, and return the number of payments. Raises FraudError."""
    context = load_context()
    store = ArchiveStore(folder)
    imported = 0
    with TemporaryDirectory(prefix="fraud-demo-") as temporary:
        for back in range(DAYS, 0, -1):
            day = Day.today().plus(-back)
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
