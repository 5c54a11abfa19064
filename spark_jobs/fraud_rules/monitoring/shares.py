"""Finds the shares of late and of quarantined records that are above their limits. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from fraud_rules.configuration.settings import HealthSettings
from fraud_rules.logs.detector_status import TrafficCounts

_FEWEST: Final = 20
"""The smallest number of records whose share counts."""


class ShareVerdict(StrEnum):
    """The verdicts about a share. Each has a runbook."""

    MOSTLY_QUARANTINED = "MOSTLY_QUARANTINED"
    MOSTLY_LATE = "MOSTLY_LATE"


@dataclass(frozen=True, slots=True)
class HighShare:
    """A share above its limit: the verdict, the share with its cause, and the work of the operator."""

    verdict: ShareVerdict
    share: str
    remedy: str


def high_shares(traffic: TrafficCounts | None, limits: HealthSettings) -> Iterator[HighShare]:
    """Yield the shares of the last five minutes that are above their limits, quarantine first."""
    if traffic is None:
        return
    records = traffic.rows + traffic.quarantined
    if _is_high(traffic.quarantined, records, limits.quarantined_percent):
        share = f"{_share(traffic.quarantined, records)} are in quarantine"
        if traffic.main_reason is not None:
            share = f"{share}, most often: {traffic.main_reason}"
        remedy = "correct the producer or config/schema.yaml, then replay the records (fraud quarantine replay)"
        yield HighShare(ShareVerdict.MOSTLY_QUARANTINED, share, remedy)
    if _is_high(traffic.late, traffic.rows, limits.late_percent):
        share = f"{_share(traffic.late, traffic.rows)} were late, and no rule evaluates them"
        remedy = "correct the clock of the producer that is ahead, or load the history in order of time"
        yield HighShare(ShareVerdict.MOSTLY_LATE, share, remedy)


def _is_high(count: int, total: int, limit_percent: int) -> bool:
    return total >= _FEWEST and count * 100 >= total * limit_percent


def _share(count: int, total: int) -> str:
    return f"{count:,} of the last {total:,} records ({count / total:.0%})"
