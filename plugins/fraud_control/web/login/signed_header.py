"""Logins by the signed header of a proxy, such as those of Google's IAP or Cloudflare Access.

The proxy logs users in at the company's provider, and adds a JSON Web Token to each request. Its keys are at an
address, as a JSON Web Key Set (RFC 7517).
"""

from __future__ import annotations

import asyncio
from typing import Final

import jwt

from fraud_control.settings import ProxyLogin
from fraud_ops.account import Account
from fraud_ops.tickets import Ticket, TicketInvalid
from fraud_rules.errors import ConfigError

_ALGORITHMS: Final = ("ES256", "ES384", "RS256", "RS384", "RS512", "PS256", "EdDSA")
"""Signatures with a private key only. With a shared secret, the public key could sign."""
_CLOCK_SKEW_S: Final = 30
_KEYS_S: Final = 300
_TIMEOUT_S: Final = 5


class SignedHeader:
    """Reads tokens of the proxy that the settings name. Raises ConfigError for settings without a member."""

    def __init__(self, settings: ProxyLogin) -> None:
        missing = [name for name in ("keys_url", "issuer", "audience") if not getattr(settings, name)]
        if missing:
            raise ConfigError(f"proxy_login needs {', '.join(missing)}: without them any token of the proxy is a login")
        self.header: Final = settings.header
        self._settings = settings
        self._keys = jwt.PyJWKClient(settings.keys_url, lifespan=_KEYS_S, timeout=_TIMEOUT_S)

    async def read(self, text: str) -> Ticket:
        """The login in the text of the header. Keys that are unknown are fetched, in a thread. Raises TicketInvalid."""
        return await asyncio.to_thread(self._read, text)

    def _read(self, text: str) -> Ticket:
        expected = self._settings
        try:
            claims = jwt.decode(
                text,
                self._keys.get_signing_key_from_jwt(text).key,
                list(_ALGORITHMS),
                audience=expected.audience,
                issuer=expected.issuer,
                leeway=_CLOCK_SKEW_S,
                options={"require": ["exp", "iss", "aud", "sub", expected.name]},
            )
        except jwt.PyJWTError as error:
            raise TicketInvalid(f"the token of the proxy in {self.header} is not valid: {error}") from None
        account = Account(expected.issuer, str(claims["sub"]), str(claims[expected.name]))
        # A browser has no part in the header, but the proxy adds it to the requests of any page.
        return Ticket(account, by_browser=True)
