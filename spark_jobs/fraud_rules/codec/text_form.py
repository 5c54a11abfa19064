"""The normalized form of texts, as a field of the schema requests it with `normalize`."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final

from fraud_rules.model.schema import TextStep
from fraud_rules.model.transaction import Column

TRIMMED: Final = (
    "\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"  # the characters with the Unicode property White_Space
    "\u200b\u200c\u200d\u2060\ufeff"  # characters without width
)
"""The characters that `trim` removes at both ends of a text."""


def normalized(text: str, steps: Sequence[TextStep]) -> str:
    """The text after the steps. Normalizing twice gives the same text."""
    if TextStep.NFC in steps:
        text = unicodedata.normalize("NFC", text)
    return text.strip(TRIMMED) if TextStep.TRIM in steps else text


def normalized_column(column: Column, steps: Sequence[TextStep]) -> Column:
    """The column of strings with each text normalized. Texts that become equal get one code."""
    return column.map_texts(lambda text: normalized(text, steps)) if steps else column
