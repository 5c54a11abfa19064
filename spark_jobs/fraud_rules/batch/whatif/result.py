"""The result of a what-if, as numbers and as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

import msgspec

from fraud_rules.batch.reevaluation.html import document, figure, folded, paragraph, section, table, tiles
from fraud_rules.batch.reevaluation.page import shown_time
from fraud_rules.batch.reevaluation.plots import bars, curve
from fraud_rules.batch.whatif.coverage import Coverage
from fraud_rules.codec.rules.numbers import decimal_of
from fraud_rules.model.day import DAY_MS, Day
from fraud_rules.runtime.safe_text import scalar_text

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
    key: dict[str, bool | int | str | Decimal]


class LabelFigures(msgspec.Struct, frozen=True, rename="camel"):
    """The labelled transactions and the draft's fires on them.

    `fraud` and `not_fraud` count labels of transactions of the days, `outside` those of other transactions, and
    `skipped` lines by reason. `caught` and `false_alerts` are fires on labelled transactions; `suppressed` are frauds
    on which the cool-down suppressed the fire. `missed` lists the first frauds without a fire. `by_limit` has caught
    frauds and false alerts for each of the result's limits. `sources` counts the labels of the days by source.
    """

    fraud: int
    not_fraud: int
    outside: int
    skipped: dict[str, int]
    caught: int
    false_alerts: int
    suppressed: int
    missed: list[int | str]
    by_limit: list[tuple[int, int]]
    sources: dict[str, int] = {}


class Suggestion(msgspec.Struct, frozen=True, rename="camel"):
    """The limit that comes closest to a wish. `limit` and the counts with it are None if no limit fulfils the wish.

    `goal` is ALERTS_PER_DAY (the most alerts a day that do not exceed `target`), PRECISION (the most caught frauds
    with this share of frauds among the labelled alerts) or PRECISION_OF_ALL (among all alerts, if no label says that a
    transaction is not fraud).
    """

    goal: str = msgspec.field(name="wanted")
    target: float
    limit: Decimal | None
    fires: int | None
    alerts_per_day: float | None
    caught: int | None
    false_alerts: int | None


class WhatIfResult(msgspec.Struct, frozen=True, rename="camel"):
    """The fires of the draft. `limits` and `windows_ms` pair each variant with its number of fires.

    `coverage` is the part of the days with data, and `alerts_per_day` the rate of the fires in it.
    `hours` counts the fires of each hour from the first day's midnight on. `busiest` are the keys with the most fires.
    `says` is the rule in words. If the draft's limit is an expression, `limits` are factors of its value.
    """

    rule: dict[str, object]
    days: list[str]
    coverage: Coverage
    transactions: int
    fires: int
    alerts_per_day: float
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
    labels: LabelFigures | None = None
    suggestions: list[Suggestion] = []
    says: str = ""

    @property
    def limit_is_expression(self) -> bool:
        """Whether the draft's limit is an expression."""
        return decimal_of(self.rule.get("limit")) is None


encode_whatif = msgspec.json.Encoder(decimal_format="number").encode


def coverage_text(result: WhatIfResult) -> str:
    """The days with data, and a warning if they are too few. Empty if all days have data."""
    coverage = result.coverage
    if coverage.days_with_data == coverage.days and not coverage.thin:
        return ""
    warning = " The rates are rough: they rest on little data." if coverage.thin else ""
    return f"{coverage}; rates are per day with data.{warning}"


def label_text(result: WhatIfResult) -> list[str]:
    """The figures about labels in sentences, each with its base. Empty without labels."""
    labels = result.labels
    if labels is None:
        return []
    known = labels.caught + labels.false_alerts
    days = "1 day" if len(result.days) == 1 else f"{len(result.days)} days"
    lines = [
        (
            f"catches {labels.caught:,} of {labels.fraud:,} confirmed frauds, {labels.false_alerts:,} of "
            f"{labels.not_fraud:,} false alerts (labelled transactions of the {days})"
        ),
        (
            f"{_precision_text(labels, result.fires)}, "
            f"recall {ratio(labels.caught, labels.fraud)} of the confirmed frauds; "
            f"{result.fires - known:,} of {result.fires:,} alerts have no label"
        ),
    ]
    if labels.sources:
        counts = ", ".join(f"{count:,} from {_SOURCES[source]}" for source, count in labels.sources.items())
        lines.append(f"labels of the {days}: {counts}")
    if labels.suppressed:
        lines.append(f"the cool-down suppresses the alerts of {labels.suppressed:,} further confirmed frauds")
    if labels.outside:
        lines.append(f"{labels.outside:,} labels belong to transactions outside the {days}")
    if labels.skipped:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(labels.skipped.items()))
        lines.append(f"{sum(labels.skipped.values()):,} lines of the labels skipped: {reasons}")
    return lines


