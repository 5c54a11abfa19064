"""Reads JSON piece by piece, so that a caller knows where each value stands and can keep it to the byte.

Whole numbers of up to 19 characters are decoded, other numbers are left as their text; `NaN` and `Infinity` pass.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_BLANKS = re.compile(r"[ \t\n\r]*")
_decoder = json.JSONDecoder(parse_int=lambda text: int(text) if len(text) < 20 else text, parse_float=str)


class JsonReader:
    """A place in a text. Methods raise ValueError for a text that is not JSON, RecursionError for too deep a value."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def peek(self) -> str:
        """The next character that is not blank; empty at the end."""
        blanks = _BLANKS.match(self.text, self.at)
        self.at = blanks.end() if blanks else self.at
        return self.text[self.at : self.at + 1]

    def expect(self, sign: str) -> None:
        if self.peek() != sign:
            raise ValueError(f"expected {sign or 'the end'} at character {self.at + 1}")
        self.at += len(sign)

    def value(self) -> object:
        self.peek()
        value, self.at = _decoder.raw_decode(self.text, self.at)
        return value

    def items(self, opening: str, closing: str) -> Iterator[None]:
        """Stops before each item between two brackets; the caller reads it before going on."""
        self.expect(opening)
        if self.peek() != closing:
            yield
            while self.peek() == ",":
                self.at += 1
                yield
        self.expect(closing)

    def members(self) -> Iterator[str]:
        """The names of an object's members; the caller reads the value of each before going on."""
        for _ in self.items("{", "}"):
            if self.peek() != '"':
                raise ValueError(f"expected a name at character {self.at + 1}")
            name = str(self.value())
            self.expect(":")
            yield name
