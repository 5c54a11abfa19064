"""Signatures of proofs: Ed25519, over the digest of the file. Keys are PEM files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from fraud_rules.errors import ConfigError, ProofInvalid
from fraud_rules.proof.document import Seal

_CONTEXT: Final = b"fraud proof 1\n"


def signer_of(path: Path) -> Callable[[str], tuple[str, str]]:
    """The function that signs a digest with the private key of a file. Raises ConfigError."""
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path} has no private key in PEM without a password: {error}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{path} has no Ed25519 key: make one with `openssl genpkey -algorithm ed25519 -out FILE`")
    return lambda digest: (key.public_key().public_bytes_raw().hex(), key.sign(_CONTEXT + digest.encode()).hex())


def read_public_key(path: Path) -> str:
    """The public key of a file, in hex. Raises ConfigError."""
    try:
        key = load_pem_public_key(path.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path} has no public key in PEM: {error}") from error
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError(f"{path} has no Ed25519 key")
    return key.public_bytes_raw().hex()


def check_signature(seal: Seal, trusted: str | None) -> None:
    """Check that the key in the seal, which must be the trusted one if there is one, signed the digest. Raises
    ProofInvalid."""
    if trusted is not None and seal.public_key != trusted:
        signer = f"with the key {fingerprint(seal.public_key)}" if seal.public_key else "with no key"
        raise ProofInvalid(f"the file must be signed with the key {fingerprint(trusted)}, but is signed {signer}")
    if not seal.public_key:
        return
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(seal.public_key))
        key.verify(bytes.fromhex(seal.signature), _CONTEXT + seal.sha256.encode())
    except (InvalidSignature, ValueError) as error:
        raise ProofInvalid(f"the signature is not that of the key {fingerprint(seal.public_key)}") from error


def fingerprint(public_key: str) -> str:
    """The name of a public key for people: the beginning of its SHA-256."""
    return hashlib.sha256(public_key.encode()).hexdigest()[:16]
