"""A producer's transaction that stays open and hides the records behind it. Pure."""

from __future__ import annotations

import msgspec

_MS_PER_S = 1_000


class OpenTransaction(msgspec.Struct, frozen=True, rename="camel"):
    """An open transaction. No reader of committed records sees `offset`, its first record, or a later record of the
    partition, even if other producers have written them.

    `since_ms` is the append time of its first record, in epoch ms. `producer_id` and `transactional_id` are None if
    Kafka does not report them to this client.
    """

    topic: str
    partition: int
    offset: int
    since_ms: int
    producer_id: int | None = None
    transactional_id: str | None = None

    def age_ms(self, now_ms: int) -> int:
        """How long the transaction has been open at `now_ms`, by the broker's clock."""
        return max(0, now_ms - self.since_ms)

    def describe(self, now_ms: int) -> str:
        """The producer, the age and the hidden records, as a text for people."""
        age_s = self.age_ms(now_ms) // _MS_PER_S
        return (
            f"a transaction of {self._producer()} has been open for {age_s:,} s and hides the records of "
            f"{self.topic}-{self.partition} from offset {self.offset} on"
        )

    def _producer(self) -> str:
        if self.producer_id is None:
            return "an unknown producer"
        name = "" if self.transactional_id is None else f" ({self.transactional_id})"
        return f"producer {self.producer_id}{name}"
