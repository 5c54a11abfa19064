"""The account of a login."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Account:
    """An account of a login: `issuer` is the auth manager, `id` the account's id there, and `name` its login name."""

    issuer: str
    id: str
    name: str

    @property
    def key(self) -> str:
        """The digest of issuer and id."""
        return hashlib.sha256(f"{self.issuer}\0{self.id}".encode("utf-8", "surrogatepass")).hexdigest()
