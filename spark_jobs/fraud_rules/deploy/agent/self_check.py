"""Checks a release before its start: `python -m fraud_rules.deploy.agent.self_check DETECTOR-ARGUMENTS`.

The check runs with the code of the release. A small stream must give the known answer, and the detector's own check of
configuration, broker, master and checkpoint must pass. The check changes nothing. Its exit code is that of the error.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import ReleaseInvalid
from fraud_rules.model.schema import Field, FieldType, TransactionSchema
from fraud_rules.replay.kernel_cache import load_kernel
from fraud_rules.replay.replay import replay

_SCHEMA: Final = TransactionSchema(
    (
        Field("transactionId", FieldType.LONG),
        Field("eventTime", FieldType.TIMESTAMP),
        Field("account", FieldType.STRING),
        Field("amount", FieldType.DECIMAL, precision=18, scale=2),
    )
)


_START_MS: Final = 1_700_000_000_000


def _rule(rule_id: int, **members: Any) -> dict[str, Any]:
    common = {
        "ruleId": rule_id,
        "ruleState": "ACTIVE",
        "groupingKeyNames": ["account"],
        "aggregateFieldName": "amount",
        "limitOperatorType": ">",
        "windowMinutes": 1,
    }
    return {"at": rule_id, "rule": {**common, **members}}


def _tx(identity: int, after_ms: int, account: str, amount: str) -> dict[str, Any]:
    at_ms = _START_MS + after_ms
    members = {"transactionId": identity, "eventTime": at_ms, "account": account, "amount": amount}
    return {"at": at_ms, "tx": members}


_STREAM: Final = {
    "steps": [
        _rule(1, aggregatorFunctionType="SUM", limit="0.30"),
        _rule(2, aggregatorFunctionType="COUNT", limit=2, filter="amount >= 0.1"),
        _tx(1, 1_000, "a", "0.10"),
        _tx(2, 2_000, "a", "0.20"),
        _tx(3, 3_000, "b", "0.05"),
        _tx(4, 61_000, "a", "0.11"),  # a window includes both of its ends
        _tx(5, 61_001, "a", "0.11"),  # the first transaction is outside the window
        _tx(5, 61_002, "a", "9.99"),  # a duplicate
    ]
}
_ALERTS: Final = [(4, 1, "0.41"), (4, 2, "3"), (5, 1, "0.42"), (5, 2, "3")]


def known_answer() -> None:
    """Raise ReleaseInvalid if the engine gives a wrong answer."""
    answer = replay(_STREAM, _SCHEMA, DetectorSettings())
    found = [(alert["transactionId"], alert["ruleId"], alert["triggeringValue"]) for alert in answer["alerts"]]
    if found != _ALERTS or answer["duplicates"] != [5]:
        raise ReleaseInvalid(f"this code gives wrong alerts: {found}, expected {_ALERTS}")


def main() -> int:
    """Run the check. Return 0 if the release can start, else the error's exit code, with its message on stderr."""
    try:
        load_kernel()
        known_answer()
        import detector
    except ReleaseInvalid as error:
        return _failed(str(error))
    except Exception as error:  # noqa: BLE001 - any error means that the code cannot run
        return _failed(f"this code cannot be run: {type(error).__name__}: {error}")
    sys.argv[1:] = ["--check", *sys.argv[1:]]
    return detector.main()


def _failed(why: str) -> int:
    sys.stderr.write(f"detector: {why}\n")
    return ReleaseInvalid.exit_code


if __name__ == "__main__":
    sys.exit(main())
