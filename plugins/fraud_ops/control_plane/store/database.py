"""The database, opened and brought up to date, with transactions for readers and for one writer at a time."""

from __future__ import annotations

__all__ = ["Database"]


class Database:
    """A SQLite file or a Postgres database; may be used by several threads."""

    @classmethod
    def open(cls, url: str) -> Database:
        """Connect, and run the migrations that are missing, one process at a time. Raises Unavailable, ConfigError."""
        raise NotImplementedError

    def close(self) -> None:
        """Give all connections back."""
