"""Formats a detector's status as lines of a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from fraud_rules.deploy.attempt import DeploymentReports
from fraud_rules.deploy.intent import IntentLog
from fraud_rules.logs.detector_status import DetectorStatus, TrafficCounts
from fraud_rules.logs.rule_status import RuleOperation
from fraud_rules.monitoring.data_faults import DataFault
from fraud_rules.monitoring.liveness import AMBER_MS, Liveness, Severity
from fraud_rules.monitoring.shares import HighShare
from fraud_rules.runtime.clock import MS_PER_S, utc_text

_ATTEMPTS = 10
_COSTLY = 3
"""The number of rules whose measured cost is shown."""

SEVERITY_STYLES = {Severity.NONE: "", Severity.AMBER: "bold yellow", Severity.RED: "bold red"}


def status_lines(
    detector: DetectorStatus | None,
    live: Liveness,
    work: str | None,
    rejected: Sequence[RuleOperation],
) -> Iterator[Text]:
    """Yield the lines, the most important first. During an outage the figures of the last batch are dimmed."""
    yield Text.assemble("payments  ", _payments(live))
    if live.severity is not Severity.NONE:
        if live.starts:
            yield Text(f"starts    {live.starts} requested since then")
        if work is not None:
            yield Text(f"work      {work}")
    if detector is None:
        yield Text("detector  has never reported (without an agent, start it with fraud detector run)")
    else:
        age = duration(detector.last_batch_age_ms)
        yield Text(f"detector  {'alive' if detector.alive else 'NOT ALIVE'}, batch {detector.batch_id} ended {age} ago")
        if live.severity is not Severity.NONE:
            yield Text("figures   of the last batch (out of date):", "dim")
        style = "" if live.severity is Severity.NONE else "dim"
        yield from (Text(line, style) for line in _figures(detector))
    for report in rejected:
        yield _rejected(report)


def verdict_lines(shares: Iterable[HighShare], faults: Iterable[DataFault]) -> Iterator[Text]:
    """Yield a line for each verdict about the payments and rules, with its runbook."""
    for share in shares:
        yield Text(f"{share.verdict}: {share.share}; {share.remedy} ({_runbook(share.verdict)})", "bold red")
    for fault in faults:
        since = f"since {utc_text(fault.since)} ({_runbook(fault.verdict)})"
        yield Text(f"{fault.verdict}: {fault.part}: {fault.reason}, {since}", "bold yellow")


def _runbook(verdict: str) -> str:
    return f"docs/runbooks/{verdict.lower().replace('_', '-')}.md"


def agent_lines(intents: IntentLog, seen: DeploymentReports, now_ms: int) -> Iterator[str]:
    """Yield the lines about the newest intent, the agent and its last attempts."""
    newest = intents.newest
    if newest is None:
        yield "wanted    no intent yet (fraud detector deploy)"
    else:
        since = f"{newest.intent.kind} since {utc_text(newest.append_ms)}"
        yield f"wanted    {since}, epoch {newest.epoch}, by {newest.intent.requested_by}: {newest.intent.reason}"
    if seen.agent is None:
        yield "agent     has never reported (fraud detector agent)"
    else:
        at_ms, agent = seen.agent
        yield f"agent     {agent.agent} on {agent.host}, last report {(now_ms - at_ms) / MS_PER_S:.0f} s ago"
    for attempt in seen.in_order[-_ATTEMPTS:]:
        status = attempt.status
        said = "" if status.message is None else f": {status.error_name or ''} {status.message}"
        counted = f"{status.phase.value:<11}{status.batches_committed:>7} batches"
        yield f"epoch {status.epoch:<4}{counted}  {status.attempt_id}{said}"


def _payments(live: Liveness) -> Text:
    if live.severity is not Severity.NONE:
        return Text(live.sentence(), SEVERITY_STYLES[live.severity])
    return Text(f"evaluated, {live.waiting or 0:,} waiting")


def _figures(detector: DetectorStatus) -> Iterator[str]:
    watermark = "none yet"
    if detector.watermark is not None:
        watermark = utc_text(detector.watermark)
    state = f"{detector.retained_events:,} events retained, {detector.retained_bytes / 2**20:,.1f} MiB"
    yield f"rate      {detector.rows_per_s:,.0f} transactions/s"
    yield f"latency   {_latency(detector)}"
    if detector.mode is not None:
        size, by = ("large", "many tasks") if detector.mode.large else ("small", "one evaluator")
        yield f"batches   {size}, evaluated by {by}, since {utc_text(detector.mode.since)}"
    if detector.recent is not None and detector.recent.rows + detector.recent.quarantined:
        yield f"traffic   {_shares(detector.recent)} (last 5 min)"
    ignored = detector.since_start
    if ignored is not None and (ignored.duplicates or ignored.null_keys):
        yield f"ignored   {_ignored(ignored)} (since the start)"
    yield f"rules     {detector.rules_in_force} in force{_cpu(detector)}"
    if detector.rule_cpu:
        most = ", ".join(f"rule {each.rule_id} {_microseconds(each.cpu_ns)}" for each in detector.rule_cpu[:_COSTLY])
        yield f"cpu       measured for each transaction: {most}"
    yield f"state     {state}, watermark {watermark}"
    views = detector.views_since_start
    if views is not None:
        yield f"views     {views.rebuilds:,} rebuilt, {views.catch_ups:,} caught up since the start"


def _cpu(detector: DetectorStatus) -> str:
    if detector.cpu_ns is None:
        return ""
    return f", about {_microseconds(detector.cpu_ns)} of CPU time for each transaction"


def _microseconds(duration_ns: float) -> str:
    return f"{duration_ns / 1_000:,.2f} us"


def _latency(detector: DetectorStatus) -> str:
    """The time from append to readable alert. A backlog lengthens it, even if the batches are fast."""
    if detector.latency_p50_ms is None or detector.latency_p99_ms is None:
        return "unknown: no batch of the last 10 s has reported it"
    batch = "" if detector.batch_ms is None else f", batch {duration(detector.batch_ms)}"
    text = f"p50 {duration(detector.latency_p50_ms)}, p99 {duration(detector.latency_p99_ms)}{batch}"
    return text if detector.latency_p50_ms <= AMBER_MS else f"{text} (backlog: payments waited before they were read)"


def _shares(traffic: TrafficCounts) -> str:
    late = _percent(traffic.late_share)
    return f"{late} of {traffic.rows:,} payments late, {_percent(traffic.quarantined_share)} of the records unreadable"


def _ignored(traffic: TrafficCounts) -> str:
    duplicates = f"{traffic.duplicates:,} duplicates ({traffic.conflicting_duplicates:,} with other content)"
    return f"{duplicates}, {traffic.null_keys:,} payments with a null grouping field"


def _percent(share: float | None) -> str:
    return f"{share or 0:.1%}"


def _rejected(report: RuleOperation) -> Text:
    rule = "unreadable rule" if report.rule_id is None else f"rule {report.rule_id}"
    why = "; ".join(f"{reason.field}: {reason.message}" for reason in report.reasons)
    return Text(f"rejected  {rule} at offset {report.rule_version}: {why}", "yellow")


def duration(span_ms: int) -> str:
    """Format a time span: 212 ms, 12.3 s, 1 min 42 s, 2 h 5 min."""
    if span_ms < 1_000:
        return f"{span_ms} ms"
    if span_ms < 60_000:
        return f"{span_ms / 1_000:.1f} s"
    seconds = span_ms // 1_000
    if seconds < 3_600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3_600} h {seconds % 3_600 // 60} min"
