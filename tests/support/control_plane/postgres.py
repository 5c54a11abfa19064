"""A Postgres server, and a PgBouncer in front of it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from pathlib import Path

from sqlalchemy import create_engine, text

from tests.support.ports import free_ports

NOBODY = "nobody"


def binaries() -> Path | None:
    """The folder with the programs of the newest installed Postgres."""
    found = shutil.which("postgres")
    if found is not None and Path(found).resolve().with_name("initdb").exists():
        return Path(found).resolve().parent
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


class Postgres:
    """A server with its own port and folder. Postgres refuses to run as root, so root runs it as the user `nobody`.

    It listens at `address`, and the hosts of that address's network (/24) may connect."""

    def __init__(self, folder: Path, programs: Path, address: str = "127.0.0.1") -> None:
        self._programs = programs
        self._address = address
        self._data = folder / "data"
        self.port = free_ports(1)[0]
        self._user = NOBODY if os.geteuid() == 0 else None
        if self._user is not None:
            os.chown(folder, pwd.getpwnam(NOBODY).pw_uid, -1)
        self._run("initdb", "--auth=trust", "--username=fraud", "--no-sync")
        with (self._data / "pg_hba.conf").open("a", encoding="ascii") as rules:
            rules.write(f"host all all {address}/24 trust\n")

    @property
    def url(self) -> str:
        return f"postgresql+psycopg2://fraud@{self._address}:{self.port}/postgres"

    def start(self) -> None:
        options = (
            f"-p {self.port} -c listen_addresses={self._address} -c unix_socket_directories={self._data} -c fsync=off"
        )
        self._run("pg_ctl", "--wait", f"--log={self._data}/log", f"--options={options}", "start")

    def create(self, database: str) -> str:
        """Create a further database of the running server, and return its URL."""
        engine = create_engine(self.url, isolation_level="AUTOCOMMIT")
        with engine.connect() as session:
            session.execute(text(f"CREATE DATABASE {database}"))
        engine.dispose()
        return f"{self.url.rpartition('/')[0]}/{database}"

    def stop(self) -> None:
        self._run("pg_ctl", "--wait", "--mode=immediate", "stop")

    def _run(self, program: str, *options: str) -> None:
        command = [str(self._programs / program), f"--pgdata={self._data}", *options]
        subprocess.run(command, user=self._user, cwd="/", check=True, stdout=subprocess.DEVNULL)


class PgBouncer:
    """A PgBouncer in transaction mode: each transaction may get another one of few sessions."""

    def __init__(self, folder: Path, program: Path, server_port: int) -> None:
        self._program = program
        self._folder = folder
        self.port = free_ports(1)[0]
        self._user = NOBODY if os.geteuid() == 0 else None
        if self._user is not None:
            os.chown(folder, pwd.getpwnam(NOBODY).pw_uid, -1)
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "pgbouncer.ini").write_text(
            f"[databases]\npostgres = host=127.0.0.1 port={server_port} dbname=postgres user=fraud\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\nauth_type = any\n"
            "pool_mode = transaction\ndefault_pool_size = 4\nmax_client_conn = 200\n"
        )

    @property
    def url(self) -> str:
        return f"postgresql+psycopg2://fraud@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        command = [str(self._program), str(self._folder / "pgbouncer.ini")]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, user=self._user, cwd="/", stdout=log, stderr=log)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
