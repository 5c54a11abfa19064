"""The demo's output: a live screen on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fraud_demo.start.shell import FILE
from fraud_demo.verdict import RunVerdict
from fraud_demo.watch import OutputSnapshot, ReceivedAlert
from fraud_rules.cli.display.alert_lines import alert_cells, alert_line
from fraud_rules.cli.display.status_lines import SEVERITY_STYLES
from fraud_rules.model.decision import DecisionOutcome
from fraud_rules.monitoring.liveness import Severity

_PLAIN_EVERY_S = 5.0
_FRAME_LINES = 13
_NARROW = 110
"""Below this width, the table of alerts has only the columns that identify an alert."""
_PLAIN_WIDTH = 180
_GAP: Final = "   "


@dataclass(frozen=True, slots=True)
class Sending:
    """The progress of the traffic."""

    records: int
    planted: int
    elapsed_s: float


class Screen(Protocol):
    """Shows a run."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    def show(self, seen: OutputSnapshot, sending: Sending) -> None:
        """Show the current state."""


def open_screen(address: str) -> Screen:
    """A live screen on a terminal, plain lines elsewhere. `address` is the address of Airflow."""
    return _Picture(address) if sys.stdout.isatty() else _Lines()


class _Picture:
    def __init__(self, address: str) -> None:
        self._address = address
        self._console = Console(highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._live.stop()

    def show(self, seen: OutputSnapshot, sending: Sending) -> None:
        rows = max(3, self._console.size.height - _FRAME_LINES)
        wide = self._console.size.width >= _NARROW
        self._live.update(picture(seen, sending, rows, self._address, wide=wide), refresh=True)


class _Lines:
    def __init__(self) -> None:
        self._console = Console(highlight=False, width=_PLAIN_WIDTH)
        self._shown = 0
        self._status_due_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._console.file.flush()

    def show(self, seen: OutputSnapshot, sending: Sending) -> None:
        total = seen.alerts + seen.shadow_alerts
        for each in seen.recent[len(seen.recent) - min(total - self._shown, len(seen.recent)) :]:
            self._console.print(_line(each), soft_wrap=True)
        self._shown = total
        if time.monotonic() >= self._status_due_s:
            self._console.print(status_line(seen, sending), soft_wrap=True)
            self._status_due_s = time.monotonic() + _PLAIN_EVERY_S
        self._console.file.flush()


def picture(seen: OutputSnapshot, sending: Sending, rows: int, address: str, *, wide: bool = True) -> RenderableType:
    """Render the whole screen, with the newest alerts in at most `rows` rows."""
    newest = seen.recent[-(rows - 1) :]
    alerts = _table(newest, wide=wide) if newest else Text("no alerts yet: a fraud is planted every few seconds", "dim")
    title = f"alerts: {seen.alerts}, and {seen.shadow_alerts} of shadow rules"
    outage = _outage(seen)
    return Group(
        Panel(alerts, title=title, title_align="left", border_style="red", height=rows + 2),
        outage or Text("payments are evaluated", "green"),
        Panel(
            _Figures([_part(*part) for part in _parts(seen, sending)]),
            title="detector: figures of the last batch (out of date)" if outage else "detector",
            title_align="left",
            border_style="dim" if outage else "blue",
        ),
        Text(address),
        Text(f"Ctrl-C stops the demo. In another terminal: source {FILE} && fraud status", "dim"),
    )


def _table(newest: Sequence[ReceivedAlert], *, wide: bool) -> Table:
    """Render alerts in columns. A narrow terminal has only severity, rule, planted fraud and latency."""
    table = Table(box=None, pad_edge=False, expand=True, header_style="dim")
    columns = [("time", 0), ("severity", 0), ("rule", 5), ("about", 4), ("value", 5), ("", 0), ("after", 0)]
    if not wide:
        columns = [*columns[1:3], ("planted", 0), columns[-1]]
    for name, ratio in columns:
        right = name == "after"
        table.add_column(
            name, no_wrap=True, overflow="ellipsis", ratio=ratio or None, justify="right" if right else "left"
        )
    for each in newest:
        cells = alert_cells(each.alert, each.received_ms, _mark(each))
        table.add_row(*(cells if wide else (*cells[1:3], Text(each.planted or "", "bold magenta"), cells[-1])))
    return table


def status_line(seen: OutputSnapshot, sending: Sending) -> Text:
    """Render rate, waiting payments, latency, rules in force, batch time, and the found frauds in one line.

    During an outage the line starts with the outage.
    """
    parts = [_part(*part) for part in _parts(seen, sending)]
    outage = _outage(seen)
    return Text(_GAP).join([outage, *parts] if outage else parts)


def _outage(seen: OutputSnapshot) -> Text | None:
    """The start of an outage and the number of waiting payments. None without an outage."""
    live = seen.liveness
    if live is None or live.severity is Severity.NONE:
        return None
    return Text(live.sentence(), SEVERITY_STYLES[live.severity])


@dataclass(frozen=True, slots=True)
class _Figures:
    """The figures one after the other. A line ends between two figures, not within one."""

    parts: Sequence[Text]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        line = Text()
        for part in self.parts:
            if line and line.cell_len + len(_GAP) + part.cell_len > options.max_width:
                yield line
                line = Text()
            line = Text(_GAP).join([line, part]) if line else part
        yield line


def _part(name: str, value: str) -> Text:
    return Text.assemble((f"{name} ", "dim"), (value, "bold"))


def _parts(seen: OutputSnapshot, sending: Sending) -> list[tuple[str, str]]:
    status = seen.status
    parts = [("sent", f"{sending.records:,}"), ("elapsed", f"{sending.elapsed_s:.0f} s")]
    if status is not None:
        parts += [
            ("rate", f"{status.rows_per_s:,.0f} tx/s"),
            ("batch", "?" if status.batch_ms is None else f"{status.batch_ms} ms"),
            ("rules", str(status.rules_in_force)),
        ]
    if seen.liveness is not None and seen.liveness.waiting is not None:
        parts.append(("waiting", f"{seen.liveness.waiting:,}"))
    half, most = (_quantile(seen.newest_latencies_ms, q) for q in (0.5, 0.99))
    parts.append(("latency p50/p99 (last minute)", f"{half}/{most} ms"))
    parts.append(("decisions", _outcomes(seen.decisions)))
    parts.append(("frauds found", f"{len(seen.found)} of {sending.planted} planted"))
    return parts


def _outcomes(decisions: Mapping[str, int]) -> str:
    """Format the number of decisions by outcome: `2 decline, 12 review, 40 note`."""
    return ", ".join(f"{decisions.get(outcome, 0):,} {outcome.lower()}" for outcome in DecisionOutcome)


def summary(verdict: RunVerdict, latencies_ms: Sequence[int]) -> Table:
    """Render the figures of a run and its faults."""
    table = Table(box=box.SIMPLE, show_header=False, title="Result of the run", title_justify="left")
    for name, value in (
        ("transactions", f"{verdict.transactions:,}"),
        ("alerts", f"{verdict.alerts:,}, and {verdict.shadow_alerts:,} of shadow rules"),
        ("decisions", _outcomes(verdict.decisions)),
        ("planted frauds found", f"{verdict.found} of {verdict.planted}"),
        ("fraud patterns found", ", ".join(verdict.patterns) or "-"),
        ("alerts about ordinary traffic", f"{verdict.others:,}"),
        ("latency p50 / p99", f"{_quantile(latencies_ms, 0.5)} / {_quantile(latencies_ms, 0.99)} ms"),
        ("quarantined", f"{verdict.quarantined:,}"),
        ("late", f"{verdict.late:,}"),
        ("duplicates ignored", f"{verdict.duplicates:,}"),
    ):
        table.add_row(name, value)
    if verdict.right:
        table.add_row("verdict", Text("right: every alert equals the replay of the recorded logs", "bold green"))
    for fault in verdict.faults:
        table.add_row("wrong", Text(fault, "bold red"))
    return table


def _line(each: ReceivedAlert) -> Text:
    return alert_line(each.alert, each.received_ms, _mark(each))


def _mark(each: ReceivedAlert) -> str:
    return f"planted: {each.planted}" if each.planted else ""


def _quantile(latencies_ms: Sequence[int], quantile: float) -> str:
    if not latencies_ms:
        return "-"
    ranked = sorted(latencies_ms)
    return f"{ranked[min(len(ranked) - 1, int(quantile * len(ranked)))]:,}"
