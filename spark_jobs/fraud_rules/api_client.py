"""A client of the control plane's HTTP API. An error response becomes an error of the product's tree."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import httpx

from fraud_rules.errors import (
    ConfigError,
    Conflict,
    ControlPlaneError,
    InputInvalid,
    NotFound,
    RequestRefused,
    Unavailable,
)

TOKEN_VARIABLE: Final = "FRAUD_CONTROL_TOKEN"  # noqa: S105 - the name of a variable
"""The variable that replaces the file with the token."""

_API: Final = "/fraud/control/api"
_PROGRAM: Final = "Bearer fraud_"  # a header with the token of a program
_TIMEOUT_S: Final = 60.0
_SHOWN_REASONS: Final = 20
_HINTS: Final = {
    401: "the token is missing or no longer valid: run `fraud login`",
    412: "another user was first: read the newest revision, then run the command again",
}


class Client:
    """Sends requests with the token of a user.

    Each method raises Unavailable, NotFound, Conflict, RequestRefused, InputInvalid or ControlPlaneError.
    """

    def __init__(self, url: str, token_file: Path, environ: Mapping[str, str] = os.environ) -> None:
        headers = {"Authorization": f"Bearer {_token(token_file, environ)}"}
        self._http = httpx.Client(base_url=_base(url) + _API, headers=headers, timeout=_TIMEOUT_S)

    def get(self, path: str, **parameters: object) -> Any:
        """Read a document."""
        return _document(self._send("GET", path, params=_present(parameters)))

    def text(self, path: str, **parameters: object) -> bytes:
        """Read a file."""
        return self._send("GET", path, params=_present(parameters)).content

    def change(
        self, method: str, path: str, body: object = None, revision: int | None = None, **parameters: object
    ) -> tuple[Any, bool]:
        """Send a change of what had this revision. Returns the answer, and whether the change waits for approval."""
        headers = {} if revision is None else {"If-Match": f'"{revision}"'}
        answer = self._send(method, path, json=body, headers=headers, params=_present(parameters))
        return (_document(answer) if answer.content else None), answer.status_code == httpx.codes.ACCEPTED

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            answer = self._http.request(method, path, **options)
        except httpx.HTTPError as error:
            raise Unavailable(_unanswered(self._http.base_url.host, error)) from error
        return _checked(answer)


def request_token(url: str, user: str, password: str) -> str:
    """Log in at Airflow. Returns the token. Raises RequestRefused, Unavailable, ControlPlaneError."""
    try:
        body = {"username": user, "password": password}
        answer = httpx.post(f"{_base(url)}/auth/token", json=body, timeout=_TIMEOUT_S)
    except httpx.HTTPError as error:
        raise Unavailable(_unanswered(url, error)) from error
    if answer.status_code in (401, 403):
        raise RequestRefused(f"Airflow refuses the user {user} with this password", forbidden=True)
    return str(_document(_checked(answer))["access_token"])


def save_token(path: Path, token: str) -> None:
    """Write a token to a file that only its owner may read. Raises ConfigError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # an older file could be readable for others
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(token + "\n")
    except OSError as error:
        raise ConfigError(f"the token cannot be saved: {error}") from error


def _token(path: Path, environ: Mapping[str, str]) -> str:
    """The token of the variable, else of the file. No message shows it."""
    place, token = TOKEN_VARIABLE, environ.get(TOKEN_VARIABLE)
    if token is None:
        place, token = str(path), _kept_token(path)
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable():
        raise ConfigError(f"{place} has no token: run `fraud login`")
    return token


def _kept_token(path: Path) -> str:
    try:
        if path.stat().st_mode & 0o077:
            raise ConfigError(f"other users may read {path}: run `fraud login` again, or `chmod 600 {path}`")
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        raise ConfigError(f"{path} has no token: run `fraud login`, or set {TOKEN_VARIABLE}") from None


def _base(url: str) -> str:
    try:
        found = httpx.URL(url)
    except httpx.InvalidURL:
        found = httpx.URL()
    if found.scheme not in ("http", "https") or not found.host:
        raise ConfigError(f"{url} is no address: give one such as https://airflow.example")
    return url.rstrip("/")


def _unanswered(place: str, error: httpx.HTTPError) -> str:
    return f"{place} does not answer: {str(error) or type(error).__name__}"


def _present(parameters: Mapping[str, object]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None and value != []}


class _Answer(dict[str, Any]):
    """An object of an answer. A missing member shows that another server answered."""

    def __missing__(self, name: str) -> Any:
        raise ControlPlaneError(f"the answer has no member {name}: check the address of Airflow's API server")


def _document(answer: httpx.Response) -> Any:
    try:
        found = json.loads(answer.content, parse_float=Decimal, object_hook=_Answer)
    except ValueError:
        found = None
    if not isinstance(found, _Answer):
        raise ControlPlaneError(f"{answer.url.host} returned no JSON object: check the address of Airflow's API server")
    return found


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.is_success:
        return answer
    status, message = answer.status_code, _message(answer)
    if status in (401, 403, 409):
        raise RequestRefused(message, forbidden=status != 409)
    if status == 404:
        raise NotFound(message)
    if status == 412:
        raise Conflict(message)
    if status in (400, 413, 422):
        raise InputInvalid(message)
    if status in (429, 502, 503, 504):
        after = answer.headers.get("Retry-After")
        raise Unavailable(f"{message}; retry after {after} s" if after else message)
    raise ControlPlaneError(message)


def _message(answer: httpx.Response) -> str:
    """The detail of a problem with its reasons by field, and what to do."""
    try:
        found = json.loads(answer.content)
    except ValueError:
        found = None
    problem = found if isinstance(found, dict) else {}
    detail = str(problem.get("detail") or f"{answer.url.host} answered {answer.status_code}")
    reasons = [each for each in problem.get("reasons") or () if isinstance(each, dict)][:_SHOWN_REASONS]
    said = [f"{each.get('field') or 'input'}: {each.get('message')}" for each in reasons]
    said = [each for each in dict.fromkeys(said) if each not in detail]
    of_program = answer.request.headers.get("authorization", "").startswith(_PROGRAM)
    hint = None if of_program and answer.status_code == httpx.codes.UNAUTHORIZED else _HINTS.get(answer.status_code)
    return "; ".join([detail, *said, *([hint] if hint else [])])
