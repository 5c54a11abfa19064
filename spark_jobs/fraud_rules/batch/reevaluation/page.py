"""Builds the report page of a re-evaluated day: missing and spurious alerts, and their causes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fraud_rules.batch.reevaluation.html import document, figure, note, section, table, tiles
from fraud_rules.batch.reevaluation.plots import bars
from fraud_rules.batch.reevaluation.report import (
    HOURS,
    LATENESS_EDGES_MS,
    MOST_LISTED,
    CorrectedAlert,
    DayResult,
    RuleCounts,
)
from fraud_rules.runtime.clock import utc_text


def day_page(result: DayResult) -> bytes:
    """The report of a day as one self-contained HTML file."""
    when = shown_time(result.evaluated_ms)
    return document(f"Re-evaluation of {result.day}", f"Evaluated {when} UTC.", _parts(result))


def _parts(result: DayResult) -> Iterator[str]:
    if result.withheld is not None:
        yield note(f"Nothing was published: {result.withheld}.")
    if result.other_time_zones:
        yield note(
            f"Batches of these days used another release of the time zones: {', '.join(result.other_time_zones)}."
        )
    yield tiles(
        [
            ("transactions", result.transactions),
            ("out of order", result.out_of_order),
            ("live alerts", result.published),
            ("confirmed", result.confirmed),
            ("added", result.added),
            ("retracted", result.retracted),
            ("new corrections", result.new_corrections),
        ]
    )
    if result.rules:
        corrected = [] if result.is_clean else [figure(_by_rule(result))]
        yield section("Rules", *corrected, rules_table(result.rules))
    yield section("Hours", figure(_by_hour(result)))
    late = [("transactions", result.lateness)]
    yield section(
        "Lateness",
        figure(bars("transactions by arrival after event time", lateness_labels(), late, "transactions")),
    )
    title = "Added and retracted alerts"
    if len(result.corrections) >= MOST_LISTED:
        title += f" (the first {MOST_LISTED:,})"
    yield section(title, _corrections(result.corrections)) if result.corrections else section(title, "<p>None.</p>")
    yield section("Run time", table(["phase", "seconds"], [[k, float(v)] for k, v in result.seconds.items()]))
    if result.warmed_days:
        yield f"<p>Earlier days replayed for windows over midnight: {', '.join(result.warmed_days)}.</p>"


def lateness_labels() -> list[str]:
    """The labels of the lateness classes."""
    names = ["<1 s", "1 s", "10 s", "1 min", "5 min", "15 min", "1 h", "6 h", "1 d"]
    return [name if name.startswith("<") else f"{name}+" for name in names[: len(LATENESS_EDGES_MS)]]


def shown_time(time_ms: int) -> str:
    """Format a time in UTC, to the millisecond."""
    return utc_text(time_ms, "milliseconds").removesuffix(" UTC")


def _by_rule(result: DayResult) -> str:
    rules = result.rules[:24]
    labels = [f"{rule.rule_id}{' shadow' if rule.shadow else ''}" for rule in rules]
    series = [("added", [rule.added for rule in rules]), ("retracted", [rule.retracted for rule in rules])]
    return bars("alerts added and retracted, by rule", labels, series, "alerts")


def _by_hour(result: DayResult) -> str:
    labels = [str(hour) for hour in range(HOURS)]
    series = [(name, [hour[k] for hour in result.hours]) for k, name in enumerate(("published", "added", "retracted"))]
    return bars("alerts by hour of event time (UTC)", labels, series, "alerts")


def rules_table(rules: Iterable[RuleCounts]) -> str:
    """The counts of each rule, with the rule in words."""
    heads = ["rule", "name", "published", "confirmed", "added", "retracted", "rule in words"]
    return table(
        heads,
        [[str(r.rule_id), _named(r), r.published, r.confirmed, r.added, r.retracted, r.says] for r in rules],
    )


def _named(rule: RuleCounts) -> str:
    return f"{rule.name} (shadow)".strip() if rule.shadow else rule.name


def _corrections(corrections: list[CorrectedAlert]) -> str:
    heads = ["", "time (UTC)", "rule", "version", "key", "transaction", "value", "in window", "alert"]
    return table(
        heads,
        [
            [
                each.verdict + (" (shadow)" if each.shadow else ""),
                shown_time(each.event_time),
                str(each.rule_id),
                str(each.rule_version),
                ", ".join(f"{name}={bytes(value).decode()}" for name, value in each.key.items()) or "all transactions",
                str(each.transaction_id),
                each.value,
                each.count,
                each.alert_id,
            ]
            for each in corrections
        ],
    )
