"""A byte search for records with a value of a field, which is much cheaper than decoding them."""

from __future__ import annotations

from dataclasses import dataclass

from fraud_rules.model.declared.field_source import Origin
from fraud_rules.model.declared.record_format import BINARY
from fraud_rules.model.schema import Envelope, FieldType, TransactionSchema


@dataclass(frozen=True, slots=True)
class Needle:
    """Bytes that each record with the value has, in its key or in its value."""

    text: bytes
    is_of_key: bool

    @classmethod
    def of(cls, schema: TransactionSchema, name: str, value: object) -> Needle:
        """The needle for a field's value. It is empty, so all records have it, if records may write the value in
        several ways, and for a field that comes from a header."""
        field = schema.field(name)
        # The data of a CloudEvent may be in base64, and binary formats have no text of a number.
        is_encoded = schema.unwrap is Envelope.CLOUDEVENTS or schema.format.format in BINARY
        searched = (Origin.KEY,) if is_encoded else (Origin.KEY, Origin.VALUE)
        if field is None or field.source.origin not in searched:
            return cls(b"", False)
        is_plain = (field.type is FieldType.LONG and type(value) is int) or (
            field.type is FieldType.STRING and isinstance(value, str) and value.isascii() and value.isalnum()
        )
        return cls(str(value).encode() if is_plain else b"", field.source.origin is Origin.KEY)

    def is_in(self, key: bytes | str | None, value: bytes | str | None) -> bool:
        """Whether a record with this key and value may have the field's value."""
        text = key if self.is_of_key else value
        return self.text in text if isinstance(text, bytes) else not self.text
