"""Logins by the signed header of a proxy, with its keys at a real address."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from fraud_control.settings import ProxyLogin
from fraud_control.web.login.signed_header import SignedHeader
from fraud_ops.account import Account
from fraud_ops.tickets import Ticket, TicketInvalid
from fraud_rules.errors import ConfigError
from tests.support.receivers.answering import answering

ISSUER, AUDIENCE = "https://iap.example", "/projects/7"
KEY, OTHER_KEY = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
PUBLIC: dict[str, Any] = json.loads(ECAlgorithm.to_jwk(KEY.public_key()))


@contextmanager
def keys_at(document: Any) -> Iterator[str]:
    """An address with a JSON Web Key Set."""
    with answering(lambda request: (200, document)) as url:
        yield f"{url}/keys"


@pytest.fixture(scope="module")
def header() -> Iterator[SignedHeader]:
    with keys_at({"keys": [{**PUBLIC, "kid": "k1", "use": "sig", "alg": "ES256"}]}) as url:
        yield SignedHeader(ProxyLogin("X-Goog-IAP-JWT-Assertion", url, ISSUER, AUDIENCE))


def token(key: Any = KEY, algorithm: str = "ES256", kid: str = "k1", **claims: object) -> str:
    content = {"iss": ISSUER, "aud": AUDIENCE, "sub": "1234", "email": "anna@bank.example", "exp": time.time() + 600}
    content |= claims
    kept = {name: value for name, value in content.items() if value is not None}
    return jwt.encode(kept, key, algorithm, headers={"kid": kid})


def test_the_subject_is_the_account_and_the_claim_its_name(header: SignedHeader) -> None:
    expected = Ticket(Account(ISSUER, "1234", "anna@bank.example"), by_browser=True)
    assert asyncio.run(header.read(token())) == expected


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(token(OTHER_KEY), id="another key"),
        pytest.param(token(kid="k2"), id="unknown key"),
        pytest.param(token(PUBLIC["x"], "HS256"), id="signed with a part of the public key"),
        pytest.param(jwt.encode({"sub": "1234"}, "", "none"), id="not signed"),
        pytest.param(token(iss="https://elsewhere.example"), id="another issuer"),
        pytest.param(token(aud="/projects/8"), id="another audience"),
        pytest.param(token(exp=time.time() - 60), id="expired"),
        pytest.param(token(email=None), id="without the claim"),
        pytest.param("x", id="no token"),
    ],
)
def test_any_other_token_is_refused(header: SignedHeader, text: str) -> None:
    with pytest.raises(TicketInvalid, match="the token of the proxy in X-Goog-IAP-JWT-Assertion is not valid"):
        asyncio.run(header.read(text))


def test_keys_that_cannot_be_fetched_admit_no_one() -> None:
    header = SignedHeader(ProxyLogin("X-Token", "http://127.0.0.1:1/keys", ISSUER, AUDIENCE))
    with pytest.raises(TicketInvalid, match="is not valid"):
        asyncio.run(header.read(token()))


def test_settings_without_issuer_or_audience_are_refused() -> None:
    with pytest.raises(ConfigError, match="proxy_login needs keys_url, issuer, audience"):
        SignedHeader(ProxyLogin("X-Token"))
