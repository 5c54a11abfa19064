"""Prints the report on the newest payments of a topic."""

from __future__ import annotations

from collections.abc import Iterator

from fraud_rules.cli.display.output import print_json, printable
from fraud_rules.codec.scalar import format_timestamp
from fraud_rules.discovery.check import FieldReport, SampleReport, TimeReport
from fraud_rules.runtime.clock import MS_PER_S


def print_report(report: SampleReport, *, as_json: bool) -> None:
    """Print a report for people, or as JSON."""
    if as_json:
        print_json(report)
        return
    for line in _lines(report):
        print(printable(line))


def _lines(report: SampleReport) -> Iterator[str]:
    ignored = f", {report.ignored} tombstones or other changes" if report.ignored else ""
    yield f"{report.payments} payments in the {report.records} newest records{ignored}"
    for reason, (count, example) in sorted(report.rejected.items(), key=lambda each: -each[1][0]):
        yield f"  {count} unreadable: {reason}: {example}"
    width = max((len(each.name) for each in report.fields), default=0)
    for each in report.fields:
        yield f"  {each.name:<{width}}  {each.type:<9}  {_content(each)}"
    if report.time is not None:
        yield from _times(report.time)
    if report.repeated or report.conflicting:
        yield f"ids of earlier payments: {report.repeated} with equal content, {report.conflicting} with another one"
    for part in report.partitions:
        yield f"partition {part.partition}: {part.payments} payments, the newest of {format_timestamp(part.newest_ms)}"
    behind = report.held_back_by
    if behind is not None:
        yield f"partition {behind.partition} is behind the others"


def _content(each: FieldReport) -> str:
    nulls = f"{each.null_share:.1%} null, " if each.null_share else ""
    usual = ", ".join(f"{text!r} {count}" for text, count in each.usual.items())
    bounds = f"{each.least} to {each.largest}" if each.least else usual
    return f"{nulls}{each.distinct} different: {bounds}"


def _times(time: TimeReport) -> Iterator[str]:
    median_s, largest_s = time.median_lag_ms / MS_PER_S, time.largest_lag_ms / MS_PER_S
    yield f"event times: half arrive {median_s:.1f} s after their time or later, the last one {largest_s:.1f} s"
    if time.future_share:
        yield f"  {time.future_share:.1%} are later than their arrival"
    if time.shift_h:
        direction = "ahead of" if time.shift_h > 0 else "behind"
        yield f"  most are {abs(time.shift_h)} h {direction} their arrival: declare the `zone` of the field"
