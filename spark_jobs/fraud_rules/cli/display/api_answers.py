"""The input and output of the commands that use the API: files and tables."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from fraud_rules.cli.display.output import console, print_json, printable
from fraud_rules.codec.rules.apply import rule_files
from fraud_rules.errors import ControlPlaneError, InputInvalid
from fraud_rules.runtime.clock import utc
from fraud_rules.runtime.file_faults import fault_of_file

if TYPE_CHECKING:
    from fraud_rules.api_client import Client


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
        print(empty)


def print_change(answer: Mapping[str, Any], line: str, *, waits: bool, as_json: bool) -> None:
    """Print the answer to a change as JSON, or its line."""
    if as_json:
        print_json({**answer, "waitsForApproval": waits})
    else:
        print(f"{line}; the change waits for approval" if waits else line)


def print_import(
    client: Client,
    path: str,
    files: Iterable[Path],
    comment: str,
    table: tuple[Sequence[str], str],
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Import files, each as a whole, and print the effects. `table` has the columns, and the member with the subject.

    Raises InputInvalid for a file that cannot be read, and ControlPlaneError at the first file with a fault.
    """
    columns, subject = table
    for file in rule_files(files):
        body = {"content": read_file(file), "comment": comment}
        result, _ = client.change("POST", path, body, dryRun=str(dry_run).lower())
        if as_json:
            print_json(result)
        else:
            rows = ((each["where"], each[subject], each["effect"], _reasons(each)) for each in result["items"])
            print_table(columns, rows, f"{file} is empty")
        if not result["applied"] and not dry_run:
            raise ControlPlaneError(f"nothing of {file} was saved: see the reasons")


def format_time(time_ms: int | None) -> str:
    """A time of the API in UTC, or an empty text."""
    if time_ms is None:
        return ""
    return utc(time_ms).isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")


def _reasons(item: Mapping[str, Any]) -> str:
    return "; ".join(f"{each['field']}: {each['message']}" for each in item["reasons"])


def read_file(path: Path) -> str:
    """The text of a file; - is standard input. Raises InputInvalid."""
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputInvalid(f"{path} cannot be read as text: {fault_of_file(error)}") from error


def write_file(content: bytes, output: Path | None) -> None:
    """Write a downloaded file, to standard output without a path. Raises InputInvalid."""
    if output is None:
        sys.stdout.buffer.write(content)
        return
    try:
        output.write_bytes(content)
    except OSError as error:
        raise InputInvalid(f"{output} cannot be written: {fault_of_file(error)}") from error
    sys.stderr.write(f"wrote {len(content):,} bytes to {output}\n")
