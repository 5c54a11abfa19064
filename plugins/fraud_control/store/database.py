"""Opens and migrates the database, and opens transactions for readers and for one writer at a time.

Only one writer of all processes writes at a time. So writers commit in the order of the numbers that they allocate
(outbox, audit log). Neither SQLite nor Postgres guarantees this order. Every wait has a limit: if a process is
suspended while it writes, other writers get StoreBusy, and Postgres ends the transaction.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Engine, create_engine, event, text
from sqlalchemy.engine import Connection, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session
from sqlalchemy.pool import QueuePool

from fraud_control.domain.errors import StoreBusy, Unavailable
from fraud_control.store.leases import Leadership, Leases, check_fence
from fraud_control.store.migrations import migrate
from fraud_rules.errors import ConfigError
from fraud_rules.runtime.file_lock import FileLock

SCHEMA: Final = "fraud_control"
"""The Postgres schema of the tables, which may share a database with other programs."""

_WRITER_LOCK: Final = 0x66726175_640001
_MIGRATION_LOCK: Final = 0x66726175_640002
_WAIT_S: Final = 10.0
_IDLE_TRANSACTION_S: Final = 60
_POOL: Final = 10
_SERVER_LIVENESS: Final = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""The connection arguments that detect a server that has become unreachable."""
_LOCKED: Final = ("55P03", "database is locked")
"""The errors of Postgres and SQLite for a lock that was not granted in time."""


class Database:
    """A SQLite file or a Postgres database. Several threads may use it."""

    def __init__(self, engine: Engine, wait_s: float) -> None:
        """Only `open` calls the constructor."""
        self._engine = engine
        self._wait_s = wait_s
        self._thread_lock = threading.Lock()
        self._leases = Leases(self.reading, self.writing, self._renewing)
        self.file = _file_of(engine)

    @classmethod
    def open(cls, url: str, wait_s: float = _WAIT_S) -> Database:
        """Connect and run the missing migrations, one process at a time. `wait_s` limits each wait for a lock or a
        connection. Raises Unavailable, ConfigError, StoreTooNew.
        """
        database = cls(_engine(url, wait_s), wait_s)
        with database._mapped_errors(), database._only_one_migrates() as connection:
            migrate(connection)
        return database

    def close(self) -> None:
        """Close all connections."""
        self._leases.close()
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Open a read transaction. SQLite reads one snapshot. In Postgres, each statement reads the committed rows.

        Raises StoreBusy, Unavailable.
        """
        with self._mapped_errors(), Session(self._engine, expire_on_commit=False) as session, session.begin():
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Open the write transaction as the only writer. The end of the block commits it, and an error rolls it back.

        Raises StoreBusy if another writer does not end in time, LeadershipLost if this thread has led and another
        process leads now, and Unavailable if the database fails.
        """
        writer = self._engine.execution_options(writer=True)
        with ExitStack() as held:
            for each in (self._mapped_errors(), self._as_only_thread(), self._lock_file("writer")):
                held.enter_context(each)
            session = held.enter_context(Session(writer, expire_on_commit=False))
            held.enter_context(session.begin())
            if self.file is None:
                session.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _WRITER_LOCK})
            check_fence(session)
            yield session

    def leadership(self, name: str) -> AbstractContextManager[Leadership]:
        """Try to become the leader for the work `name`, without waiting for another leader. Leadership ends with the
        block, and 15 seconds after the end of a process. Raises Unavailable.
        """
        return self._leases.lead(name)

    def renew_leases(self) -> None:
        """Renew the leases of this process now; a thread does so every few seconds. Raises Unavailable."""
        self._leases.renew()

    @contextmanager
    def _renewing(self) -> Iterator[Session]:
        """Open a transaction that writes and does not wait for the turn of a writer."""
        writer = self._engine.execution_options(writer=True)
        with self._mapped_errors(), Session(writer) as session, session.begin():
            yield session

    @contextmanager
    def _as_only_thread(self) -> Iterator[None]:
        """Wait until no other thread of this process writes. Raises StoreBusy after the time limit."""
        if not self._thread_lock.acquire(timeout=self._wait_s):
            raise StoreBusy(f"another change has held the store for {self._wait_s:g} s: try again")
        try:
            yield
        finally:
            self._thread_lock.release()

    @contextmanager
    def _only_one_migrates(self) -> Iterator[Connection]:
        with self._lock_file("migration"), self._engine.execution_options(writer=True).connect() as connection:
            if self.file is None:
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
                if connection.scalar(text("SELECT to_regnamespace(:name)"), {"name": SCHEMA}) is None:
                    # Only then: the statement needs the right CREATE on the database, also if the schema exists.
                    connection.execute(text(f"CREATE SCHEMA {SCHEMA}"))
            yield connection
            connection.commit()

    def _lock_file(self, name: str) -> AbstractContextManager[object]:
        """Lock a file before SQLite locks the database, because SQLite sleeps up to 100 ms between attempts."""
        return ExitStack() if self.file is None else held_file(_lock_path(self.file, name), self._wait_s)

    @contextmanager
    def _mapped_errors(self) -> Iterator[None]:
        try:
            yield
        except PoolTimeout as error:
            raise StoreBusy(f"all connections to the control plane's database are in use: {error}") from error
        except (OperationalError, InterfaceError) as error:
            if getattr(error.orig, "pgcode", None) in _LOCKED or str(error.orig) in _LOCKED:
                raise StoreBusy(f"the control plane's database: {_message_of(error)}") from error
            raise Unavailable(f"the control plane's database: {_message_of(error)}") from error
        except DBAPIError as error:
            if error.connection_invalidated:
                raise Unavailable(f"the control plane's database: {_message_of(error)}") from error
            raise


