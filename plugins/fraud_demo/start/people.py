"""The demo's users: gives them their roles, labels past frauds, and makes the first request for approval.

The requests go through the API of the control plane, as the pages send them. They run in a thread, so that no alert
waits for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

import httpx

from fraud_demo.own_rules import MULE_RULE_ID
from fraud_demo.start.past_days import fraud_labels, past_days
from fraud_local.users import USER, LocalUsers
from fraud_rules.runtime.lifetime import BackgroundWork

ROLES: Final[Mapping[str, str]] = {"ann": "analyst", "ben": "approver", "vera": "viewer"}

_SHADOW_RULE: Final = 7
_TIMEOUT_S: Final = 20.0
_EVERY_S: Final = 1.0
_ATTEMPTS_S: Final = 300.0


def describe_people() -> str:
    """The users and their roles: `ann (analyst), ben (approver), vera (viewer)`."""
    return ", ".join(f"{user} ({role})" for user, role in ROLES.items())


class DemoPeople(BackgroundWork):
    """Acts as the demo's users. `report` gets one line if that fails: the demo then has only its admin."""

    def __init__(self, url: str, password: str, report: Callable[[str], None]) -> None:
        self._users = LocalUsers(url, password, _TIMEOUT_S)
        self._report = report
        super().__init__("demo-people", _TIMEOUT_S)

    def _run(self) -> None:
        deadline_s = time.monotonic() + _ATTEMPTS_S
        steps = [self._bind, self._label, self._approve, self._request]
        fault = ""
        while steps and time.monotonic() < deadline_s and not self._stop.wait(_EVERY_S):
            try:
                steps[0]()
                del steps[0]
            except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:  # it starts, or a rule is not there
                fault = str(error)
        if steps and not self._stop.is_set():
            self._report(f"the users {describe_people()} are not complete: {fault}")

    def _bind(self) -> None:
        for user, role in ROLES.items():
            self._ask(USER, "PUT", f"/bindings/{user}", {"role": role})

    def _label(self) -> None:
        """Upload the labels of the past days, so that each what-if counts the frauds that it catches."""
        file = {"name": "reported-frauds.csv", "format": "csv", "content": fraud_labels(past_days())}
        self._ask("ann", "POST", "/labels", file)

    def _approve(self) -> None:
        """Let a second person approve the demo's own rule, which four eyes require of each active rule."""
        rule = self._ask("ann", "GET", f"/rules/{MULE_RULE_ID}")
        document = {**rule.json()["document"], "weight": 40}
        change = {"document": document, "comment": "a listed mule declines a payment together with another rule"}
        asked = self._ask("ann", "PUT", f"/rules/{MULE_RULE_ID}", change, rule.headers["ETag"])
        approval = asked.json()["pendingApproval"]["id"]
        self._ask("ben", "POST", f"/approvals/{approval}/approve", {"comment": "the list is from the police"})

    def _request(self) -> None:
        """Request the activation of the seed rule in shadow, which stays open."""
        rule = self._ask("ann", "GET", f"/rules/{_SHADOW_RULE}")
        change = {"state": "ACTIVE", "comment": "fires well in shadow"}
        self._ask("ann", "POST", f"/rules/{_SHADOW_RULE}/state", change, rule.headers["ETag"])

    def _ask(self, user: str, method: str, path: str, body: object = None, etag: str = "") -> httpx.Response:
        """Send a request as a user. Raises httpx.HTTPError, also if it is refused."""
        headers = {"If-Match": etag} if etag else {}
        return self._users.ask(method, path, user, json=body, headers=headers).raise_for_status()
