"""The entries of a map, in arrays: the keys, longs or texts, and the values, numbers or texts.

A table of longs is a hash table with one word for each value: 34 to 52 bytes an entry. A table of texts finds a text by
its hash, and compares the text itself. Texts are UTF-8 in one block of memory, because an object of Python needs 60
bytes beside its characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fraud_rules.model.long_table import LOWEST, LongMap

__all__ = ["EntryTable", "TextBlock"]

Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

_NUMBER_BYTES: Final = 8


class TextBlock:
    """Texts by position, in UTF-8."""

    __slots__ = ("_bytes", "_ends")

    def __init__(self, block: bytes, ends: NDArray[np.uint32]) -> None:
        self._bytes, self._ends = block, ends

    @classmethod
    def of(cls, texts: Iterable[str]) -> TextBlock:
        """A block of these texts, in their order."""
        encoded = [text.encode() for text in texts]
        ends = np.fromiter(accumulate(map(len, encoded), initial=0), dtype=np.uint32, count=len(encoded) + 1)
        return cls(b"".join(encoded), ends)

    def at(self, positions: Ints) -> list[str]:
        """The texts at these positions."""
        return [each.decode() for each in self._parts(positions)]

    def are(self, positions: Ints, texts: Sequence[str]) -> Mask:
        """Which of the texts are those at these positions."""
        pairs = zip(self._parts(positions), texts, strict=True)
        return np.fromiter((part == text.encode() for part, text in pairs), dtype=np.bool_, count=len(texts))

    def lengths(self, positions: Ints) -> Ints:
        """The bytes of the texts at these positions."""
        return self._ends[positions + 1].astype(np.int64) - self._ends[positions]

    def __iter__(self) -> Iterator[str]:
        return (self._bytes[start:end].decode() for start, end in pairwise(self._ends.tolist()))

    def __len__(self) -> int:
        return len(self._ends) - 1

    @property
    def nbytes(self) -> int:
        """The size in memory."""
        return len(self._bytes) + self._ends.nbytes

    def _parts(self, positions: Ints) -> Iterator[bytes]:
        block, starts, ends = self._bytes, self._ends[positions], self._ends[positions + 1]
        return (block[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True))


class _TextKeys:
    """Distinct texts with a word for each. Their hashes hold for one process, so an instance stays in its process."""

    __slots__ = ("_by_hash", "_same_hash", "_texts", "_words")

    def __init__(self, texts: Sequence[str] | TextBlock, words: Ints) -> None:
        self._texts = texts if isinstance(texts, TextBlock) else TextBlock.of(texts)
        hashes = _hashes(texts)
        _, first = np.unique(hashes, return_index=True)
        rest = np.setdiff1d(np.arange(len(hashes)), first)
        self._by_hash = LongMap.of(hashes[first], first)
        self._same_hash = dict(zip(self._texts.at(rest), rest.tolist(), strict=True))
        self._words = words

    def find(self, texts: Sequence[str]) -> tuple[Ints, Mask]:
        """The words of the texts, and which of the texts are there."""
        positions, found = self._by_hash.find(_hashes(texts))
        if not len(self._texts):
            return positions, found
        found &= self._texts.are(positions, texts)
        if self._same_hash:
            for place in np.flatnonzero(~found).tolist():
                position = self._same_hash.get(texts[place])
                if position is not None:
                    positions[place], found[place] = position, True
        return self._words[positions], found

    def items(self) -> tuple[TextBlock, Ints]:
        return self._texts, self._words

    @property
    def nbytes(self) -> int:
        return self._texts.nbytes + self._by_hash.nbytes + self._words.nbytes

    def __reduce__(self) -> Any:
        raise TypeError("the hashes of texts hold for one process only")


class EntryTable:
    """Immutable entries. `texts` has the distinct values of a map of texts; its words are positions there."""

    __slots__ = ("_keys", "texts")

    def __init__(self, keys: LongMap | _TextKeys, texts: TextBlock | None) -> None:
        self._keys, self.texts = keys, texts

    @classmethod
    def of(cls, keys: Ints | Sequence[str], values: Ints | Sequence[str]) -> EntryTable:
        """A table of these keys, which are distinct, and their values."""
        texts = None
        if not isinstance(values, np.ndarray):
            position: dict[str, int] = {}
            words = [position.setdefault(value, len(position)) for value in values]
            values, texts = np.array(words, dtype=np.int64), TextBlock.of(position)
        return cls(LongMap.of(keys, values) if isinstance(keys, np.ndarray) else _TextKeys(keys, values), texts)

    def find(self, keys: Any) -> tuple[Ints, Mask]:
        """The words of n keys, and which of the keys are there. A missing key has any word."""
        return self._keys.find(keys)

    def value_of(self, key: int | str) -> int | str | None:
        """The value of one key; None for a missing key."""
        if isinstance(key, str) is isinstance(self._keys, LongMap):
            return None
        words, found = self.find([key] if isinstance(key, str) else np.array([key], dtype=np.int64))
        if not found[0]:
            return None
        return int(words[0]) if self.texts is None else self.texts.at(words)[0]

    def changed(self, gone: Any, keys: Any, values: Ints | Sequence[str]) -> EntryTable:
        """The table without the keys `gone`, and with these keys and values. `gone` has all of the keys."""
        old_keys, words = self._items()
        missing = dict.fromkeys(gone.tolist() if isinstance(gone, np.ndarray) else gone)
        if isinstance(old_keys, np.ndarray):
            kept = ~np.isin(old_keys, gone)
            all_keys: Any = np.concatenate([old_keys[kept], keys])
        else:
            kept = np.fromiter((text not in missing for text in old_keys), dtype=np.bool_, count=len(old_keys))
            all_keys = [text for text in old_keys if text not in missing] + list(keys)
        if self.texts is None:
            return EntryTable.of(all_keys, np.concatenate([words[kept], np.asarray(values, dtype=np.int64)]))
        return EntryTable.of(all_keys, self._texts_of(words[kept]) + list(map(str, values)))

    def entries(self) -> Mapping[int | str, int | str]:
        """All entries, in any order."""
        keys, words = self._items()
        listed = keys.tolist() if isinstance(keys, np.ndarray) else keys
        return dict(zip(listed, words.tolist() if self.texts is None else self._texts_of(words), strict=True))

    @property
    def entry_bytes(self) -> int:
        """The bytes of all entries: 8 for a number, the bytes in UTF-8 for a text."""
        keys, words = self._items()
        of_values = _NUMBER_BYTES * len(words) if self.texts is None else int(self.texts.lengths(words).sum())
        if isinstance(keys, np.ndarray):
            return of_values + _NUMBER_BYTES * len(words)
        return of_values + int(keys.lengths(np.arange(len(keys))).sum())

    @property
    def nbytes(self) -> int:
        """The size in memory."""
        return self._keys.nbytes + (0 if self.texts is None else self.texts.nbytes)

    def _items(self) -> tuple[Ints | TextBlock, Ints]:
        return self._keys.items()

    def _texts_of(self, words: Ints) -> list[str]:
        """The texts of words. Equal texts are one object."""
        texts = [] if self.texts is None else list(self.texts)
        return [texts[word] for word in words.tolist()]


def _hashes(texts: Iterable[str]) -> Ints:
    hashes = np.fromiter(map(hash, texts), dtype=np.int64)
    return np.maximum(hashes, LOWEST)
