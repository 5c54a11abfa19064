"""Unreadable records that other programs may write."""

from __future__ import annotations

import json

__all__ = ["HOSTILE"]

HOSTILE: dict[str, bytes | None] = {
    "garbage": b"\x00\x01\xff\xfe garbage",
    "truncated": b'{"ruleId": 1,',
    "not UTF-8": b'{\xff"ruleId": 1}',
    "huge number": b"1E+999999999999999999999",
    "huge number in a member": b'{"ruleId": 1, "limit": 1E+999999999999999999999, "x": 1}',
    "many digits": b'{"ruleId": ' + b"9" * 5_000 + b"}",
    "deep": b"[" * 50_000,
    "deep object": b'{"ruleId":' * 3_000 + b"1" + b"}" * 3_000,
    "newer version": json.dumps({"ruleId": 1, "ruleState": "ACTIVE", "version": 99, "body": {"limits": []}}).encode(),
    "another type": b'{"ruleId": "x", "op": 7, "after": 3}',
    "empty": b"",
    "tombstone": None,
}
