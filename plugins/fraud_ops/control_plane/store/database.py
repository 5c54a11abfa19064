"""The database, opened and brought up to date, with transactions for readers and for one writer at a time.

Writers take turns, in every process: the order of commits is then the order of the numbers given out (the outbox, the
audit chain), which neither SQLite nor Postgres promises by itself.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.engine import Connection, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.orm import Session
from sqlalchemy.pool import QueuePool

from fraud_ops.control_plane.errors import Unavailable
from fraud_ops.control_plane.store.migrations import migrate
from fraud_rules.errors import ConfigError

__all__ = ["SCHEMA", "Database"]

SCHEMA: Final = "fraud_control"
"""Postgres' schema for the tables: they may share a database with others."""

_WRITER_LOCK: Final = 0x66726175_640001
_MIGRATION_LOCK: Final = 0x66726175_640002
_BUSY_MS: Final = 30_000
_POOL: Final = 10


class Database:
    """A SQLite file or a Postgres database; may be used by several threads."""

    def __init__(self, engine: Engine) -> None:
        """For `open`."""
        self._engine = engine
        self._turn = threading.Lock()
        self.file = _file_of(engine)

    @classmethod
    def open(cls, url: str) -> Database:
        """Connect, and run the migrations that are missing, one process at a time. Raises Unavailable, ConfigError."""
        database = cls(_engine(url))
        with database._named(), database._only_one_migrates() as connection:
            migrate(connection)
        return database

    def close(self) -> None:
        """Give all connections back."""
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """One consistent view (SQLite), or what is committed (Postgres). Raises Unavailable."""
        with self._named(), Session(self._engine, expire_on_commit=False) as session, session.begin():
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """The only writer, until the block ends: committed then, or taken back after an error. Raises Unavailable."""
        writer = self._engine.execution_options(writer=True)
        with ExitStack() as held:
            for each in (self._named(), self._turn, self._lock_file("writer")):
                held.enter_context(each)
            session = held.enter_context(Session(writer, expire_on_commit=False))
            held.enter_context(session.begin())
            if self.file is None:
                session.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _WRITER_LOCK})
            yield session

    def leadership(self, name: str) -> AbstractContextManager[bool]:
        """Be the one process that does `name`; gives whether we are, at once. Ends with the block, or the process."""
        return self._lead(name)

    @contextmanager
    def _lead(self, name: str) -> Iterator[bool]:
        with ExitStack() as held:
            if self.file is not None:
                yield held.enter_context(_flock(_beside(self.file, name), wait=False))
                return
            with self._named():
                connection = held.enter_context(self._engine.connect())
                key = {"key": _lock_key(name)}
                led = bool(connection.execute(text("SELECT pg_try_advisory_lock(:key)"), key).scalar())
                connection.commit()
            try:
                yield led
            finally:
                # The connection goes back to the pool, and a lock of a session would go with it.
                connection.invalidate()

    @contextmanager
    def _only_one_migrates(self) -> Iterator[Connection]:
        with self._lock_file("migration"), self._engine.execution_options(writer=True).connect() as connection:
            if self.file is None:
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
                connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
            yield connection
            connection.commit()

    def _lock_file(self, name: str) -> AbstractContextManager[object]:
        """SQLite's own waiting is a sleep of up to 100 ms at a time; a lock of the system wakes the next at once."""
        return ExitStack() if self.file is None else _flock(_beside(self.file, name), wait=True)

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except (OperationalError, InterfaceError) as error:
            raise Unavailable(f"the control plane's database: {_said(error)}") from error
        except DBAPIError as error:
            if error.connection_invalidated:
                raise Unavailable(f"the control plane's database: {_said(error)}") from error
            raise


def _lock_key(name: str) -> int:
    """A number for a lock of Postgres."""
    return int.from_bytes(name.encode()[-7:].rjust(7, b"\0")) ^ _WRITER_LOCK << 4


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite":
            return _sqlite(url, parsed.database)
        options = {"options": f"-csearch_path={SCHEMA}", "connect_timeout": 10}
        return create_engine(parsed, connect_args=options, pool_pre_ping=True, pool_size=_POOL, hide_parameters=True)
    except (ArgumentError, ImportError, SQLAlchemyError) as error:
        raise ConfigError(f"the control plane's database: {type(error).__name__}: is its URL right?") from error


def _sqlite(url: str, file: str | None) -> Engine:
    if not file or file == ":memory:":
        raise ConfigError("the control plane's database must be a file: sqlite:///var/control-plane.db")
    try:
        Path(file).resolve().parent.mkdir(parents=True, exist_ok=True)
        Path(file).touch(mode=0o600)  # who may do what is in there: for its owner's eyes
    except OSError as error:
        raise Unavailable(f"the control plane's database {file} cannot be made: {error.strerror}") from error
    engine = create_engine(
        url, poolclass=QueuePool, pool_size=_POOL, max_overflow=_POOL, hide_parameters=True,
        connect_args={"check_same_thread": False, "timeout": _BUSY_MS / 1_000},
    )  # fmt: skip
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _prepare(connection: Any, record: object) -> None:
    """Transactions begin where we say. A commit is on disk when it returns: what is in the rule log is in here too."""
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", f"busy_timeout={_BUSY_MS}", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    writer = connection.get_execution_options().get("writer", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writer else "BEGIN")


def _file_of(engine: Engine) -> Path | None:
    """SQLite's file; None for Postgres."""
    return Path(str(engine.url.database)).resolve() if engine.dialect.name == "sqlite" else None


def _beside(file: Path, name: str) -> Path:
    return file.with_name(f"{file.name}.{name}.lock")


@contextmanager
def _flock(path: Path, *, wait: bool) -> Iterator[bool]:
    """Hold a file's lock, which ends with the process whatever ends it; gives whether it is held."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unavailable(f"{path} cannot be opened: {error.strerror}") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)


def _said(error: DBAPIError) -> str:
    return " ".join(str(error.orig).split())[:300]
