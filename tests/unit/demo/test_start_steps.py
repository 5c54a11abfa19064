"""The steps of the demo's start, and the days that it archives."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from fraud_demo.start.past_days import fraud_labels, past_day
from fraud_demo.start.steps import StartSteps
from fraud_rules.batch.whatif.labels import read_label_lines
from fraud_rules.codec.transactions.codec import decode_transactions
from fraud_rules.codec.transactions.raw import RawTransactions
from fraud_rules.configuration.project import Project
from fraud_rules.model.day import DAY_MS, Day
from fraud_rules.model.limits import RecordLimits
from fraud_rules.model.schema import TIME_FIELD, TransactionSchema


def steps(path: Path) -> tuple[StartSteps, Console]:
    console = Console(record=True, highlight=False, width=200, force_terminal=False)
    ticks = iter(range(0, 1_000, 7))
    return StartSteps(console, path, lambda: float(next(ticks))), console


def test_a_step_shows_what_it_waits_for_and_how_long_that_took_last_time(tmp_path: Path) -> None:
    path = tmp_path / "var" / "times.json"
    first, console = steps(path)
    assert first.run("kernel", "compiling the kernel", "kernel ready", lambda: True)
    assert "compiling the kernel\n" in (shown := console.export_text())
    assert "kernel ready (7 s)" in shown
    second, console = steps(path)
    assert second.run("kernel", "compiling the kernel", "kernel ready", lambda: True)
    assert "compiling the kernel (last time 7 s)" in console.export_text()


def test_an_interrupted_step_keeps_the_earlier_time(tmp_path: Path) -> None:
    path = tmp_path / "times.json"
    path.write_text('{"live": 40.0, "other": "unreadable"}')
    interrupted, console = steps(path)
    assert not interrupted.run("live", "waiting", "ready", lambda: False)
    assert "ready" not in console.export_text()
    again, console = steps(path)
    again.run("live", "waiting", "ready", lambda: True)
    assert "waiting (last time 40 s)" in console.export_text()


def test_a_past_day_has_only_readable_payments_of_that_day(project: Project) -> None:
    schema = TransactionSchema.load(project.config / "schema.yaml")
    day = Day.today().plus(-2)
    values = list(past_day(day))
    n = len(values)
    decoded = decode_transactions(
        RawTransactions.of(values, [0] * n, range(n), [day.start_ms + 2 * DAY_MS] * n), schema, RecordLimits()
    )
    assert not decoded.rejects
    assert len(decoded.batch) > 20_000
    assert set((decoded.batch.columns[TIME_FIELD].values // DAY_MS).tolist()) == {day.number}


def test_each_planted_fraud_of_a_past_day_has_one_labelled_payment(project: Project, tmp_path: Path) -> None:
    schema = TransactionSchema.load(project.config / "schema.yaml")
    days = [Day.today().plus(-2), Day.today().plus(-1)]
    file = tmp_path / "labels.csv"
    file.write_text(fraud_labels(days))
    read = read_label_lines(file, schema)
    paid = {json.loads(value)["transactionId"] for day in days for value in past_day(day)}
    assert not read.skipped
    assert len(read.lines) == 94, "47 frauds a day"
    assert {int(line.transaction_id) for line in read.lines if line.transaction_id is not None} <= paid
