"""`fraud` in this process, as users of a control plane at an address, and an address without Airflow."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx

from fraud_rules.errors import FraudError
from tests.support.control_plane.web.api_server import PASSWORD
from tests.support.control_plane.web.server import Server
from tests.support.processes.fraud_command import invoke

_PASSED_ON = ("Content-Type", "If-Match", "Idempotency-Key")
_BEARER, _PROGRAM = "Bearer ", "Bearer fraud_"


@dataclass
class Terminal:
    """Runs `fraud` as a user of the control plane at an address."""

    url: str
    folder: Path

    def run(self, user: str, *words: str, code: int = 0, stdin: str = "") -> str:
        """Run a command in this process. Returns its output, or its error if it ends with another code than 0."""
        environ = {
            "FRAUD_CONTROL_URL": self.url,
            "FRAUD_CONTROL_TOKEN_FILE": str(self.folder / f"{user}.token"),
            "FRAUD_CONTROL_PASSWORD": PASSWORD,
        }
        done = invoke(words, environ, stdin)
        error = done.exception
        found = error.exit_code if isinstance(error, FraudError) else done.exit_code
        assert found == code, (words, found, done.output, error)
        assert PASSWORD not in f"{done.output} {error}"
        return str(error) if code else done.stdout


@contextmanager
def addressed(server: Server) -> Iterator[str]:
    """The address of a server in this process, and of a login in place of Airflow's, which knows the users with a role
    and their tokens. Like Airflow's plugin, it forwards only the tokens of programs."""
    tokens = {secrets.token_hex(16): user for user in server.plane.store.settings.bindings}

    def log_in(content: bytes) -> httpx.Response:
        asked = json.loads(content)
        found = [token for token, user in tokens.items() if (user, PASSWORD) == (asked["username"], asked["password"])]
        return httpx.Response(201, json={"access_token": found[0]}) if found else httpx.Response(401, json={})

    def forward(method: str, path: str, headers: Message, content: bytes) -> httpx.Response:
        login = headers.get("Authorization", "")
        passed = {name: headers[name] for name in _PASSED_ON if name in headers}
        if login.startswith(_PROGRAM):
            passed["Authorization"] = login
        elif (user := tokens.get(login.removeprefix(_BEARER))) is not None:
            passed |= server.login.headers(user)
        return server.client.request(method, path, headers=passed, content=content)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Keep the output of the tests clean."""

        def answer(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            is_login = self.path == "/auth/token"
            found = log_in(content) if is_login else forward(self.command, self.path, self.headers, content)
            self.send_response(found.status_code)
            for name in ("Content-Type", "ETag"):
                if name in found.headers:
                    self.send_header(name, found.headers[name])
            self.send_header("Content-Length", str(len(found.content)))
            self.end_headers()
            self.wfile.write(found.content)

        do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 -- names of the base class

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_port}"
        finally:
            http.shutdown()
            thread.join()
