"""Tokens for programs: their limits and their read model."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from fraud_control.domain.read_models import EpochMs, ReadModel
from fraud_control.domain.roles import Role

MOST_DAYS: Final = 366
"""The longest time for which a token is valid."""
NAME_FORM: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"


class ProgramToken(ReadModel):
    """A token for a program. The program acts as the owner, with at most this role."""

    id: str
    owner: str
    name: str
    role: Role
    created_at_ms: EpochMs = Field(serialization_alias="createdAt")
    expires_at_ms: EpochMs = Field(serialization_alias="expiresAt")
