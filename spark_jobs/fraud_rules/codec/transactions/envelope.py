"""Takes the payment out of the envelope that surrounds it in each record.

The formats: Kafka Connect's JsonConverter with schemas, Debezium's change events (also inside the former), and
CloudEvents 1.0 in structured mode.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from fraud_rules.codec.transactions.tree import ABSENT, member_of, parse_object
from fraud_rules.errors import RecordRejected
from fraud_rules.model.schema import Envelope

CREATED: Final = "c"
"""Debezium's operation for a created row."""

_OTHER_CHANGES: Final = ("r", "u", "d", "t", "m")
"""Debezium's other operations: a row that a snapshot has read, an update, a delete, a truncation, a message."""


def unwrapped(tree: dict[str, object], envelope: Envelope) -> object:
    """The payment in a decoded record. None if the record describes no new payment.

    Raises RecordRejected with the reason `bad_envelope` for another record.
    """
    match envelope:
        case Envelope.NONE:
            return tree
        case Envelope.CONNECT:
            return _member(tree, "payload")
        case Envelope.DEBEZIUM:
            return _created(tree)
        case Envelope.CLOUDEVENTS:
            return _data(tree)


def _member(tree: object, name: str) -> object:
    found = member_of(tree, name) if isinstance(tree, dict) else ABSENT
    if found is ABSENT:
        raise RecordRejected("bad_envelope", f"the record has no member `{name}`")
    return found


def _created(tree: dict[str, object]) -> object:
    change = member_of(tree, "payload") if member_of(tree, "op") is ABSENT else tree
    if change is None:
        return None  # a tombstone inside Kafka Connect's envelope
    operation = _member(change, "op")
    if operation == CREATED:
        return _member(change, "after")
    if operation not in _OTHER_CHANGES:
        raise RecordRejected("bad_envelope", "`op` is none of Debezium's operations")
    return None


def _data(tree: dict[str, object]) -> object:
    _member(tree, "specversion")
    encoded = member_of(tree, "data_base64")
    if encoded is ABSENT:
        return _member(tree, "data")
    try:
        body = base64.b64decode(str(encoded), validate=True)
        return parse_object(body, body.decode())
    except (binascii.Error, ValueError) as error:
        raise RecordRejected("bad_envelope", f"`data_base64` is not JSON in base64: {error}") from None
