"""Requests OAuth tokens for kafka-python, which has no client of its own for identity providers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import httpx
from kafka.net.sasl.oauth import AbstractTokenProvider

from fraud_rules.errors import BrokerUnavailable

_TIMEOUT_S: Final = 10.0


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc] # kafka-python has no types
    """The tokens of a client with a secret (RFC 6749, section 4.4). Each new connection requests one.

    Raises BrokerUnavailable if the identity provider does not answer or refuses the client.
    """

    def __init__(
        self, endpoint: str, client_id: str, client_secret: str, scope: str | None, extensions: Mapping[str, str]
    ) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._client = (client_id, client_secret)
        self._form = {"grant_type": "client_credentials"} | ({} if scope is None else {"scope": scope})
        self._extensions = dict(extensions)

    def token(self) -> str:
        """A new token."""
        try:
            answer = httpx.post(self._endpoint, data=self._form, auth=self._client, timeout=_TIMEOUT_S)
            answer.raise_for_status()
            return str(answer.json()["access_token"])
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            fault = f"{type(error).__name__}: {error}".splitlines()[0]
            raise BrokerUnavailable(f"the identity provider {self._endpoint} issues no token: {fault}") from error

    def extensions(self) -> dict[str, str]:
        """The SASL extensions of each connection."""
        return self._extensions
