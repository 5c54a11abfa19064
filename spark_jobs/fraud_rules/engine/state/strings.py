"""Interns the strings of a grouping state as small integers, in arrays that other processes can read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.state.arrays import Arrays
from fraud_rules.engine.window.layout import H_STRINGS, H_TEXT
from fraud_rules.model.transaction import Column

Ints = NDArray[np.int64]


class StringTable:
    """Interned strings. Equal strings have equal codes until `clear`."""

    def __init__(self, header: Ints, arrays: Arrays) -> None:
        self._header = header
        self._arrays = arrays
        self._texts: list[str] = []
        self._codes: dict[str, int] = {}

    def intern(self, texts: Sequence[str]) -> Ints:
        """The codes of the texts, int64. New texts get new codes."""
        self._catch_up()
        fresh = [text for text in texts if text not in self._codes]
        if fresh:
            self._append(list(dict.fromkeys(fresh)))
        codes = self._codes
        return np.array([codes[text] for text in texts], dtype=np.int64)

    def column(self, codes: Ints, valid: NDArray[np.bool_] | None) -> Column:
        """Convert codes to a column of strings with its own dictionary."""
        self._catch_up()
        used, values = np.unique(codes, return_inverse=True)
        texts = self._texts
        dictionary = tuple([texts[code] if code < len(texts) else "" for code in used.tolist()])
        return Column(values.astype(np.int64), valid, dictionary)

    def clear(self) -> None:
        """Remove all strings."""
        self.forget()
        self._header[H_STRINGS] = self._header[H_TEXT] = 0

    def forget(self) -> None:
        """Drop this process's copy after another process has cleared the strings."""
        self._texts, self._codes = [], {}

    def _catch_up(self) -> None:
        """Read the strings that another process has added."""
        count, known = int(self._header[H_STRINGS]), len(self._texts)
        if count == known:
            return
        ends = self._arrays.open("string_ends", np.int64, count, 0)
        text = self._arrays.open("string_text", np.uint8, int(self._header[H_TEXT]), 0)
        start = int(ends[known - 1]) if known else 0
        for end in ends[known:count].tolist():
            self._remember(text[start:end].tobytes().decode())
            start = end

    def _remember(self, text: str) -> None:
        self._codes[text] = len(self._texts)
        self._texts.append(text)

    def _append(self, added: Sequence[str]) -> None:
        count, used = int(self._header[H_STRINGS]), int(self._header[H_TEXT])
        encoded = [text.encode() for text in added]
        total = used + sum(map(len, encoded))
        ends = self._arrays.open("string_ends", np.int64, _roomy(count + len(added)), 0)
        store = self._arrays.open("string_text", np.uint8, _roomy(total), 0)
        ends[count : count + len(added)] = used + np.cumsum([len(each) for each in encoded])
        store[used:total] = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        for text in added:
            self._remember(text)
        self._header[H_STRINGS], self._header[H_TEXT] = count + len(added), total


def _roomy(count: int) -> int:
    """The next power of two, so that growth is amortised."""
    return max(64, 1 << (count - 1).bit_length())
