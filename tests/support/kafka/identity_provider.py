"""An identity provider on loopback: a token endpoint for clients with a secret, and the keys that verify the tokens."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from fraud_rules.runtime.clock import now_ms
from tests.support.receivers.answering import Answer, Request, answering

AUDIENCE = "kafka"
CLIENT, SECRET = "fraud", "not-to-be-seen-5e0b"
_KEY_ID = "1"
_LIFE_S = 600


class IdentityProvider:
    """Signs tokens for the client `CLIENT`. `issued` counts them."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.issued = 0
        self.url = ""

    def keys(self) -> dict[str, Any]:
        public = json.loads(RSAAlgorithm.to_jwk(self._key.public_key()))
        return {"keys": [public | {"kid": _KEY_ID, "use": "sig", "alg": "RS256"}]}

    def token(self) -> dict[str, Any]:
        self.issued += 1
        now_s = now_ms() // 1_000
        claims = {"sub": CLIENT, "aud": AUDIENCE, "iat": now_s, "exp": now_s + _LIFE_S, "scope": "kafka"}
        signed = jwt.encode(claims, self._key, "RS256", headers={"kid": _KEY_ID})
        return {"access_token": signed, "token_type": "Bearer", "expires_in": _LIFE_S}

    def answer(self, request: Request) -> Answer:
        if request.path == "/keys":
            return 200, self.keys()
        kind, _, credentials = request.headers.get("authorization", "").partition(" ")
        known = (kind, b64decode(credentials)) == ("Basic", f"{CLIENT}:{SECRET}".encode())
        if known and b"grant_type=client_credentials" in request.body:
            return 200, self.token()
        return 401, {"error": "invalid_client"}


@contextmanager
def identity_provider() -> Iterator[IdentityProvider]:
    """A running identity provider, with `URL/token` and `URL/keys`."""
    provider = IdentityProvider()
    with answering(provider.answer) as provider.url:
        yield provider
