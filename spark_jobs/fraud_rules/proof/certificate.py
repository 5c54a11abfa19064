"""The certificate of an erasure: what was erased, what expires by itself and when, and what stays. Pure.

The seal has the SHA-256 of the certificate's canonical JSON (sorted members, no spaces), and the signature of a proof.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

import msgspec

from fraud_rules.proof.document import Seal
from fraud_rules.runtime.clock import utc_text


class Expiring(msgspec.Struct, frozen=True, rename="camel"):
    """A place that an erasure does not change. `until` is the time at which its data has expired; None for ever."""

    place: str
    until: str | None


class Certificate(msgspec.Struct, frozen=True, rename="camel"):
    """The certificate. It has no id: `person` is the pseudonym in the audit log. `erased` counts rows by place;
    `lists` and `maps` keep the id. `states` are the days whose saved states were deleted, and `reports` the
    folders of re-evaluations and what-ifs that keep the id.
    """

    person: str
    erased_at: str
    fields: list[str]
    erased: dict[str, int]
    lists: list[str]
    maps: list[str]
    expiring: list[Expiring]
    states: list[str]
    reports: list[str]


def expiring_topics(topics: Iterable[tuple[str, int | None]], now_ms: int) -> list[Expiring]:
    """When the records in topics with these retentions in ms have expired; None for a topic that keeps them."""
    return [Expiring(f"topic {name}", None if kept is None else utc_text(now_ms + kept)) for name, kept in topics]


def digest_of(certificate: object) -> str:
    """The SHA-256 of the canonical JSON of a certificate, or of its document."""
    return hashlib.sha256(_canonical(certificate)).hexdigest()


def _canonical(certificate: object) -> bytes:
    return msgspec.json.encode(certificate, order="sorted")


def sealed(certificate: Certificate, sign: Callable[[str], tuple[str, str]] | None = None) -> bytes:
    """Encode a certificate with its seal, as JSON. `sign` returns the public key and the signature of a digest."""
    content, digest = _canonical(certificate), digest_of(certificate)
    seal = Seal(digest, *(("", "") if sign is None else sign(digest)))
    return msgspec.json.format(msgspec.json.encode({"certificate": msgspec.Raw(content), "seal": seal}), indent=2)
