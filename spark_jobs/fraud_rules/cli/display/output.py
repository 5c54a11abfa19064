"""Prints results: JSON with exact decimals, and rich text with a fixed width in pipes and files."""

from __future__ import annotations

import sys

import msgspec
from rich.console import Console

_FILE_WIDTH = 160

_encode = msgspec.json.Encoder(decimal_format="number").encode


def console() -> Console:
    """Standard output for rich; a pipe or a file gets a fixed width."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _FILE_WIDTH)


def error_console() -> Console:
    """Standard error for rich; a pipe or a file gets a fixed width."""
    return Console(highlight=False, stderr=True, width=None if sys.stderr.isatty() else _FILE_WIDTH)


def printable(text: object) -> str:
    """A value as a text whose control characters cannot change the terminal. Line breaks stay."""
    return "".join(each if each.isprintable() or each == "\n" else "\N{REPLACEMENT CHARACTER}" for each in str(text))


def print_json(document: object) -> None:
    """Print a document as one line of JSON, with exact decimals."""
    print(_encode(document).decode())
