"""Replaces ids of people by pseudonyms in rows of the audit log, which stay when the person's data is erased.

A pseudonym is the HMAC-SHA256 of the id with a random key of this id. An erasure deletes the key: then the chain of the
audit log still verifies, and its rows no longer lead to the person. A key of all ids would not do, because a person who
has it can try all account numbers.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Any, Final

from sqlalchemy.orm import Session

from fraud_control.domain.masking import Masking
from fraud_control.store.alert_models import VALUE_CHARS
from fraud_control.store.privacy_models import PseudonymRow
from fraud_rules.model.schema import TransactionSchema

_KEY_BYTES: Final = 32
_SHOWN_CHARS: Final = 32


class Pseudonyms:
    """The pseudonyms of a writer's transaction. A new id gets a key."""

    def __init__(self, session: Session, schema: TransactionSchema) -> None:
        self._session = session
        self._masking = Masking(schema, self.of)

    def of(self, value: str) -> str:
        """The pseudonym of an id."""
        return self.digest(value, value)

    def digest(self, value: str, text: str) -> str:
        """The keyed hash of a text about the person with this id."""
        value = value.replace("\0", "")[:VALUE_CHARS]
        row = self._session.get(PseudonymRow, value)
        if row is None:
            row = PseudonymRow(value=value, secret=secrets.token_bytes(_KEY_BYTES))
            self._session.add(row)
            self._session.flush()
        return "id:" + hmac.new(row.secret, text.encode(), hashlib.sha256).hexdigest()[:_SHOWN_CHARS]

    def document(self, document: Any) -> Any:
        """Replace the values of masked fields in a document."""
        return self._masking.document(document)

    @property
    def fields(self) -> frozenset[str]:
        """The fields and entities whose values identify people."""
        return self._masking.names
