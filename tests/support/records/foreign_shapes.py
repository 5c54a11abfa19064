"""The same payments in the shapes of other companies' topics."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Final

PAYMENTS: Final = 400
FIRST_MS: Final = 1_764_000_000_000
CENT: Final = 100


@dataclass(frozen=True, slots=True)
class Payment:
    """One payment; the amount in cents."""

    id: int
    at_ms: int
    payer: str
    payee: int
    cents: int
    currency: str
    is_new: bool

    @property
    def amount(self) -> float:
        return self.cents / CENT

    @property
    def text(self) -> str:
        return f"{self.cents // CENT}.{self.cents % CENT:02d}"

    @property
    def connect(self) -> str:
        """The amount as Kafka Connect encodes a decimal."""
        return base64.b64encode(self.cents.to_bytes(4, "big", signed=True)).decode()

    def iso(self, offset_h: int = 0) -> str:
        return datetime.fromtimestamp(self.at_ms / 1_000, timezone(timedelta(hours=offset_h))).isoformat(
            timespec="milliseconds"
        )


def payments(count: int = PAYMENTS, first_ms: int = FIRST_MS) -> list[Payment]:
    """Payments with different ids and amounts, whole seconds apart."""
    rng = random.Random(3)
    return [
        Payment(
            100_000 + 7 * i,
            first_ms + 1_000 * i,
            f"A-{rng.randrange(60):05d}",
            rng.randrange(90),
            rng.randrange(100, 99_999),
            rng.choice(("EUR", "USD")),
            rng.random() < 0.1,
        )
        for i in range(count)
    ]


def _flat(of: Payment) -> Any:
    return {
        "transactionId": of.id,
        "eventTime": of.at_ms,
        "payerId": of.payer,
        "payeeId": of.payee,
        "amount": of.amount,
        "currency": of.currency,
    }


def _seconds(of: Payment) -> Any:
    return {
        "txn_id": str(of.id),
        "ts": of.at_ms // 1_000,
        "sender": of.payer,
        "receiver": of.payee,
        "amount": of.text,
        "newDevice": of.is_new,
    }


def _nested(of: Payment) -> Any:
    return {
        "header": {"messageId": f"m-{of.id}", "producedAt": of.at_ms * 1_000, "retries": None},
        "payment": {
            "reference": f"R{of.id}",
            "amount": {"value": of.amount, "currency": of.currency},
            "debtor": {"account": {"iban": f"DE{of.payer}"}},
            "creditor": {"account": {"iban": f"FR{of.payee}"}},
            "lines": [{"text": "one"}],
        },
    }


def _local_iso(of: Payment) -> Any:
    return {
        "paymentId": of.id,
        "bookedAt": of.iso(1)[:-6],
        "accountFrom": of.payer,
        "accountTo": of.payee,
        "amountCents": of.cents,
    }


_DECIMAL = {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}, "type": "bytes"}


def _connect(of: Payment) -> Any:
    row = {"ID": of.id, "CREATED_TS": of.at_ms, "AMOUNT": of.connect, "ACCOUNT": of.payer, "MERCHANT_ID": of.payee}
    return {"schema": {"type": "struct", "fields": [{"field": "AMOUNT", **_DECIMAL}]}, "payload": row}


def _debezium(of: Payment) -> Any:
    row = {"id": of.id, "created_at": of.at_ms * 1_000, "amount": of.text, "customer_id": of.payee, "card": of.payer}
    source = {"table": "payments", "ts_ms": of.at_ms}
    operation = "u" if of.id % 5 == 0 else "c"
    return {"before": None, "after": row, "source": source, "op": operation, "ts_ms": of.at_ms}


def _debezium_in_connect(of: Payment) -> Any:
    change = _debezium(of)
    change["after"]["amount"] = of.connect
    after = {"field": "after", "type": "struct", "fields": [{"field": "amount", **_DECIMAL}]}
    return {"schema": {"type": "struct", "fields": [after]}, "payload": change}


def _cloud_event(of: Payment) -> Any:
    at = of.iso().replace("+00:00", "Z")
    data = {"paymentId": of.id, "executedAt": at, "payer": {"id": of.payer}, "payee": {"id": of.payee}}
    event = {"specversion": "1.0", "id": f"e-{of.id}", "type": "payment.created", "source": "/pay", "time": at}
    return {**event, "data": {**data, "amount": of.amount}}


def _csv(of: Payment) -> str:
    return f"{of.id},{of.at_ms // 1_000},{of.payer},{of.payee},{of.currency},{of.text}"


SHAPES: Final[dict[str, Callable[[Payment], Any]]] = {
    "flat": _flat,
    "seconds, numbers in quotes": _seconds,
    "nested, microseconds": _nested,
    "local ISO times, cents": _local_iso,
    "Kafka Connect": _connect,
    "Debezium": _debezium,
    "Debezium in Kafka Connect": _debezium_in_connect,
    "CloudEvents": _cloud_event,
    "CSV, seconds": _csv,
}


def record(shape: str, of: Payment) -> bytes:
    """The payment as a record of this shape."""
    made = SHAPES[shape](of)
    return (made if isinstance(made, str) else json.dumps(made)).encode()


def is_payment(shape: str, of: Payment) -> bool:
    """Whether the record of this shape describes a new payment."""
    return not shape.startswith("Debezium") or of.id % 5 != 0
