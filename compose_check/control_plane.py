"""Users of the control plane: FAB's login, roles, and an activation that needs a second person."""

from __future__ import annotations

import re
from typing import Any

import httpx

from compose_check.errors import CheckFailed
from compose_check.stack import Stack
from fraud_local.users import LocalUsers
from fraud_ops.paths import API

__all__ = [
    "ANSWER_S",
    "LARGE_PAYMENT_RULE",
    "ControlPlaneUsers",
    "activate_with_four_eyes",
    "add_user",
    "require_active",
]

_API_SERVER = "airflow-api-server"
ANSWER_S = 300.0

LARGE_PAYMENT_RULE: dict[str, Any] = {
    "name": "A large payment, written by the check",
    "groupingKeyNames": ["beneficiaryId"],
    "aggregateFieldName": "paymentAmount",
    "aggregatorFunctionType": "MAX",
    "limitOperatorType": ">",
    "limit": 30_000,
    "windowMinutes": 1,
}


class ControlPlaneUsers(LocalUsers):
    """Requests of users in FAB's table. They have the first user's password."""

    def log_in_by_form(self, user: str) -> str:
        """Log in with FAB's page as a browser does. Return the user that the control plane recognises."""
        with httpx.Client(base_url=self.url, timeout=ANSWER_S, follow_redirects=True) as browser:
            page = browser.get("/auth/login/")
            token = re.search(r'name="csrf_token"[^>]*value="([^"]+)"', page.text)
            if token is None:
                raise CheckFailed(f"FAB's login page has no form ({page.status_code})")
            filled = {"username": user, "password": self.password, "csrf_token": token[1]}
            browser.post("/auth/login/", data=filled, headers={"Referer": f"{self.url}/auth/login/"})
            return str(_expect(browser.get(f"{API}/me"), 200)["user"])

    def expect(self, user: str, method: str, path: str, status: int = 200, **options: Any) -> dict[str, Any]:
        """Send a request that must be answered with this status. Raises CheckFailed."""
        return _expect(self.ask(method, path, user, **options), status)


def add_user(stack: Stack, user: str, password: str) -> None:
    """Add a user without rights in Airflow to FAB's table."""
    about = ("--username", user, "--firstname", user, "--lastname", "check", "--email", f"{user}@example.org")
    command = ("airflow", "users", "create", "--role", "Viewer", *about)
    stack.execute(_API_SERVER, *command, input_text=f"{password}\n{password}\n")


def activate_with_four_eyes(users: ControlPlaneUsers, author: str, approver: str) -> int:
    """Write a rule and activate it with a second person's approval. Return the rule's id.

    Raises CheckFailed, also if the author can activate the rule alone.
    """
    rule = users.expect(author, "POST", "/rules", 201, json={"document": LARGE_PAYMENT_RULE})
    shadow = _move(users, author, rule, "SHADOW", 200)
    waiting = _move(users, author, shadow, "ACTIVE", 202)
    if waiting["state"] != "SHADOW":
        raise CheckFailed(f"an analyst activated a rule alone: {waiting['state']}")
    (approval,) = users.expect(approver, "GET", "/approvals")["items"]
    users.expect(author, "POST", f"/approvals/{approval['id']}/approve", 403, json={"comment": ""})
    users.expect(approver, "POST", f"/approvals/{approval['id']}/approve", 200, json={"comment": ""})
    require_active(users, author, rule["ruleId"])
    return int(rule["ruleId"])


def require_active(users: ControlPlaneUsers, user: str, rule_id: int) -> None:
    """Raises CheckFailed if the control plane does not show a user this rule as active."""
    state = users.expect(user, "GET", f"/rules/{rule_id}")["state"]
    if state != "ACTIVE":
        raise CheckFailed(f"the approved rule {rule_id} is {state}")


def _move(users: ControlPlaneUsers, user: str, rule: dict[str, Any], state: str, status: int) -> dict[str, Any]:
    match = {"If-Match": f'"{rule["revision"]}"'}
    transition = {"state": state, "comment": "large payments are rare"}
    users.expect(user, "POST", f"/rules/{rule['ruleId']}/state", status, json=transition, headers=match)
    return users.expect(user, "GET", f"/rules/{rule['ruleId']}")


def _expect(answer: httpx.Response, status: int) -> dict[str, Any]:
    if answer.status_code != status:
        asked = f"{answer.request.method} {answer.request.url.path}"
        raise CheckFailed(f"{asked}: {answer.status_code} instead of {status}: {answer.text[:300]}")
    document: dict[str, Any] = answer.json()
    return document
