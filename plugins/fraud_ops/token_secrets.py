"""The secrets of tokens for programs, which a program sends in the header `Authorization`."""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Final

_PREFIX: Final = "fraud_"
_RANDOM_BYTES: Final = 32
_SECRET: Final = re.compile(rf"{_PREFIX}[A-Za-z0-9_-]{{43}}")
_SCHEME: Final = "bearer "


def new_secret() -> str:
    """Create the secret of a token, from 256 random bits. Its prefix lets scanners of source code find it."""
    return _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)


def is_secret(text: str) -> bool:
    """Whether a text has the form of a secret."""
    return _SECRET.fullmatch(text) is not None


def digest_of(secret: str) -> str:
    """The SHA-256 of a secret, in hex. It needs no salt, because the secret is random."""
    return hashlib.sha256(secret.encode()).hexdigest()


def secret_in(authorization: str | None) -> str | None:
    """The secret in a header `Authorization`; None without a token for a program. Its form may be wrong."""
    if authorization is None or authorization[: len(_SCHEME)].lower() != _SCHEME:
        return None
    text = authorization[len(_SCHEME) :].strip()
    return text if text.startswith(_PREFIX) else None
