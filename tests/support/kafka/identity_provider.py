"""An identity provider on loopback: a token endpoint for clients with a secret, and the keys that verify the tokens."""

from __future__ import annotations

import json
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from fraud_rules.runtime.clock import now_ms

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


@contextmanager
def identity_provider() -> Iterator[IdentityProvider]:
    """A running identity provider, with `URL/token` and `URL/keys`."""
    provider = IdentityProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(200, provider.keys())

        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"]))
            kind, _, credentials = self.headers.get("Authorization", "").partition(" ")
            known = (kind, b64decode(credentials)) == ("Basic", f"{CLIENT}:{SECRET}".encode())
            if known and b"grant_type=client_credentials" in form:
                self._answer(200, provider.token())
            else:
                self._answer(401, {"error": "invalid_client"})

        def log_message(self, *_: object) -> None:
            pass

        def _answer(self, status: int, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
