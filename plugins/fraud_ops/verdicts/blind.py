"""Finds the reasons why a running detector evaluates no payments, or too few. Pure."""

from __future__ import annotations

from typing import Protocol

from fraud_rules.logs.detector_status import TrafficCounts

__all__ = ["BlindLimits", "blindness"]

_FEWEST = 20
"""The smallest number of records for which `blindness` assesses a share."""


class BlindLimits(Protocol):
    """The limits of `blindness`, as in `fraud_rules.configuration.settings.HealthSettings`."""

    @property
    def quarantined_percent(self) -> int: ...

    @property
    def late_percent(self) -> int: ...

    @property
    def silent_ms(self) -> int: ...


def blindness(
    traffic: TrafficCounts | None, arrived_ms: int | None, limits: BlindLimits, now_ms: int
) -> tuple[str, ...]:
    """List the reasons why a detector is blind: quarantine, lateness, silence. Return no reasons if it is not blind.

    `arrived_ms` is the append time of the newest transaction: 0 if retention has removed all transactions, None if no
    transaction ever arrived or the time is unknown. None is no reason, because a new installation is not blind.
    `now_ms` is the broker's time.
    """
    return tuple(filter(None, (*_shares(traffic, limits), _silence(arrived_ms, limits.silent_ms, now_ms))))


def _shares(traffic: TrafficCounts | None, limits: BlindLimits) -> tuple[str | None, ...]:
    if traffic is None:
        return ()
    return (
        _share(
            traffic.quarantined, traffic.rows + traffic.quarantined, limits.quarantined_percent, "are in quarantine"
        ),
        _share(traffic.late, traffic.rows, limits.late_percent, "were late, and no rule evaluates them"),
    )


def _share(count: int, total: int, limit_percent: int, outcome: str) -> str | None:
    if total < _FEWEST or count * 100 < total * limit_percent:
        return None
    return f"{count:,} of the last {total:,} records ({count / total:.0%}) {outcome}"


def _silence(arrived_ms: int | None, silent_ms: int, now_ms: int) -> str | None:
    if arrived_ms is None or silent_ms == 0 or now_ms - arrived_ms < silent_ms:
        return None
    if arrived_ms == 0:
        return "the topic of transactions is empty: retention has removed the last transaction"
    return f"no transaction has arrived for {(now_ms - arrived_ms) / 3_600_000:.1f} h"
