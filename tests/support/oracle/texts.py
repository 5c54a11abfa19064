"""The normalization of texts, written from the specification alone."""

from __future__ import annotations

import unicodedata

from fraud_rules.model.schema import Field

# `isspace` is the property White_Space, and four control characters more.
BLANKS = "".join(each for each in map(chr, range(0x3001)) if each.isspace() and not "\x1c" <= each <= "\x1f")
WITHOUT_WIDTH = "\u200b\u200c\u200d\u2060\ufeff"


def text_of(raw: str, declared: Field) -> str:
    """The text as the field keeps it."""
    text = unicodedata.normalize("NFC", raw) if "nfc" in declared.normalize else raw
    return text.strip(BLANKS + WITHOUT_WIDTH) if "trim" in declared.normalize else text
