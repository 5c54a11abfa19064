"""The result of a day's re-evaluation, as numbers for the page, for the summary in the UI, and for programs."""

from __future__ import annotations

import msgspec

from fraud_rules.batch.reevaluation.basis import Basis
from fraud_rules.model.day import Day

HOURS = 24
LATENESS_EDGES_MS = (0, 1_000, 10_000, 60_000, 300_000, 900_000, 3_600_000, 21_600_000, 86_400_000)
"""The lower edges of the lateness classes. The last class is open."""

MOST_LISTED = 1_000


class RuleCounts(msgspec.Struct, frozen=True, rename="camel"):
    """The counts of one rule: its published and confirmed alerts, and its corrections (`added`, `retracted`).

    `says` is the rule in words, in its newest version; empty if the rule log does not have the rule.
    """

    rule_id: int
    name: str
    shadow: bool
    published: int
    confirmed: int
    added: int
    retracted: int
    says: str = ""


class CorrectedAlert(msgspec.Struct, frozen=True, rename="camel"):
    """An alert with its correction: `verdict` is ADDED or RETRACTED. `value` and `count` are those of its window."""

    verdict: str
    alert_id: str
    rule_id: int
    rule_version: int
    key: dict[str, msgspec.Raw]
    transaction_id: int | str
    event_time: int
    value: str
    count: int
    shadow: bool = False


class DayResult(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a day. `provisional` is the reason not to publish yet, if any. A run with `report_only`
    publishes nothing.

    `hours` has the published, added and retracted alerts of each hour. `lateness` counts transactions by the time from
    event to arrival. `corrections` is cut at MOST_LISTED; the counts are complete. `new_corrections` counts the
    corrections that this run published. `basis` is the basis of this result. `settled` is the basis of the last run
    that published; None without such a run. `other_time_zones` has the releases of the time zones of its batches that
    differ from the release of this evaluation. `erased_days` are the days that this result depends on and from which an
    erasure removed payments.
    """

    day: str
    provisional: str | None
    evaluated_ms: int
    transactions: int
    out_of_order: int
    published: int
    confirmed: int
    added: int
    retracted: int
    new_corrections: int
    rules: list[RuleCounts]
    hours: list[tuple[int, int, int]]
    lateness: list[int]
    corrections: list[CorrectedAlert]
    warmed_days: list[str]
    seconds: dict[str, float]
    basis: Basis
    settled: Basis | None = None
    report_only: bool = False
    other_time_zones: list[str] = []
    erased_days: list[str] = []

    @classmethod
    def empty(cls, day: Day, basis: Basis, provisional: str | None, now_ms: int, *, publishes: bool) -> DayResult:
        """The result of a day without transactions."""
        return cls(
            day=str(day),
            provisional=provisional,
            evaluated_ms=now_ms,
            transactions=0,
            out_of_order=0,
            published=0,
            confirmed=0,
            added=0,
            retracted=0,
            new_corrections=0,
            rules=[],
            hours=[(0, 0, 0)] * HOURS,
            lateness=[0] * len(LATENESS_EDGES_MS),
            corrections=[],
            warmed_days=[],
            seconds={},
            basis=basis,
            settled=basis if publishes and provisional is None else None,
            report_only=not publishes,
        )

    @property
    def withheld(self) -> str | None:
        """The reason why nothing was published. None if the run published."""
        if self.provisional is not None:
            return f"provisional, {self.provisional}"
        if self.erased_days:
            return f"payments of an erased person are missing on {', '.join(self.erased_days)}"
        return "report only" if self.report_only else None

    @property
    def is_clean(self) -> bool:
        """Whether all live alerts were right."""
        return self.added == 0 and self.retracted == 0


decode_result = msgspec.json.Decoder(DayResult).decode
encode_result = msgspec.json.Encoder(decimal_format="number").encode
