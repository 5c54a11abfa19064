"""The result of a what-if, as numbers and as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

import msgspec

from fraud_rules.batch.reevaluation.html import document, figure, folded, section, table, tiles
from fraud_rules.batch.reevaluation.page import shown_time
from fraud_rules.batch.reevaluation.plots import bars, curve
from fraud_rules.model.day import DAY_MS, Day

__all__ = ["RuleOverlap", "WhatIfResult", "encode_whatif", "whatif_page"]

MOST_KEYS = 20
MOST_LISTED = 200


class RuleOverlap(msgspec.Struct, frozen=True, rename="camel"):
    """A rule in force: its alerts on these days after corrections, and the number that the draft would also raise."""

    rule_id: int
    name: str
    alerts: int
    both: int


class Fire(msgspec.Struct, frozen=True, rename="camel"):
    """One fire of the draft."""

    transaction_id: int | str
    event_time: int
    key: dict[str, int | str | Decimal]


class WhatIfResult(msgspec.Struct, frozen=True, rename="camel"):
    """The fires of the draft. `limits` and `windows_ms` pair each variant with its number of fires.

    `hours` counts the fires of each hour from the first day's midnight on. `busiest` are the keys with the most fires.
    """

    rule: dict[str, object]
    days: list[str]
    transactions: int
    fires: int
    suppressed: int
    keys: int
    limits: list[tuple[Decimal, int]]
    windows_ms: list[tuple[int, int]]
    hours: list[int]
    busiest: list[tuple[dict[str, int | str | Decimal], int]]
    overlap: list[RuleOverlap]
    first: list[Fire]
    evaluated_ms: int
    seconds: float


encode_whatif = msgspec.json.Encoder(decimal_format="number").encode


def whatif_page(result: WhatIfResult) -> bytes:
    """The report as one self-contained HTML file."""
    rule = result.rule
    title = f"What if: rule {rule.get('ruleId')} {rule.get('name') or ''}".strip()
    span = (
        f"{result.days[0]} to {result.days[-1]} (UTC), evaluated {shown_time(result.evaluated_ms)}. Nothing published."
    )
    return document(title, span, _parts(result))


def _parts(result: WhatIfResult) -> Iterator[str]:
    a_day = [("a day", round(result.fires / len(result.days), 1))] if len(result.days) > 1 else []
    yield tiles(
        [
            ("transactions", result.transactions),
            ("would have fired", result.fires),
            *a_day,
            ("suppressed by cool-down", result.suppressed),
            ("keys", result.keys),
            ("run time (s)", result.seconds),
        ]
    )
    members = [[name, _text(value)] for name, value in result.rule.items() if value not in (None, "", [], ())]
    yield section("The rule", table(["member", "value"], members))
    if result.limits:
        yield section("Other limits", figure(_curve(result)), folded("In numbers", _limits(result)))
    if result.windows_ms:
        rows = [[_duration(window_ms), count] for window_ms, count in result.windows_ms]
        yield section("Other windows", table(["window", "fires"], rows))
    yield section("When", figure(_when(result)))
    yield section("Keys", table(["key", "fires"], [[_key(key), count] for key, count in result.busiest]))
    overlap = _overlap(result.overlap, result.fires) if result.overlap else "<p>No alerts of these rules.</p>"
    yield section("Overlap with rules in force", overlap)
    fires = [[shown_time(each.event_time), str(each.transaction_id), _key(each.key)] for each in result.first]
    title = f"The first {len(fires)} of {result.fires:,}" if len(fires) < result.fires else "All fires"
    yield section(title, table(["time (UTC)", "transaction", "key"], fires))


def _curve(result: WhatIfResult) -> str:
    points = [(float(limit), float(count)) for limit, count in result.limits]
    own = float(str(result.rule.get("limit")))
    return curve("fires by limit (dashed: the rule's limit)", points, own, ("limit", "fires"))


def _limits(result: WhatIfResult) -> str:
    return table(["limit", "fires"], [[f"{limit:f}", count] for limit, count in result.limits])


def _when(result: WhatIfResult) -> str:
    if len(result.days) <= 2:
        hours = [str(hour % 24) for hour in range(len(result.hours))]
        return bars("fires by hour (UTC)", hours, [("fires", result.hours)], "fires")
    daily = [sum(result.hours[start : start + 24]) for start in range(0, len(result.hours), 24)]
    return bars("fires by day", [day[5:] for day in result.days], [("fires", daily)], "fires")


def _overlap(overlap: Sequence[RuleOverlap], fires: int) -> str:
    def share(part: int, whole: int) -> str:
        return f"{100 * part / whole:.1f} %" if whole else "-"

    rows = [[o.rule_id, o.name, o.alerts, o.both, share(o.both, o.alerts), share(o.both, fires)] for o in overlap]
    return table(["rule", "name", "alerts", "on the same transaction", "of its alerts", "of the draft's fires"], rows)


def _key(key: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in key.items()) or "all transactions"


def _duration(window_ms: int) -> str:
    seconds = window_ms // 1_000
    return f"{seconds // 60:,} min" if seconds % 60 == 0 else f"{seconds:,} s"


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def hours_of(by_hour: Mapping[int, int], days: Sequence[Day]) -> list[int]:
    """Convert counts by hour of the epoch to a list from the first day's midnight to the last day's end."""
    first = days[0].start_ms // 3_600_000
    hours = [0] * (len(days) * DAY_MS // 3_600_000)
    for hour, count in by_hour.items():
        if 0 <= hour - first < len(hours):
            hours[hour - first] = count
    return hours