def suggestion_text(found: Suggestion, result: WhatIfResult) -> str:
    """A suggestion in words."""
    wish = _WISHES[found.goal].format(target=found.target)
    if found.limit is None:
        return f"{wish}: no limit"
    limit = "factor of the limit" if result.limit_is_expression else "limit"
    said = f"{wish}: {limit} {found.limit:,f}, {found.alerts_per_day or 0:,.1f} alerts a day"
    labels = result.labels
    if labels is None:
        return said
    return (
        f"{said}, catches {found.caught:,} of {labels.fraud:,} confirmed frauds, {found.false_alerts:,} of "
        f"{labels.not_fraud:,} false alerts"
    )


def _precision_text(labels: LabelFigures, fires: int) -> str:
    """The precision in words. Labels that name frauds only give its lower bound, because alerts without a label may be
    frauds too."""
    if labels.not_fraud:
        return f"precision {ratio(labels.caught, labels.caught + labels.false_alerts)} of the labelled alerts"
    return f"precision at least {ratio(labels.caught, fires)} of all alerts (no label says not fraud)"


def ratio(part: int, whole: int) -> str:
    """A share as both of its numbers and in percent."""
    return f"{part:,}/{whole:,} ({100 * part / whole:.0f} %)" if whole else "0/0"


_SOURCES = {"mark": "marks", "file": "files", "topic": "the topic"}
_WISHES = {
    "ALERTS_PER_DAY": "at most {target:g} alerts a day",
    "PRECISION": "precision of at least {target:g} among labelled alerts",
    "PRECISION_OF_ALL": "precision of at least {target:g} if all alerts without a label are false",
}


def whatif_page(result: WhatIfResult) -> bytes:
    """The report as one self-contained HTML file."""
    rule = result.rule
    title = f"What if: rule {rule.get('ruleId')} {rule.get('name') or ''}".strip()
    span = (
        f"{result.days[0]} to {result.days[-1]} (UTC), evaluated {shown_time(result.evaluated_ms)}. Nothing published."
    )
    return document(title, span, _parts(result))


def _parts(result: WhatIfResult) -> Iterator[str]:
    yield tiles(
        [
            ("transactions", result.transactions),
            ("would have fired", result.fires),
            ("a day", round(result.alerts_per_day, 1)),
            ("suppressed by cool-down", result.suppressed),
            ("keys", result.keys),
            ("run time (s)", result.seconds),
        ]
    )
    if coverage_text(result):
        yield paragraph(coverage_text(result))
    lines = [*label_text(result), *(suggestion_text(each, result) for each in result.suggestions)]
    if lines:
        yield section("Labels and suggested limits", table(["figure"], [[line] for line in lines]))
    members = [[name, _text(value)] for name, value in result.rule.items() if value not in (None, "", [], ())]
    yield section("The rule", paragraph(result.says), table(["member", "value"], members))
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
    own = 1.0 if result.limit_is_expression else float(str(result.rule.get("limit")))
    return curve(f"fires by limit (dashed: the rule's limit{_factors(result)})", points, own, ("limit", "fires"))


def _factors(result: WhatIfResult) -> str:
    return "; the others are factors of it" if result.limit_is_expression else ""


def _limits(result: WhatIfResult) -> str:
    labels = result.labels
    if labels is None:
        return table(["limit", "fires"], [[f"{limit:,f}", count] for limit, count in result.limits])
    rows = []
    for (limit, count), (caught, wrong) in zip(result.limits, labels.by_limit, strict=True):
        base = caught + wrong if labels.not_fraud else count
        rows.append([f"{limit:,f}", count, caught, wrong, ratio(caught, base), ratio(caught, labels.fraud)])
    precision = "precision (labelled)" if labels.not_fraud else "precision (at least)"
    return table(["limit", "fires", "caught frauds", "false alerts", precision, "recall"], rows)


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
    return ", ".join(f"{name}={scalar_text(value)}" for name, value in key.items()) or "all transactions"


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
