"""The entries of a map, in arrays: the keys, longs or texts, and the values, numbers or texts.

A table of longs is a hash table with one word for each value: 34 to 52 bytes an entry. A table of texts finds a text by
its hash, and compares the text itself. Texts are UTF-8 in one block of memory, because an object of Python needs 60
bytes beside its characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fraud_rules.model.tables.long_table import LOWEST, LongMap

Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

_NUMBER_BYTES: Final = 8
_FEW_TEXTS: Final = 65_536


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
        joined = "".join(texts)
        if joined and self._bytes and joined.isascii():
            return self._are_ascii(positions, texts, np.frombuffer(joined.encode(), dtype=np.uint8))
        pairs = zip(self._parts(positions), texts, strict=True)
        return np.fromiter((part == text.encode() for part, text in pairs), dtype=np.bool_, count=len(texts))

    def _are_ascii(self, positions: Ints, texts: Sequence[str], joined: NDArray[np.uint8]) -> Mask:
        """`are` for texts of one byte a character, which `joined` has too: compares the bytes of all texts at once."""
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        ends = np.cumsum(lengths)
        own_starts, starts = ends - lengths, self._ends[positions].astype(np.int64)
        same = self._ends[positions + 1] - starts == lengths
        starts = np.where(same, starts, 0)  # a text of another length is compared with any bytes
        places = np.repeat(starts - own_starts, lengths) + np.arange(len(joined))
        block = np.frombuffer(self._bytes, dtype=np.uint8)
        differing = np.zeros(len(joined) + 1, dtype=np.int64)
        np.cumsum(joined != block[np.minimum(places, len(block) - 1)], out=differing[1:])
        equal: Mask = same & (differing[ends] == differing[own_starts])
        return equal

    def lengths(self, positions: Ints) -> Ints:
        """The bytes of the texts at these positions."""
        return self._ends[positions + 1].astype(np.int64) - self._ends[positions]

    def followed_by(self, texts: Sequence[str]) -> TextBlock:
        """This block and these texts."""
        more = TextBlock.of(texts)
        ends = np.concatenate([self._ends, more._ends[1:] + self._ends[-1]])
        return TextBlock(self._bytes + more._bytes, ends)

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
    """Distinct texts with a word for each. Their hashes hold for one process, so an instance stays in its process.

    `by_hash` has the position of a text by its hash, and `same_hash` those of the texts whose hash another text has.
    Texts that were removed stay in the block, without a position, until a table is built anew.
    """

    __slots__ = ("_by_hash", "_same_hash", "_texts", "_words")

    def __init__(self, texts: TextBlock, words: Ints, by_hash: LongMap, same_hash: Mapping[str, int]) -> None:
        self._texts, self._words, self._by_hash, self._same_hash = texts, words, by_hash, same_hash

    @classmethod
    def of(cls, texts: Sequence[str], words: Ints) -> _TextKeys:
        """These distinct texts with their words."""
        return _TextKeys._of_hashes(TextBlock.of(texts), words, _hashes(texts), np.arange(len(texts)))

    @classmethod
    def _of_hashes(cls, texts: TextBlock, words: Ints, hashes: Ints, positions: Ints) -> _TextKeys:
        """The texts at these positions, with their hashes."""
        _, first = np.unique(hashes, return_index=True)
        rest = np.ones(len(hashes), dtype=np.bool_)
        rest[first] = False
        same = positions[rest]
        same_hash = dict(zip(texts.at(same), same.tolist(), strict=True))
        return cls(texts, words, LongMap.of(hashes[first], positions[first]), same_hash)

    def find(self, texts: Sequence[str]) -> tuple[Ints, Mask]:
        """The words of the texts, and which of the texts are there."""
        positions, found = self._positions_of(texts)
        return (self._words[positions], found) if len(self._texts) else (positions, found)

    def changed(self, gone: Sequence[str], texts: Sequence[str], words: Ints) -> _TextKeys:
        """The texts without `gone`, and with these texts and their words. `gone` has all of the texts."""
        if len(self) < len(self._texts) // 2:
            kept, old = self.items()
            left = set(gone)
            rest = np.fromiter((text not in left for text in kept), dtype=np.bool_, count=len(kept))
            stay = [text for text in kept if text not in left]
            return _TextKeys.of([*stay, *texts], np.concatenate([old[rest], words]))
        hashes, positions = self._by_hash.items()
        if self._same_hash:
            hashes = np.concatenate([hashes, _hashes(self._same_hash)])
            positions = np.concatenate([positions, np.fromiter(self._same_hash.values(), dtype=np.int64)])
        removed, found = self._positions_of(gone)
        is_removed = np.zeros(len(self._texts), dtype=np.bool_)
        is_removed[removed[found]] = True
        stays = ~is_removed[positions]
        added = np.arange(len(self._texts), len(self._texts) + len(texts))
        return _TextKeys._of_hashes(
            self._texts.followed_by(texts),
            np.concatenate([self._words, words]),
            np.concatenate([hashes[stays], _hashes(texts)]),
            np.concatenate([positions[stays], added]),
        )

    def items(self) -> tuple[list[str], Ints]:
        """All texts and their words, in any order."""
        positions = self._live()
        return self._texts.at(positions), self._words[positions]

    def text_bytes(self) -> int:
        """The bytes of all texts."""
        return int(self._texts.lengths(self._live()).sum())

    @property
    def words(self) -> Ints:
        """The words of all texts, in any order."""
        return self._words[self._live()]

    @property
    def nbytes(self) -> int:
        """The size in memory."""
        return self._texts.nbytes + self._by_hash.nbytes + self._words.nbytes

    def __len__(self) -> int:
        return len(self._by_hash) + len(self._same_hash)

    def __reduce__(self) -> Any:
        raise TypeError("the hashes of texts hold for one process only")

    def _live(self) -> Ints:
        same = np.fromiter(self._same_hash.values(), dtype=np.int64, count=len(self._same_hash))
        return np.concatenate([self._by_hash.items()[1], same])

    def _positions_of(self, texts: Sequence[str]) -> tuple[Ints, Mask]:
        positions, found = self._by_hash.find(_hashes(texts))
        if not len(self._texts):
            return positions, found
        found &= self._texts.are(positions, texts)
        if self._same_hash:
            for place in np.flatnonzero(~found).tolist():
                position = self._same_hash.get(texts[place])
                if position is not None:
                    positions[place], found[place] = position, True
        return positions, found


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
        return cls(LongMap.of(keys, values) if isinstance(keys, np.ndarray) else _TextKeys.of(keys, values), texts)

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
        if self.texts is not None and len(self.texts) > 2 * len(self._keys) + _FEW_TEXTS:
            return self._renewed(set(gone.tolist() if isinstance(gone, np.ndarray) else gone), keys, values)
        texts = self.texts
        if texts is not None:
            position: dict[str, int] = {}
            words = [position.setdefault(str(value), len(position)) for value in values]
            texts, values = texts.followed_by(list(position)), np.array(words, dtype=np.int64) + len(texts)
        words_of_keys = np.asarray(values, dtype=np.int64)
        if isinstance(self._keys, _TextKeys):
            return EntryTable(self._keys.changed(gone, keys, words_of_keys), texts)
        return EntryTable(self._keys.changed(gone[~np.isin(gone, keys)], keys, words_of_keys), texts)

    def entries(self) -> dict[int | str, int | str]:
        """All entries, in any order."""
        keys, words = self._keys.items()
        listed = keys.tolist() if isinstance(keys, np.ndarray) else keys
        return dict(zip(listed, words.tolist() if self.texts is None else self._texts_of(words), strict=True))

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def entry_bytes(self) -> int:
        """The bytes of all entries: 8 for a number, the bytes in UTF-8 for a text."""
        if self.texts is None and isinstance(self._keys, LongMap):
            return 2 * _NUMBER_BYTES * len(self)
        words = self._keys.words if isinstance(self._keys, _TextKeys) else self._keys.items()[1]
        of_values = _NUMBER_BYTES * len(words) if self.texts is None else int(self.texts.lengths(words).sum())
        of_keys = self._keys.text_bytes() if isinstance(self._keys, _TextKeys) else _NUMBER_BYTES * len(words)
        return of_values + of_keys

    @property
    def nbytes(self) -> int:
        """The size in memory."""
        return self._keys.nbytes + (0 if self.texts is None else self.texts.nbytes)

    def _renewed(self, gone: set[Any], keys: Any, values: Any) -> EntryTable:
        """The table as `changed` returns it, without texts that no entry has."""
        entries: dict[Any, Any] = {key: value for key, value in self.entries().items() if key not in gone}
        entries.update(zip(keys.tolist() if isinstance(keys, np.ndarray) else keys, values, strict=True))
        listed = np.array(list(entries), dtype=np.int64) if isinstance(keys, np.ndarray) else list(entries)
        return EntryTable.of(listed, list(entries.values()))

    def _texts_of(self, words: Ints) -> list[str]:
        """The texts of words. Equal words have one object."""
        distinct, codes = np.unique(words, return_inverse=True)
        texts = [] if self.texts is None else self.texts.at(distinct)
        return [texts[code] for code in codes.tolist()]


def _hashes(texts: Iterable[str]) -> Ints:
    hashes = np.fromiter(map(hash, texts), dtype=np.int64)
    return np.maximum(hashes, LOWEST)
