"""Values in a topic of alerts or corrections that no program of this product writes."""

from __future__ import annotations

UNREADABLE: list[bytes | None] = [
    None,
    b"",
    b"\xff\x00 garbage",
    b'{"alertId": "1", "eventTime": 17',
    b"[" * 5_000,
    b'{"alertId": "1", "kind": "ADDED", "eventTime": 1e999999999}',
    b'{"alertId": "1", "kind": "ADDED", "eventTime": %d}' % 10**30,
    b'{"alertId": "1", "kind": "ADDED", "eventTime": -62135596800001}',
    b'{"formatOfTomorrow": 9, "alerts": []}',
]
