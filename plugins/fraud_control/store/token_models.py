"""The table of tokens for programs."""

from __future__ import annotations

from typing import Final

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from fraud_control.store.models import PROGRAM_CHARS, USER_CHARS, Base

_DIGEST_CHARS: Final = 64


class ProgramTokenRow(Base):
    """A token. `digest` is the SHA-256 of its secret, which the store never has. A revoked token has no row."""

    __tablename__ = "program_tokens"

    id: Mapped[str] = mapped_column(String(12), primary_key=True)
    digest: Mapped[str] = mapped_column(String(_DIGEST_CHARS), unique=True, index=True)
    owner: Mapped[str] = mapped_column(String(USER_CHARS), index=True)
    name: Mapped[str] = mapped_column(String(PROGRAM_CHARS))
    role: Mapped[str] = mapped_column(String(16))
    created_at_ms: Mapped[int]
    expires_at_ms: Mapped[int]
