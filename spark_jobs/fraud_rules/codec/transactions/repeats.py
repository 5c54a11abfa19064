"""Proves for JSON texts that no member that a schema reads occurs twice in its object.

There are three proofs, the cheapest first.

1. A record has as many colons as the reader found declared members, so it has these members and no other.
2. The name of each declared member occurs among the strings of the text at most as often as the reader found members of
   this name, or once, and no escape can spell a name differently.
3. Each object on a declared path is split into its members, declared or not. Splitting keeps the last member of each
   name. If the object's colons are as many as the remaining members plus the colons inside their values, splitting has
   dropped no member.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from fraud_rules.codec.nesting import MAX_DEPTH, is_deep
from fraud_rules.codec.transactions.json_layout import JsonLayout, Place
from fraud_rules.codec.transactions.tree import decode_members

Bools: TypeAlias = NDArray[np.bool_]
Ints: TypeAlias = NDArray[np.int64]


_PART_BYTES: Final = 1 << 20
"""The length of the texts that are searched at once. Their arrays then fit into the caches of a core."""
_QUOTE: Final = ord('"')


def repeats_no_member(texts: Sequence[bytes], found: Mapping[Place, Bools], layout: JsonLayout) -> Bools:
    """The mask of the records that certainly have no declared member twice.

    `found` has the masks of the records with a value, by the places of the layout's fields.
    """
    proved: Bools = np.zeros(len(texts), np.bool_)
    if layout.is_flat:
        colons = np.fromiter([text.count(b":") for text in texts], np.int64, len(texts))
        proved = colons == sum(mask.astype(np.int64) for mask in found.values())
    others = [i for i in np.flatnonzero(~proved).tolist() if _is_shallow(texts[i])]
    if not others:
        return proved
    most = {name: _most(places, found, len(texts)) for name, places in layout.names.items()}
    for part in _parts(others, texts):
        is_proved = _names_occur_at_most([texts[i] for i in part], {name: each[part] for name, each in most.items()})
        proved[part] = [once or _splits(texts[i], layout.objects) for i, once in zip(part, is_proved, strict=True)]
    return proved


def _most(places: Sequence[Place], found: Mapping[Place, Bools], n: int) -> Ints:
    """How often the name of these places may occur in each record: as often as a place has a value or contains one."""
    counts = np.zeros(n, np.int64)
    if len(places) > 1:
        for place in places:
            inside = [mask for path, mask in found.items() if path[: len(place)] == place]
            counts += np.logical_or.reduce(inside) if inside else False
    return np.maximum(counts, 1)


def _is_shallow(text: bytes) -> bool:
    """Whether the record certainly is not nested too deeply for the careful reader."""
    return text.count(b"{") + text.count(b"[") <= MAX_DEPTH or not is_deep(text.decode())


def _parts(positions: Sequence[int], texts: Sequence[bytes]) -> Iterator[list[int]]:
    """Split positions into parts whose texts have about `_PART_BYTES`."""
    part: list[int] = []
    size = 0
    for i in positions:
        part.append(i)
        size += len(texts[i])
        if size >= _PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _names_occur_at_most(texts: Sequence[bytes], most: Mapping[bytes, Ints]) -> list[bool]:
    """Whether each name occurs at most so often among the strings of a text. False for a text with an escape."""
    plain = [b"" if b"\\" in text else text for text in texts]
    ends = np.cumsum([len(text) for text in plain])
    content = np.frombuffer(b"".join(plain), np.uint8)
    quotes = np.flatnonzero(content == _QUOTE)
    opening, closing = quotes[::2], quotes[1::2]
    proved = np.array([bool(text) for text in plain])
    for name, counts in most.items():
        at = opening[closing - opening == len(name) + 1]
        for distance, letter in enumerate(name, 1):
            at = at[content[at + distance] == letter]
        proved &= np.bincount(np.searchsorted(ends, at, side="right"), minlength=len(texts)) <= counts
    result: list[bool] = proved.tolist()
    return result


def _splits(text: bytes, objects: Sequence[Place]) -> bool:
    """Whether no object on a declared path has a member twice, and no name in it contains a colon."""
    parts: dict[Place, Mapping[str, Raw]] = {}
    unexplained = text.count(b":")
    for path in objects:
        part = bytes(parts.get(path[:-1], {}).get(path[-1], b"")) if path else text
        if part.startswith(b"{") or not path:
            parts[path] = decode_members(part)
            unexplained -= len(parts[path])
    for path, members in parts.items():
        for name, raw in members.items():
            if (*path, name) not in parts:
                unexplained -= bytes(raw).count(b":")
    return unexplained == 0
