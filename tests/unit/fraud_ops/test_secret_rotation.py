"""The keys of Airflow rotate as docs/security.md says: two of them are valid at the same time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from airflow.api_fastapi.auth.tokens import (
    JWTGenerator,
    JWTValidator,
    generate_private_key,
    get_sig_validation_args,
    key_to_jwk_dict,
)
from airflow.models import Connection
from airflow.models.crypto import get_fernet
from cryptography.fernet import Fernet

AUDIENCE = "urn:airflow.apache.org:task"


@pytest.fixture(autouse=True)
def fresh_fernet() -> Iterator[None]:
    get_fernet.cache_clear()
    yield
    get_fernet.cache_clear()


def claims(token: str) -> dict[str, Any]:
    found: dict[str, Any] = asyncio.run(
        JWTValidator(audience=AUDIENCE, **get_sig_validation_args()).avalidated_claims(token)
    )
    return found


def test_tokens_of_both_keys_are_valid_while_the_file_has_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [generate_private_key("Ed25519") for _ in range(2)]
    old, new = (
        JWTGenerator(private_key=key, audience=AUDIENCE, valid_for=600).generate({"sub": "a task"}) for key in keys
    )
    trusted = tmp_path / "jwks.json"
    monkeypatch.setenv("AIRFLOW__API_AUTH__TRUSTED_JWKS_URL", str(trusted))
    trusted.write_text(json.dumps({"keys": [key_to_jwk_dict(key) for key in keys]}))
    assert {claims(token)["sub"] for token in (old, new)} == {"a task"}
    trusted.write_text(json.dumps({"keys": [key_to_jwk_dict(keys[1])]}))
    assert claims(new)["sub"] == "a task"
    with pytest.raises(jwt.InvalidTokenError):
        claims(old)


def test_a_connection_of_the_old_fernet_key_is_read_and_saved_with_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = (Fernet.generate_key().decode() for _ in range(2))

    def use(keys: str) -> None:
        monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", keys)
        get_fernet.cache_clear()

    use(old)
    found = Connection(conn_id="fraud_intent_key", conn_type="generic", password="a secret")
    use(f"{new},{old}")
    assert found.password == "a secret"
    found.rotate_fernet_key()
    use(new)
    assert found.password == "a secret"
