"""Bounds the records that a proof or an answer reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fraud_rules.errors import NotProvable

MOST_RECORDS: Final = 1_000_000


@dataclass
class ReadBudget:
    """The number of records that may still be read, of `most`."""

    most: int = MOST_RECORDS
    used: int = 0

    def take(self, records: int) -> None:
        """Use a part. Raises NotProvable if too little is left."""
        self.used += records
        if self.used > self.most:
            raise NotProvable(
                f"{self.used:,} records or more must be read, but at most {self.most:,} may be: use --max-records of "
                "`fraud prove --direct` or `fraud why` on a host with 1.3 KB of memory for each, or a later --since"
            )
