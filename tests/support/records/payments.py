"""A sample payment."""

from __future__ import annotations

from typing import Any


def sample_payment(transaction_id: Any, event_ms: Any, **members: Any) -> dict[str, Any]:
    """A valid payment of the shipped schema, with other or further members."""
    plain = {"payeeId": 1, "beneficiaryId": 1, "paymentType": "CSH", "paymentAmount": 1}
    return {"transactionId": transaction_id, "eventTime": event_ms, **plain, **members}
