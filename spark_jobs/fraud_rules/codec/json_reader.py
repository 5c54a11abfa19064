"""Reads JSON piece by piece, so that a caller knows the position of each value and can copy its exact bytes.

Whole numbers of up to 19 characters are decoded. Other numbers stay text. `NaN` and `Infinity` are accepted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_BLANKS = re.compile(r"[ \t\n\r]*")
_decoder = json.JSONDecoder(parse_int=lambda text: int(text) if len(text) < 20 else text, parse_float=str)


class JsonReader:
    """A position in a text. Its methods raise ValueError for invalid JSON and RecursionError for too deep a value."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def peek(self) -> str:
        """Skip blanks and return the next character without consuming it; empty at the end."""
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
        """Iterate over the items between two brackets. The caller reads each item before it resumes the iterator."""
        self.expect(opening)
        if self.peek() != closing:
            yield
            while self.peek() == ",":
                self.at += 1
                yield
        self.expect(closing)

    def members(self) -> Iterator[str]:
        """Iterate over the names of an object's members. The caller reads each value before it resumes the iterator."""
        for _ in self.items("{", "}"):
            if self.peek() != '"':
                raise ValueError(f"expected a name at character {self.at + 1}")
            name = str(self.value())
            self.expect(":")
            yield name
