"""The nesting of a JSON text, found without decoding it.

Python's decoders have a limit of their own. It depends on Python's version and on the depth of the caller's stack, so
two processes can disagree about a text. Hence each reader of records checks this limit first, which is far below
Python's.
"""

from __future__ import annotations

import re
from typing import Final

MAX_DEPTH: Final = 32

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")


def is_deep(text: str) -> bool:
    """Whether objects and lists are nested deeper than MAX_DEPTH. The text need not be valid JSON."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    depth = 0
    for bracket in _BRACKET.finditer(_STRING.sub("", text)):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > MAX_DEPTH:
            return True
    return False
