"""Finds the reason why a running detector gets no payments. Pure."""

from __future__ import annotations


def silence(arrived_ms: int | None, silent_ms: int, now_ms: int) -> str | None:
    """The reason why a detector is blind: no transaction has arrived for `silent_ms` (0: no limit). None otherwise.

    `arrived_ms` is the append time of the newest transaction: 0 if retention has removed all transactions, None if no
    transaction ever arrived or the time is unknown. None is no reason, because a new installation is not blind.
    `now_ms` is the broker's time.
    """
    if arrived_ms is None or silent_ms == 0 or now_ms - arrived_ms < silent_ms:
        return None
    if arrived_ms == 0:
        return "the topic of transactions is empty: retention has removed the last transaction"
    return f"no transaction has arrived for {(now_ms - arrived_ms) / 3_600_000:.1f} h"
