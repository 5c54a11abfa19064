"""The users of an installation, as their requests arrive at Airflow's API server."""

from __future__ import annotations

from typing import Any, Final

import httpx

from fraud_ops.paths import API

USER: Final = "admin"

_TIMEOUT_S: Final = 180.0


class LocalUsers:
    """Sends requests as users that have one password. A user logs in before the first request."""

    def __init__(self, url: str, password: str, timeout_s: float = _TIMEOUT_S) -> None:
        self.url = url
        self.password = password
        self._tokens: dict[str, str] = {}
        self._http = httpx.Client(base_url=url, timeout=timeout_s, trust_env=False)

    def token(self, user: str = USER) -> str:
        """The session token of a user. Raises httpx.HTTPError if Airflow does not answer or refuses the login."""
        if user not in self._tokens:
            answer = self._http.post("/auth/token", json={"username": user, "password": self.password})
            self._tokens[user] = str(answer.raise_for_status().json()["access_token"])
        return self._tokens[user]

    def headers(self, user: str = USER) -> dict[str, str]:
        """The headers of a user's requests."""
        return {"Authorization": f"Bearer {self.token(user)}"}

    def send(self, method: str, path: str, user: str = USER, **options: Any) -> httpx.Response:
        """Send a request for a path or an address. Raises httpx.HTTPError without an answer."""
        headers = {**self.headers(user), **options.pop("headers", {})}
        return self._http.request(method, path, headers=headers, **options)

    def ask(self, method: str, path: str, user: str = USER, **options: Any) -> httpx.Response:
        """Send a request to the API of the control plane, for a path below it."""
        return self.send(method, API + path, user, **options)