def _engine(url: str, wait_s: float) -> Engine:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite":
            return _sqlite(url, parsed.database, wait_s)
        return _postgres(parsed, wait_s)
    except (ArgumentError, ImportError, SQLAlchemyError) as error:
        raise ConfigError(f"the control plane's database: {type(error).__name__}: check its URL") from error


def _postgres(url: URL, wait_s: float) -> Engine:
    """Create the engine. Each transaction sets its own limits, because PgBouncer in transaction mode accepts no
    start-up options and gives each transaction another session.
    """
    settings = {
        "search_path": SCHEMA,
        "lock_timeout": f"{wait_s * 1_000:.0f}",
        "idle_in_transaction_session_timeout": f"{_IDLE_TRANSACTION_S}s",
    }
    calls = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())
    engine = create_engine(
        url, connect_args=_SERVER_LIVENESS, pool_pre_ping=True, pool_size=_POOL, pool_timeout=wait_s,
        hide_parameters=True,
    )  # fmt: skip
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(f"SELECT {calls}"))
    return engine


def _sqlite(url: str, file: str | None, wait_s: float) -> Engine:
    if not file or file == ":memory:":
        raise ConfigError("the control plane's database must be a file: sqlite:///var/control-plane.db")
    try:
        Path(file).resolve().parent.mkdir(parents=True, exist_ok=True)
        Path(file).touch(mode=0o600)  # the file has the roles of users, so only its owner may read it
    except OSError as error:
        raise Unavailable(f"the control plane's database {file} cannot be created: {error.strerror}") from error
    engine = create_engine(
        url, poolclass=QueuePool, pool_size=_POOL, max_overflow=_POOL, pool_timeout=wait_s, hide_parameters=True,
        connect_args={"check_same_thread": False, "timeout": wait_s},
    )  # fmt: skip
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _prepare(connection: Any, record: object) -> None:
    """Turn off implicit transactions, and sync each commit to disk: the rule log must not be ahead of the store."""
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    writer = connection.get_execution_options().get("writer", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writer else "BEGIN")


def _file_of(engine: Engine) -> Path | None:
    """The file of a SQLite database; None for Postgres."""
    return Path(str(engine.url.database)).resolve() if engine.dialect.name == "sqlite" else None


def _lock_path(file: Path, name: str) -> Path:
    return file.with_name(f"{file.name}.{name}.lock")


def _message_of(error: DBAPIError) -> str:
    return " ".join(str(error.orig).split())[:300]


@contextmanager
def held_file(path: Path, wait_s: float) -> Iterator[None]:
    """Hold the lock of a file. Raises StoreBusy if another process does not release it in time, Unavailable."""
    try:
        lock = FileLock(path, 0o600)
    except OSError as error:
        raise Unavailable(f"{path} cannot be opened: {error.strerror}") from error
    with lock as file:
        if not file.acquire(wait_s):
            raise StoreBusy(f"process {file.holder()} has held {path.name} for {wait_s:g} s and may hang")
        yield
