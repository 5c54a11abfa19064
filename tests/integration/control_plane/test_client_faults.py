"""The client of the API: unsuitable tokens, addresses, files and answers end with one line and never show the token."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fraud_rules.api_client import TOKEN_VARIABLE
from fraud_rules.cli import app
from fraud_rules.errors import FraudError

SECRET = "SECRET-abc"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        content, status = self.server.answer  # type: ignore[attr-defined]
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        pass


@pytest.fixture
def other() -> Iterator[ThreadingHTTPServer]:
    """A server that is no control plane. It gives `answer` to each request."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.answer = (b"{}", 200)  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def run(url: str, *words: str, **environ: str) -> tuple[int, str]:
    """The exit code and all that a person sees. Only an error of the product's tree may end a command."""
    done = CliRunner().invoke(app, words, env={TOKEN_VARIABLE: SECRET, "FRAUD_CONTROL_URL": url, **environ})
    error = done.exception
    assert error is None or isinstance(error, FraudError | SystemExit), repr(error)
    shown = f"{done.output} {error}"
    assert SECRET not in shown
    return (error.exit_code if isinstance(error, FraudError) else done.exit_code), shown


def url_of(server: ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


@pytest.mark.parametrize("token", ["", f"{SECRET}\u00e9", f"{SECRET}\x07", f"{SECRET}\nX-Other: 1"])
def test_an_unsuitable_token_is_refused_by_the_name_of_its_place(other: ThreadingHTTPServer, token: str) -> None:
    code, shown = run(url_of(other), "rules", "list", **{TOKEN_VARIABLE: token})
    assert (code, TOKEN_VARIABLE in shown) == (3, True)


def test_a_token_may_end_with_a_new_line(other: ThreadingHTTPServer) -> None:
    other.answer = (b'{"items": [], "next": null}', 200)  # type: ignore[attr-defined]
    code, shown = run(url_of(other), "rules", "list", **{TOKEN_VARIABLE: f"{SECRET}\n"})
    assert (code, "there are no rules" in shown) == (0, True)


@pytest.mark.parametrize(("content", "mode"), [(b"\xff\xfe", 0o600), (SECRET.encode(), 0o644), (b"", 0o600)])
def test_an_unsuitable_file_with_a_token_is_refused(
    other: ThreadingHTTPServer, tmp_path: Path, content: bytes, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    path = tmp_path / "token"
    monkeypatch.setenv("FRAUD_CONTROL_TOKEN_FILE", str(path))
    path.write_bytes(content)
    path.chmod(mode)
    done = CliRunner().invoke(app, ["rules", "list", "--url", url_of(other)])
    assert isinstance(done.exception, FraudError)
    assert done.exception.exit_code == 3
    assert SECRET not in f"{done.output} {done.exception}"


@pytest.mark.parametrize("url", ["http://[::bad", "airflow.example", "ftp://airflow.example", "http://"])
def test_an_unsuitable_address_is_refused(url: str) -> None:
    assert run(url, "rules", "list")[0] == 3


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ((b"{}", 200), 33),
        ((b"[]", 200), 33),
        ((b"<html>", 200), 33),
        ((b"<html>", 401), 36),
        ((b"[1]", 404), 34),
        ((b'{"detail": 1, "reasons": [1, {}]}', 422), 2),
        ((b"", 412), 35),
        ((b"", 503), 37),
        ((b"", 500), 33),
    ],
)
def test_an_answer_of_another_server_is_an_error(
    other: ThreadingHTTPServer, answer: tuple[bytes, int], code: int
) -> None:
    other.answer = answer  # type: ignore[attr-defined]
    assert run(url_of(other), "rules", "list")[0] == code


def test_a_file_that_cannot_be_written_is_named(other: ThreadingHTTPServer, tmp_path: Path) -> None:
    output = tmp_path / "missing" / "rules.yaml"
    code, shown = run(url_of(other), "rules", "export", "--output", str(output))
    assert (code, str(output) in shown) == (2, True)
