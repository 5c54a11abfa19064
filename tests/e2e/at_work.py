"""Data for the pages: rules in several states, a list, a map, alerts, a pending request and an unreadable record."""

from __future__ import annotations

from typing import Any

from tests.e2e.world import World
from tests.support.waiting import until


def put_to_work(running: World) -> int:
    """Create all data. Return the id of a live rule that has fired."""
    made = running.ask("POST", "/lists", "ann", json={"name": "mules", "type": "long", "values": ["9150", "9151"]})
    assert made.status_code == 201, made.text
    limits = {"name": "limits", "keyType": "long", "valueType": "decimal", "entries": {"9150": "250", "9151": "99.5"}}
    made = running.ask("POST", "/maps", "ann", json=limits)
    assert made.status_code == 201, made.text
    rapid = running.rule(RAPID, "SHADOW")
    asked = running.rule(VELOCITY, "SHADOW")
    running.rule(CASH)
    running.rule(MULES)
    resets = running.rule(DEMO_FORM, "SHADOW")
    for rule_id in (rapid, asked):
        running.request_active(rule_id)
    running.approve(rapid)
    running.await_live(rapid)
    running.await_live(resets)
    for payer in range(9_100, 9_100 + FRAUDS):
        running.pay(payer, 12_000, 9_400.5, beneficiary=payer + 50)
    for alert, verdict in zip(_alerts(running, rapid), ["FRAUD", "FRAUD", "FRAUD", "NOT_FRAUD"], strict=False):
        marked = running.ask("PUT", f"/alerts/{alert['alertId']}/mark", "ann", json={"verdict": verdict})
        assert marked.is_success, marked.text
    running.garbage('{"transactionId": 1, "paymentAmount": "much"')
    return rapid


def _alerts(running: World, rule_id: int) -> list[dict[str, Any]]:
    def all_there() -> list[dict[str, Any]] | None:
        found: list[dict[str, Any]] = running.ask("GET", f"/alerts?ruleId={rule_id}").json()["items"]
        return found if len(found) >= FRAUDS else None

    return until(all_there, "the alerts are shown")


FRAUDS = 7
RAPID: dict[str, Any] = {
    "name": "Rapid transfers to one beneficiary",
    "description": "One payer moves much to the same beneficiary, in however many payments.",
    "severity": "high",
    "owner": "payments-fraud",
    "groupingKeyNames": ["payeeId", "beneficiaryId"],
    "aggregateFieldName": "paymentAmount",
    "aggregatorFunctionType": "SUM",
    "limitOperatorType": ">",
    "limit": 20_000,
    "windowMinutes": 20,
    "filter": "paymentType = 'CRD'",
}
VELOCITY: dict[str, Any] = {
    "name": "Payment velocity",
    "severity": "medium",
    "owner": "payments-fraud",
    "groupingKeyNames": ["payeeId"],
    "aggregatorFunctionType": "COUNT",
    "limitOperatorType": ">",
    "limit": 80,
    "windowSeconds": 10,
}
CASH: dict[str, Any] = {
    "name": "Cash far above the average",
    "severity": "low",
    "owner": "cash-desk",
    "groupingKeyNames": ["payeeId"],
    "aggregateFieldName": "paymentAmount",
    "aggregatorFunctionType": "AVG",
    "limitOperatorType": ">=",
    "limit": 2_500,
    "windowMinutes": 1_440,
    "filter": "paymentType = 'CSH'",
}
MULES: dict[str, Any] = {
    "name": "Many payers, one beneficiary",
    "severity": "critical",
    "owner": "mule-accounts",
    "groupingKeyNames": ["beneficiaryId"],
    "aggregatorFunctionType": "COUNT_DISTINCT",
    "unique": ["payeeId"],
    "limitOperatorType": ">",
    "limit": 25,
    "windowMinutes": 60,
}
# A count in the notation of the Flink demo.
DEMO_FORM: dict[str, Any] = {
    "name": "Card payments, counted anew after each alert",
    "severity": "low",
    "owner": "payments-fraud",
    "groupingKeyNames": ["paymentType"],
    "aggregateFieldName": "COUNT_WITH_RESET_FLINK",
    "aggregatorFunctionType": "SUM",
    "limitOperatorType": ">=",
    "limit": 5_000,
    "windowMinutes": 1_440,
}
