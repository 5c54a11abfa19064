"""Sample payments."""

from __future__ import annotations

import json
from typing import Any


def sample_payment(transaction_id: Any, event_ms: Any, **members: Any) -> dict[str, Any]:
    """A valid payment of the shipped schema, with other or further members."""
    plain = {"payeeId": 1, "beneficiaryId": 1, "paymentType": "CSH", "paymentAmount": 1}
    return {"transactionId": transaction_id, "eventTime": event_ms, **plain, **members}


def payment_record(transaction_id: Any, event_ms: Any, **members: Any) -> bytes:
    """`sample_payment` as a record of its topic."""
    return json.dumps(sample_payment(transaction_id, event_ms, **members)).encode()
