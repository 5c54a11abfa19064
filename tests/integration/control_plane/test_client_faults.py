"""The client of the API: unsuitable tokens, addresses, files and answers end with one line and never show the token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fraud_rules.api_client import TOKEN_VARIABLE
from fraud_rules.errors import FraudError
from tests.support.processes.fraud_command import invoke
from tests.support.receivers.answering import Answer, answering

SECRET = "SECRET-abc"


class Other:
    """A server that is no control plane. It gives `answer` to each request."""

    url: str
    answer: Answer = (200, b"{}")


@pytest.fixture
def other() -> Iterator[Other]:
    other = Other()
    with answering(lambda request: other.answer) as other.url:
        yield other


def run(url: str, *words: str, **environ: str) -> tuple[int, str]:
    """The exit code and all that a person sees. Only an error of the product's tree may end a command."""
    done = invoke(words, {TOKEN_VARIABLE: SECRET, "FRAUD_CONTROL_URL": url, **environ})
    error = done.exception
    assert error is None or isinstance(error, FraudError | SystemExit), repr(error)
    shown = f"{done.output} {error}"
    assert SECRET not in shown
    return (error.exit_code if isinstance(error, FraudError) else done.exit_code), shown


@pytest.mark.parametrize("token", ["", f"{SECRET}\u00e9", f"{SECRET}\x07", f"{SECRET}\nX-Other: 1"])
def test_an_unsuitable_token_is_refused_by_the_name_of_its_place(other: Other, token: str) -> None:
    code, shown = run(other.url, "rules", "list", **{TOKEN_VARIABLE: token})
    assert (code, TOKEN_VARIABLE in shown) == (3, True)


def test_a_token_may_end_with_a_new_line(other: Other) -> None:
    other.answer = (200, {"items": [], "next": None})
    code, shown = run(other.url, "rules", "list", **{TOKEN_VARIABLE: f"{SECRET}\n"})
    assert (code, "there are no rules" in shown) == (0, True)


@pytest.mark.parametrize(("content", "mode"), [(b"\xff\xfe", 0o600), (SECRET.encode(), 0o644), (b"", 0o600)])
def test_an_unsuitable_file_with_a_token_is_refused(
    other: Other, tmp_path: Path, content: bytes, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    path = tmp_path / "token"
    monkeypatch.setenv("FRAUD_CONTROL_TOKEN_FILE", str(path))
    path.write_bytes(content)
    path.chmod(mode)
    done = invoke(["rules", "list", "--url", other.url])
    assert isinstance(done.exception, FraudError)
    assert done.exception.exit_code == 3
    assert SECRET not in f"{done.output} {done.exception}"


@pytest.mark.parametrize("url", ["http://[::bad", "airflow.example", "ftp://airflow.example", "http://"])
def test_an_unsuitable_address_is_refused(url: str) -> None:
    assert run(url, "rules", "list")[0] == 3


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ((200, b"{}"), 33),
        ((200, b"[]"), 33),
        ((200, b"<html>"), 33),
        ((401, b"<html>"), 36),
        ((404, b"[1]"), 34),
        ((422, b'{"detail": 1, "reasons": [1, {}]}'), 2),
        ((412, b""), 35),
        ((503, b""), 37),
        ((500, b""), 33),
    ],
)
def test_an_answer_of_another_server_is_an_error(other: Other, answer: Answer, code: int) -> None:
    other.answer = answer
    assert run(other.url, "rules", "list")[0] == code


def test_a_file_that_cannot_be_written_is_named(other: Other, tmp_path: Path) -> None:
    output = tmp_path / "missing" / "rules.yaml"
    code, shown = run(other.url, "rules", "export", "--output", str(output))
    assert (code, str(output) in shown) == (2, True)
