"""`fraud` in this process, as users of a control plane at an address, and an address without Airflow."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fraud_rules.errors import FraudError
from tests.support.control_plane.web.api_server import PASSWORD
from tests.support.control_plane.web.server import Server
from tests.support.processes.fraud_command import invoke
from tests.support.receivers.answering import Answer, Request, answering

_PASSED_ON = ("content-type", "if-match", "idempotency-key")
_SHOWN = ("Content-Type", "ETag")
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

    def log_in(content: bytes) -> Answer:
        asked = json.loads(content)
        found = [token for token, user in tokens.items() if (user, PASSWORD) == (asked["username"], asked["password"])]
        return (201, {"access_token": found[0]}) if found else (401, {})

    def forward(request: Request) -> Answer:
        login = request.headers.get("authorization", "")
        passed = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        if login.startswith(_PROGRAM):
            passed["authorization"] = login
        elif (user := tokens.get(login.removeprefix(_BEARER))) is not None:
            passed |= server.login.headers(user)
        found = server.client.request(request.method, request.path, headers=passed, content=request.body)
        shown = {name: found.headers[name] for name in _SHOWN if name in found.headers}
        return found.status_code, found.content, shown

    with answering(lambda request: log_in(request.body) if request.path == "/auth/token" else forward(request)) as url:
        yield url
