"""Roles with the FAB auth manager, which stores users in Airflow's database, in a real API server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fraud_control.domain.roles import Role
from fraud_local.airflow import LocalAirflow
from fraud_local.users import USER
from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import Broker
from tests.support.control_plane.scene import REASON
from tests.support.control_plane.web.api_server import PASSWORD, ApiServer, api_server
from tests.support.control_plane.web.server import RULE

MANAGER = "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
# A role in Airflow gives no role here: the user without a binding is an admin in Airflow.
USERS = {USER: "Viewer", "vera": "Op", "anna": "Viewer", "paul": "User", "root": "Admin"}
ADDED = """
import json, sys
from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder

password, users = json.load(sys.stdin)
with get_application_builder() as builder:
    for user, role in users.items():
        assert builder.sm.add_user(user, user, "of tests", f"{user}@example.org", builder.sm.find_role(role), password)
"""


GRANTED = """
import json, sys
from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder

dag_id, role = json.load(sys.stdin)
with get_application_builder() as builder:
    builder.sm.sync_perm_for_dag(dag_id, {role: {"can_edit"}})
"""


def add_users(airflow: LocalAirflow) -> None:
    assert run_script(airflow, ADDED, PASSWORD, USERS) == (0, "")


def run_script(airflow: LocalAirflow, script: str, *values: Any) -> tuple[int, str]:
    """Run a script in Airflow's environment, and return its exit code and the last line of a traceback."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(values),
        text=True,
        env=airflow.site.environment(),
        capture_output=True,
        check=False,
    )
    return done.returncode, done.stderr.strip().splitlines()[-1] if done.returncode else ""


@pytest.fixture
def with_fab(configured: Broker, project: Project, tmp_path: Path) -> Iterator[ApiServer]:
    with api_server(configured, project, tmp_path, add_users, CORE__AUTH_MANAGER=MANAGER) as server:
        yield server


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_binding_decides_the_role_and_airflow_does_not(with_fab: ApiServer) -> None:
    roles = {"vera": Role.VIEWER, "anna": Role.ANALYST, "paul": Role.APPROVER}
    for user, role in roles.items():
        assert with_fab.ask("PUT", f"/bindings/{user}", json={"role": role}).status_code == 200
    users = {user: with_fab.ask("GET", "/me", user).json() for user in USERS}
    assert {user: (each["user"], each["role"]) for user, each in users.items()} == {
        USER: (USER, "admin"),
        "vera": ("vera", "viewer"),
        "anna": ("anna", "analyst"),
        "paul": ("paul", "approver"),
        "root": ("root", None),
    }

    assert _status(with_fab, "GET", "/rules", "root") == 403
    assert _status(with_fab, "GET", "/rules", "vera") == 200
    assert _status(with_fab, "POST", "/rules", "vera", {"document": RULE}) == 403

    made = with_fab.ask("POST", "/rules", "anna", json={"document": RULE})
    assert made.status_code == 201, made.text
    assert _move(with_fab, made.json(), "SHADOW", "vera") == (403, None)
    assert _move(with_fab, made.json(), "SHADOW", "anna") == (200, "SHADOW")
    shadow = with_fab.ask("GET", f"/rules/{made.json()['ruleId']}", "vera").json()
    assert _move(with_fab, shadow, "ACTIVE", "anna") == (202, "SHADOW"), "an analyst can only request it"
    [asked] = with_fab.ask("GET", "/approvals", "vera").json()["items"]
    assert _status(with_fab, "POST", f"/approvals/{asked['id']}/approve", "anna", {"comment": ""}) == 403
    assert _status(with_fab, "POST", f"/approvals/{asked['id']}/approve", "paul", {"comment": ""}) == 200
    assert with_fab.ask("GET", f"/rules/{shadow['ruleId']}", "vera").json()["state"] == "ACTIVE"

    control = {"control": "CLEAR_STATE_ALL", "confirm": "CLEAR_STATE_ALL", "comment": ""}
    assert [_status(with_fab, "POST", "/controls", user, control) for user in ("root", "paul", USER)] == [403, 403, 202]
    authors = {row["who"] for row in with_fab.ask("GET", "/audit", "paul").json()["items"]}
    assert {USER, "anna", "paul"} <= authors and not {"vera", "root"} & authors
    _check_access_control(with_fab)


def _check_access_control(served: ApiServer) -> None:
    """The facts for which the DAGs have no `access_control` (docs/run.md)."""

    def trigger(user: str) -> int:
        path = "/api/v2/dags/fraud_detector_ops/dagRuns"
        return served.send("POST", path, user, json={"logical_date": None}).status_code

    # This server has no DAGs, so a user with the right to trigger gets 404.
    assert (trigger("anna"), trigger("paul"), trigger("vera")) == (403, 404, 404), "Viewer, User, Op"
    assert run_script(served.airflow, GRANTED, "fraud_detector_ops", "Op") == (0, "")
    assert trigger("paul") == 404, "a DAG whose access_control names only Op can still be triggered by User"
    code, fault = run_script(served.airflow, GRANTED, "fraud_detector_ops", "fraud-operators")
    assert code != 0
    assert "DagAccessControlValidationError" in fault, "a role that does not exist prevents the import of the DAG"


def _status(served: ApiServer, method: str, path: str, user: str, body: Any = None) -> int:
    return served.ask(method, path, user, json=body).status_code


def _move(served: ApiServer, rule: dict[str, Any], state: str, user: str) -> tuple[int, str | None]:
    """The answer's status, and the state of the rule after it."""
    match = {"If-Match": f'"{rule["revision"]}"'}
    transition = {"state": state, "comment": REASON}
    answer = served.ask("POST", f"/rules/{rule['ruleId']}/state", user, json=transition, headers=match)
    return answer.status_code, answer.json().get("state")
