"""Signs intents and checks their signatures, with keys that supervisors and the agent share.

A signature is an HMAC-SHA256 of the record's exact bytes, in a header of the record. So a change in the order or number
of an intent's members between versions does not matter. A signed intent cannot be used twice: it names the epoch on
which it is based, and no later intent of the log has the same one.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from pathlib import Path
from typing import Final, NoReturn

from fraud_rules.deploy.intent import IntentRecord
from fraud_rules.errors import ConfigError, IntentForged

_KEY: Final = re.compile(r"[A-Za-z0-9+/=_-]{32,256}", re.ASCII)
_MOST_KEYS: Final = 2
_NEW_KEY_BYTES: Final = 32
_PURPOSE: Final = b"fraud-rules intent\0"
"""Precedes the signed bytes, so that a signature for another purpose with the same key is no signature of an intent."""


class IntentKeys:
    """One or two secret keys. The first one signs, and both are accepted, so that keys can rotate without a gap.

    `repr` does not show them, and no encoder accepts the type.
    """

    __slots__ = ("_keys",)
    _keys: tuple[bytes, ...]

    def __init__(self, text: str, where: str) -> None:
        """Parse keys that white space separates. `where` names their source in errors. Raises ConfigError."""
        keys = text.split()
        if not 1 <= len(keys) <= _MOST_KEYS or not all(map(_KEY.fullmatch, keys)):
            raise ConfigError(
                f"{where} must have one or two keys for intents, of 32 to 256 letters and digits (openssl rand -hex 32)"
            )
        self._keys = tuple(key.encode() for key in keys)

    @classmethod
    def load(cls, path: Path) -> IntentKeys:
        """Read the keys from a file. Raises ConfigError."""
        try:
            return cls(path.read_text(encoding="ascii"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{path} with the keys for intents cannot be read ({type(error).__name__}): "
                "copy this file from the agent's host; the first start of an agent creates it"
            ) from error

    @staticmethod
    def create(path: Path, key: str = "") -> bool:
        """Write a key, by default a new one, to a file that only its owner can read.

        Returns False, and changes nothing, if the file exists.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return False
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{key or secrets.token_hex(_NEW_KEY_BYTES)}\n")
        return True

    def sign(self, content: bytes) -> bytes:
        """The signature of an encoded intent, as the value of its header."""
        return _digest(self._keys[0], content)

    def accepts(self, record: IntentRecord) -> bool:
        """Whether one of the keys signed the record."""
        found = (hmac.compare_digest(_digest(key, record.content), record.signature) for key in self._keys)
        return any(list(found))

    def require(self, record: IntentRecord) -> None:
        """Raise IntentForged if none of the keys signed the record."""
        if not self.accepts(record):
            state = "another key signed it" if record.signature else "it has no signature"
            raise IntentForged(f"intent {record.epoch} does not come from a holder of an accepted key: {state}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._keys)} keys)"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} has secrets, so it cannot be pickled")


def _digest(key: bytes, content: bytes) -> bytes:
    return hmac.new(key, _PURPOSE + content, hashlib.sha256).hexdigest().encode()
