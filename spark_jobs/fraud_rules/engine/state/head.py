"""The head of a key group's state log: its version, its grouping states, and the chunks that hold their rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from fraud_rules.engine.state.chunks import ChunkInfo
from fraud_rules.engine.state.series_sums import SeriesHead
from fraud_rules.engine.statelog import EMPTY_LOG, StateVersion
from fraud_rules.engine.window import layout as at
from fraud_rules.model.ruleset import Grouping

ANCESTORS = 64
"""The number of earlier versions whose digests a head holds."""


class GroupingStateHead(msgspec.Struct, array_like=True):
    """The head's entry of a grouping state: its grouping and epoch, and the numbers that its rows do not determine.

    `bound_ms` is the retention bound, `first_ms` is the event time of the first transaction accepted, and `next_number`
    is the arrival number of the next one. `series` has the series of long windows.
    """

    id: int
    fields: Grouping
    incarnation: int
    epoch: int
    epoch_ms: int
    watermark_ms: int = at.NONE
    bound_ms: int = at.NONE
    first_ms: int = at.NONE
    next_number: int = 0
    series: list[SeriesHead] = []

    @property
    def oldest_ms(self) -> int:
        """The event time before which no row counts any more."""
        return min([self.bound_ms, *(max(each.bound_ms, each.began_ms) for each in self.series)])


class Head(msgspec.Struct, array_like=True):
    """The head of a key group's log: the grouping states, and the chunks that hold their rows, oldest first.

    `suppressing` holds the incarnations of the rules that have suppressed alerts. It is None in a head that an older
    release wrote. `ancestors` holds the digests of the versions before this one, oldest first, without gaps.
    """

    version: int = 0
    digest: int = 0
    newest_append_ms: int = at.NONE
    next_state_id: int = 0
    states: list[GroupingStateHead] = []
    chunks: list[ChunkInfo] = []
    suppressing: list[int] | None = None
    ancestors: list[int] = []

    @property
    def state_version(self) -> StateVersion:
        """The version and the digest, which identify the content of the log."""
        return StateVersion(self.version, self.digest)

    def begin_version(self) -> None:
        """Begin the next version. `seal` ends it."""
        self.ancestors = [*self.ancestors, self.digest][-ANCESTORS:]
        self.version += 1

    def seal(self) -> bytes:
        """Set the digest of the new version, which covers the digest of the version before. Returns the encoded
        head."""
        encoded = encode_head(self)
        digest_at = 1 + len(_encode(self.version))
        rest_at = digest_at + len(_encode(self.digest))
        self.digest = _digest(encoded)
        return b"".join((encoded[:digest_at], _encode(self.digest), encoded[rest_at:]))

    def descends_from(self, known: StateVersion) -> bool:
        """Whether this head is known to continue the log of an earlier version that is not empty."""
        at_index = len(self.ancestors) - (self.version - known.version)
        return known != EMPTY_LOG and 0 <= at_index < len(self.ancestors) and self.ancestors[at_index] == known.digest

    def chunks_after(self, version: int) -> Sequence[ChunkInfo]:
        """The chunks that can hold rows or marks of later versions.

        A chunk of level 0 has the content of one version. A merged chunk ends before the next chunk begins, except that
        both can have a part of the same version.
        """
        ends = [following.number for _, following in pairwise(self.chunks)]
        return [
            info
            for info, end in zip(self.chunks, [*ends, self.version], strict=True)
            if info.number > version or (info.level > 0 and end > version)
        ]


_encode = encode_head = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Head).decode


def decode_head(encoded: bytes) -> Head:
    """Decode a head. Raises msgspec.DecodeError."""
    return _decode(encoded)


def _digest(head: bytes) -> int:
    """The 63-bit digest of the log, from the encoded head with the digest of the version before."""
    return int.from_bytes(hashlib.blake2b(head, digest_size=8).digest(), "little") >> 1
