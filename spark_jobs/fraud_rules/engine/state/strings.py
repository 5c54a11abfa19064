"""Interns the strings of a grouping state as small integers. They are removed when no row and no key uses them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.state.view import View
from fraud_rules.engine.window import strings
from fraud_rules.engine.window.bundles import Ints
from fraud_rules.engine.window.layout import H_STRINGS, H_STRINGS_DUE
from fraud_rules.model.transaction import Column, renumbered

_LEAST_DUE = 256


class StringTable:
    """The interned strings of a view. Equal strings have equal codes until `clear` and `drop_unused`."""

    def __init__(self, view: View) -> None:
        self._view = view

    def intern(self, texts: Sequence[str]) -> Ints:
        """The codes of the texts, int64. New texts get new codes."""
        data, ends = _encoded(texts)
        codes = np.empty(len(texts), dtype=np.int64)
        self._view.make_room_for_strings(len(texts), len(data))
        strings.intern(self._view.header, self._view.strings, data, ends, codes)
        return codes

    def column(self, codes: Ints, valid: NDArray[np.bool_] | None) -> Column:
        """Convert codes to a column of strings with its own dictionary."""
        used, values = renumbered(codes)
        return Column(values, valid, self._texts(np.array(used, np.int64)))

    def clear(self) -> None:
        """Remove all strings."""
        self._view.clear_strings()

    def drop_unused(self, columns: Ints) -> None:
        """Remove the strings that no row and no key uses, if at least twice as many strings are held as were in use the
        last time. Other strings then get other codes. `columns` are the fields with strings, as columns of `events`."""
        view, header = self._view, self._view.header
        if not len(columns) or header[H_STRINGS] < max(_LEAST_DUE, header[H_STRINGS_DUE]):
            return
        codes = np.zeros(int(header[H_STRINGS]), dtype=np.int64)
        strings.find_used(view.state, view.measure_arrays, columns, codes)
        header[H_STRINGS_DUE] = 2 * int(codes.sum())
        strings.drop_unused(view.state, view.measure_arrays, view.strings, columns, codes)

    def _texts(self, codes: Ints) -> tuple[str, ...]:
        """The texts of distinct codes. A null has the code 0, also without any string: its text is empty."""
        ends, text = self._view.strings.ends, self._view.strings.text.data
        last = ends[codes]
        first = np.where(codes > 0, ends[codes - 1], 0)
        return tuple([str(text[start:end], "utf-8") for start, end in zip(first.tolist(), last.tolist(), strict=True)])


def _encoded(texts: Sequence[str]) -> tuple[NDArray[np.uint8], Ints]:
    """The texts in UTF-8, one after the other, and where each one ends."""
    joined = "".join(texts)
    data = joined.encode()
    is_ascii = len(data) == len(joined)
    sizes = [len(text) for text in texts] if is_ascii else [len(text.encode()) for text in texts]
    return np.frombuffer(data, dtype=np.uint8), np.cumsum(sizes, dtype=np.int64)
