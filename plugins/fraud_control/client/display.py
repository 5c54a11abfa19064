"""The input and output of the client's commands: files and tables."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from fraud_rules.cli.display.output import console, print_json, printable
from fraud_rules.errors import InputInvalid
from fraud_rules.runtime.clock import utc
from fraud_rules.runtime.file_faults import fault_of_file

__all__ = ["format_time", "print_change", "print_table", "read_file", "write_file"]


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], empty: str) -> None:
    """Print a table, or the sentence `empty` for no rows."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if each is None else printable(each)) for each in row))
    if table.row_count:
        console().print(table)
    else:
        typer.echo(empty)


def print_change(answer: Mapping[str, Any], line: str, *, waits: bool, as_json: bool) -> None:
    """Print the answer to a change as JSON, or its line."""
    if as_json:
        print_json({**answer, "waitsForApproval": waits})
    else:
        typer.echo(f"{line}; the change waits for approval" if waits else line)


def format_time(time_ms: int | None) -> str:
    """A time of the API in UTC, or an empty text."""
    if time_ms is None:
        return ""
    return utc(time_ms).isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")


def read_file(path: Path) -> str:
    """The text of a file; - is standard input. Raises InputInvalid."""
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputInvalid(f"{path} cannot be read as text: {fault_of_file(error)}") from error


def write_file(content: bytes, output: Path | None) -> None:
    """Write a downloaded file, to standard output without a path. Raises InputInvalid."""
    if output is None:
        typer.get_binary_stream("stdout").write(content)
        return
    try:
        output.write_bytes(content)
    except OSError as error:
        raise InputInvalid(f"{output} cannot be written: {fault_of_file(error)}") from error
    typer.echo(f"wrote {len(content):,} bytes to {output}", err=True)
