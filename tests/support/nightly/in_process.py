"""A re-evaluation without Spark, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from fraud_rules.batch.reevaluation.part import DayWork, PartAccount, run_part


def in_process(work: DayWork, parts: Sequence[tuple[int, ...]]) -> Sequence[PartAccount]:
    """Evaluate the shares in this process, one after the other."""
    return [account for part in parts for account in run_part(work, part) if account is not None]
